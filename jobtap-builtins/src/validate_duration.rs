//! `.validate-duration`: no job is accepted that would run longer than the instance will live.
//!
//! An instance that was given its resources for a time ends with them. A job that says nothing of its
//! duration is accepted, since it may be short.

use jobtap_core::prelude::*;

/// See the module.
#[derive(Debug, Default)]
pub struct ValidateDuration;

#[jobtap_plugin(name = ".validate-duration", after = [".begin-time"])]
impl ValidateDuration {
    #[on("job.validate")]
    fn validate(&self, jobspec: &Jobspec, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
        let Some(expiration) = cx.instance_expiration() else { return Ok(()) };
        let duration = Fsd::from_secs(jobspec.duration())?;
        let left = Fsd::from_secs((expiration - cx.now()).max(0.0))?;
        if duration <= left {
            return Ok(());
        }
        let (duration, left) = (duration.format_digits(2), left.format_digits(2));
        let text =
            format!("job duration ({duration}) exceeds remaining instance lifetime ({left})");
        Err(Reject::new(text))
    }
}
