//! Only a dependency that the job has can be removed.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.event.depend")]
    fn depend(&self, cx: Cx<'_, JobEvent>) {
        cx.dependency_remove("license=matlab");
    }
}

fn main() {}
