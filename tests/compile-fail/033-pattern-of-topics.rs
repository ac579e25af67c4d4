//! Flux takes patterns; here a handler says which topics it means.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.*")]
    fn watch(&self, job: &Job) {
        let _ = job.state();
    }
}

fn main() {}
