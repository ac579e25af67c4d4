//! Flux accepts any pattern; here only whole families have one.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.[rc]*")]
    fn watch(&self, job: &Job) {
        let _ = job.state();
    }
}

fn main() {}
