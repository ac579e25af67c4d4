//! A job in NEW is not accepted yet: no plugin is called for that state.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.new")]
    fn new_job(&self, job: &Job) {
        let _ = job.id();
    }
}

fn main() {}
