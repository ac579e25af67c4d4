//! `allocation.plan` is about no single job.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("allocation.plan")]
    fn plan(&self, job: &Job) -> Plan {
        Plan::new().order(job.id().to_string().as_str(), 1)
    }
}

fn main() {}
