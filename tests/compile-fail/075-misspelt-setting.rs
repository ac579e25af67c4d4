//! A misspelt setting is reported with the one that was probably meant.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.run", on_restrat = "rerun")]
    async fn scratch(_job: JobInfo) -> Result<(), PrologFailed> {
        Ok(())
    }
}

fn main() {}
