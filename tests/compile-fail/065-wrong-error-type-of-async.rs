//! `EpilogFailed` is no error of a prolog.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.run")]
    async fn scratch(_job: JobInfo) -> Result<(), EpilogFailed> {
        Ok(())
    }
}

fn main() {}
