//! `submit-hold`: every job is held when it is submitted, until somebody gives it an urgency.

use jobtap_core::prelude::*;

/// See the module.
#[derive(Debug, Default)]
pub struct SubmitHold;

#[jobtap_plugin(name = "submit-hold", load = "by-name")]
impl SubmitHold {
    #[on("job.state.depend")]
    fn hold(&self, job: &Job, cx: Cx<'_, JobStateDepend>) {
        if job.urgency() != Urgency::HOLD {
            cx.urgency(job, Urgency::HOLD);
        }
    }
}
