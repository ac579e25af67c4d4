//! A finished token can't be used again.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.run")]
    fn run(&self, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
        let token = cx.prolog_start("scratch")?;
        token.finish(0);
        token.finish(1);
        Ok(())
    }
}

fn main() {}
