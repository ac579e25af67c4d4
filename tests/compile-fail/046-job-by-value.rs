//! The manager owns the job; a handler borrows it.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, job: Job) {
        let _ = job.id();
    }
}

fn main() {}
