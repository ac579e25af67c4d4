//! A future does nothing until it is awaited.
#![deny(unused_must_use)]
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.run")]
    async fn run(remote: Remote<Self>) -> Result<(), PrologFailed> {
        remote.run_process(Process::new("make-scratch"));
        Ok(())
    }
}

fn main() {}
