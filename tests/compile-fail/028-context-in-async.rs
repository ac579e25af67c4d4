//! A context ends with its callback, which an `async` handler outlives.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.run")]
    async fn scratch(job: JobInfo, cx: Cx<'_, JobStateRun>) -> Result<(), PrologFailed> {
        cx.log(Level::Info, format!("scratch for {}", job.id));
        Ok(())
    }
}

fn main() {}
