//! A path is checked at compile time.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.validate")]
    fn validate(&self, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
        Ok(cx.jobspec_update("attributes.system.queue", "batch")?)
    }
}

fn main() {}
