//! A handler returns a decision, not a value of the job.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, job: &Job) -> JobId {
        job.id()
    }
}

fn main() {}
