//! What an `async` handler holds across an `.await` must be `Send`.
use jobtap_core::prelude::*;

use std::rc::Rc;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.run")]
    async fn scratch(job: JobInfo, remote: Remote<Self>) -> Result<(), PrologFailed> {
        let id = Rc::new(job.id);
        remote.sleep(1.0).await?;
        drop(id);
        Ok(())
    }
}

fn main() {}
