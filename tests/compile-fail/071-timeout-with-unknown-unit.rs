//! The timeout has no valid unit.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.run", timeout = "5 minutes")]
    async fn scratch(_job: JobInfo) -> Result<(), PrologFailed> {
        Ok(())
    }
}

fn main() {}
