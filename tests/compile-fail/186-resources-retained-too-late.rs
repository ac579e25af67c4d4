//! Resources can be retained only in `job.event.free`.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site {
    kept: Vec<Retained>,
}

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.inactive")]
    fn over(&mut self, cx: Cx<'_, JobStateInactive>) -> Result<(), HandlerError> {
        self.kept.push(cx.retain_resources()?);
        Ok(())
    }
}

fn main() {}
