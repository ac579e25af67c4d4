//! `submit-hold`: sets the urgency of every submitted job to 0, so that it is held until the urgency is
//! raised.

use jobtap_core::prelude::*;

/// The plugin `submit-hold`.
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
