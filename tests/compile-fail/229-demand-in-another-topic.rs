//! Only `allocation.plan` has the demand for allocations.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, _job: &Job, demand: &Demand) {
        assert!(demand.pending.is_empty());
    }
}

fn main() {}
