//! Plugins can't call the manager's topics.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.validate")]
    fn validate(&self, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
        cx.call(&JobNew)?;
        Ok(())
    }
}

fn main() {}
