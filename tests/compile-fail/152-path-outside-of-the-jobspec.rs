//! Only some parts of a jobspec can be changed.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.validate")]
    fn validate(&self, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
        Ok(cx.jobspec_update(path!("version"), 2)?)
    }
}

fn main() {}
