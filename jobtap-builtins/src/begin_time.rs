//! `.begin-time`: a job that does not start before its time.
//!
//! `--begin-time=+1h` makes the dependency `begin-time:SECONDS`, UNIX time with fractions. A time that
//! has passed is a dependency that is satisfied at once.

use std::collections::HashMap;

use jobtap_core::plugin::Timer;
use jobtap_core::prelude::*;

/// See the module.
#[derive(Debug, Default)]
pub struct BeginTime {
    timers: HashMap<JobId, Vec<Timer>>,
}

#[jobtap_plugin(name = ".begin-time", after = [".dependency-singleton"])]
impl BeginTime {
    #[on("job.dependency.begin-time")]
    fn dependency(
        &mut self,
        job: &Job,
        dependency: &Dependency,
        cx: Cx<'_, JobDependency>,
        remote: Remote<Self>,
    ) -> Result<(), Reject> {
        let value = &dependency.value;
        if value.is_empty() {
            return Err(Reject::new("error processing begin-time: no time is given"));
        }
        let time = value.parse().ok().filter(|time: &f64| time.is_finite() && *time >= 0.0);
        let time = time.ok_or_else(|| Reject::new(format!("Invalid begin-time={value}")))?;
        let description = format!("begin-time={time:.3}");
        // Asked again after a restart: its time may have come before that.
        if job.state() == State::Depend && job.dependency(&description).is_none() {
            return Ok(());
        }
        cx.dependency_add(description.as_str())?;
        let id = job.id();
        let timer = remote.at(Timestamp::from_secs(time), move |_, cx| {
            if let Some(held) = cx.job(id).ok().and_then(|job| job.dependency(&description)) {
                cx.dependency_remove(held);
            }
        });
        self.timers.entry(id).or_default().push(timer);
        Ok(())
    }

    /// Nothing is left to wait for; a job that was rejected never comes so far.
    #[on("job.state.priority", "job.state.inactive", "job.destroy")]
    fn stop(&mut self, job: &Job) {
        self.timers.remove(&job.id()).into_iter().flatten().for_each(Timer::cancel);
    }
}
