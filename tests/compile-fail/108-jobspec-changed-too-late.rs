//! The jobspec of a job with resources can't be changed.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.run")]
    fn run(&self, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
        Ok(cx.jobspec_update(path!("attributes.system.duration"), 60)?)
    }
}

fn main() {}
