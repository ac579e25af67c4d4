//! The demand for allocations is borrowed.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("allocation.plan")]
    fn plan(&self, demand: Demand) -> Plan {
        assert!(demand.pending.is_empty());
        Plan::new()
    }
}

fn main() {}
