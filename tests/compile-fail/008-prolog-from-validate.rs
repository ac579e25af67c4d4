//! This topic doesn't allow this call.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.validate")]
    fn validate(&self, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
        let _token = cx.prolog_start("scratch");
        Ok(())
    }
}

fn main() {}
