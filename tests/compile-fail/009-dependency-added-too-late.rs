//! Dependencies can only be added up to DEPEND.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.priority")]
    fn priority(&self, cx: Cx<'_, JobStatePriority>) -> Priority {
        let _ = cx.dependency_add("licenses");
        Priority::UNCHANGED
    }
}

fn main() {}
