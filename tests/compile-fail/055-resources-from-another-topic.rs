//! Only `job.state.sched` returns resources.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.run")]
    fn run(&self, resources: &ResourceSet) -> ResourceSet {
        resources.clone()
    }
}

fn main() {}
