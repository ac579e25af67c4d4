//! A later call has a context of its own.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Limits;

#[jobtap_plugin(name = "limits")]
impl Limits {
    #[on("job.state.run")]
    fn run(&self, cx: Cx<'_, JobStateRun>, remote: Remote<Self>) -> Result<(), HandlerError> {
        let at = cx.now() + 60.0;
        remote.at(at, |_limits, _late| cx.log(Level::Info, "a minute later"));
        Ok(())
    }
}

fn main() {}
