//! A request for a change needs a decision.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.update.attributes.system.duration")]
    fn duration(&self, _request: &UpdateRequest) {}
}

fn main() {}
