//! A dropped prolog fails at once.
#![deny(unused_must_use)]
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.run")]
    fn run(&self, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
        cx.prolog_start("scratch")?;
        Ok(())
    }
}

fn main() {}
