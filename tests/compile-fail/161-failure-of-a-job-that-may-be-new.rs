//! Updates and events may come before a job is accepted.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.update")]
    fn updated(&self, cx: Cx<'_, JobUpdate>) -> Result<(), HandlerError> {
        Ok(cx.fail("site", "no changes here")?)
    }
}

fn main() {}
