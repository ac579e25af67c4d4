//! A job doesn't have resources at every event.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.event.priority")]
    fn event(&self, resources: &ResourceSet) {
        let _ = resources.nnodes();
    }
}

fn main() {}
