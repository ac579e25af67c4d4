//! A plugin that gives every job its urgency as priority, so that jobs get past PRIORITY.

use jobtap_core::prelude::*;

#[derive(Default)]
pub(crate) struct ByUrgency;

#[jobtap_plugin(name = "by-urgency")]
impl ByUrgency {
    #[on("job.state.priority", "job.priority.get")]
    fn priority(&self, job: &Job) -> Priority {
        Priority::new(u32::from(job.urgency().value()))
    }
}
