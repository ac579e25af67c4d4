//! A setting can be given once.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.run", timeout = "5m", timeout = "1h")]
    async fn scratch(_job: JobInfo) -> Result<(), PrologFailed> {
        Ok(())
    }
}

fn main() {}
