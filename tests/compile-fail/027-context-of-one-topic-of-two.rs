//! The context of a handler on two topics names both.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.priority", "job.priority.get")]
    fn priority(&self, job: &Job, cx: Cx<'_, JobStatePriority>) -> Priority {
        Priority::clamped(cx.now() - job.t_submit())
    }
}

fn main() {}
