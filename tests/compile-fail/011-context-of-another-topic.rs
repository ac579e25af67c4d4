//! The context must be that of the handler's topic.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.validate")]
    fn validate(&self, cx: Cx<'_, JobStateRun>) -> Result<(), Reject> {
        let _ = cx.now();
        Ok(())
    }
}

fn main() {}
