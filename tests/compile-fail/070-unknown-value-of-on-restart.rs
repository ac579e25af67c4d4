//! `on_restart` doesn't know this value.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.run", on_restart = "again")]
    async fn scratch(_job: JobInfo) -> Result<(), PrologFailed> {
        Ok(())
    }
}

fn main() {}
