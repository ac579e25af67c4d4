//! A removed dependency can't be used again.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.depend")]
    fn depend(&self, cx: Cx<'_, JobStateDepend>) -> Result<(), HandlerError> {
        let held = cx.dependency_add("license=matlab")?;
        cx.dependency_remove(held);
        cx.dependency_remove(held);
        Ok(())
    }
}

fn main() {}
