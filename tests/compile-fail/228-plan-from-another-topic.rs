//! Only `allocation.plan` takes a plan of allocations.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.sched")]
    fn sched(&self, _job: &Job) -> Plan {
        Plan::new().order("small", 1)
    }
}

fn main() {}
