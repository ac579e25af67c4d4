//! An `async` handler takes owned parameters.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.run")]
    async fn scratch(job: &Job) -> Result<(), PrologFailed> {
        let _ = job.id();
        Ok(())
    }
}

fn main() {}
