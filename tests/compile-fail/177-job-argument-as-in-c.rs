//! These calls are about the current job, which isn't named.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.depend")]
    fn depend(&self, job: &Job, cx: Cx<'_, JobStateDepend>) -> Result<(), HandlerError> {
        cx.dependency_add(job, "license=matlab")?;
        Ok(())
    }
}

fn main() {}
