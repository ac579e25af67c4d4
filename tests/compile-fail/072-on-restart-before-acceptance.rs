//! A job that isn't accepted doesn't survive a restart.
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
