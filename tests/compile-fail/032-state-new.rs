//! No plugin is called for NEW, since such a job isn't accepted yet.
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
