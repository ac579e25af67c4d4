//! A call needs an active job.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.inactive")]
    fn over(&self, job: &Job, cx: Cx<'_, JobStateInactive>) -> Result<(), HandlerError> {
        Ok(cx.subscribe(job)?)
    }
}

fn main() {}
