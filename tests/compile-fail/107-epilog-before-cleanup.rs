//! An epilog starts in CLEANUP.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.run")]
    fn run(&self, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
        cx.epilog_start("scrub")?.finish(0);
        Ok(())
    }
}

fn main() {}
