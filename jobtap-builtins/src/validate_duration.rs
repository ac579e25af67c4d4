//! `.validate-duration`: refuses jobs whose time limit is after the expiration of the instance's resources.
//!
//! A job without a time limit is accepted, since it may be short.

use jobtap_core::prelude::*;

/// The plugin `.validate-duration`.
#[derive(Debug, Default)]
pub struct ValidateDuration {
    /// The last known expiration of the resources, in UNIX seconds; 0 if they don't expire.
    expiration: f64,
}

#[jobtap_plugin(name = ".validate-duration", after = [".begin-time"])]
impl ValidateDuration {
    /// Called when the resources are redefined, which may change the expiration.
    #[on("conf.update")]
    fn conf(&mut self, cx: Cx<'_, ConfUpdate>) {
        self.look(&cx);
    }

    #[on("job.validate")]
    fn validate(&mut self, jobspec: &Jobspec, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
        self.look(&cx);
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

    fn look<T: TopicSet>(&mut self, cx: &Cx<'_, T>) {
        let expiration = cx.instance_expiration().map_or(0.0, Timestamp::as_secs);
        if (expiration - self.expiration).abs() >= 1e-5 {
            self.expiration = expiration;
            let text = format!("duration-validator: updated expiration to {expiration:.2}");
            cx.log(Level::Debug, text);
        }
    }
}
