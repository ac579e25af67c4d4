//! An `async` handler outlives the callback, so it can't borrow the plugin.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.run")]
    async fn scratch(&self, job: JobInfo) -> Result<(), PrologFailed> {
        let _ = job.id;
        Ok(())
    }
}

fn main() {}
