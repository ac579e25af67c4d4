//! The parts of a path are names with dots between them.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.validate")]
    fn validate(&self, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
        Ok(cx.jobspec_update(path!("attributes..queue"), "batch")?)
    }
}

fn main() {}
