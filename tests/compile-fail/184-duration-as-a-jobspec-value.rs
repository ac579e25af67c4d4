//! A value in a jobspec is JSON.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.validate")]
    fn validate(&self, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
        let hour = std::time::Duration::from_secs(3600);
        Ok(cx.jobspec_update(path!("attributes.system.duration"), hour)?)
    }
}

fn main() {}
