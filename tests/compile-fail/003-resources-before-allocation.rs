//! The job may have no resources yet.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.sched")]
    fn sched(&self, resources: &ResourceSet) {
        let _ = resources.nnodes();
    }
}

fn main() {}
