//! There is nothing to restart for a job that isn't accepted.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.validate", on_restart = "rerun")]
    async fn validate(_job: JobInfo) -> Result<(), Reject> {
        Ok(())
    }
}

fn main() {}
