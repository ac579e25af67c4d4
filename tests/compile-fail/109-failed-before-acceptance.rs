//! A job that isn't accepted is rejected, not failed.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.validate")]
    fn validate(&self, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
        Ok(cx.fail("license", "no license left")?)
    }
}

fn main() {}
