//! The topics of a context are a tuple.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.priority", "job.priority.get")]
    fn priority(&self, cx: Cx<'_, JobStatePriority, JobPriorityGet>) -> Priority {
        Priority::clamped(cx.now().as_secs())
    }
}

fn main() {}
