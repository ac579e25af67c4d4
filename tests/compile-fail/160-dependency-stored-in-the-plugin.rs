//! A dependency is borrowed for the callback; look it up again later.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site {
    held: Vec<AddedDependency<'static>>,
}

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.depend")]
    fn depend(&mut self, cx: Cx<'_, JobStateDepend>) -> Result<(), HandlerError> {
        self.held.push(cx.dependency_add("license=matlab")?);
        Ok(())
    }
}

fn main() {}
