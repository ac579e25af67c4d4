//! `on_cancel` is a setting of prologs.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.cleanup", on_cancel = "run-on")]
    async fn scrub(_job: JobInfo) -> Result<(), EpilogFailed> {
        Ok(())
    }
}

fn main() {}
