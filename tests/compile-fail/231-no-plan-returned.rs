//! `allocation.plan` must return a plan.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("allocation.plan")]
    fn plan(&self, _demand: &Demand) {}
}

fn main() {}
