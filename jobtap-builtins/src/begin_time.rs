//! `.begin-time`: jobs that do not start before a given time.
//!
//! `--begin-time=+1h` becomes the dependency `begin-time:SECONDS`, where SECONDS is UNIX time with fractions.
//! A dependency on a time in the past is satisfied at once.

use std::collections::BTreeMap;

use jobtap_core::plugin::Timer;
use jobtap_core::prelude::*;

/// The plugin `.begin-time`.
#[derive(Debug, Default)]
pub struct BeginTime {
    timers: BTreeMap<JobId, Vec<Timer>>,
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
        // This topic is called again after a restart. If the time had come before, the dependency must not be
        // added again.
        if job.state() == State::Depend && job.dependency(&description).is_none() {
            return Ok(());
        }
        cx.dependency_add(description.as_str())?;
        let id = job.id();
        let timer = remote.at(Timestamp::from_secs(time), move |_, cx| {
            cx.dependency_remove_of(id, &description);
        });
        self.timers.entry(id).or_default().push(timer);
        Ok(())
    }

    /// Cancels the timers when the job has left DEPEND. A rejected job only reaches `job.destroy`.
    #[on("job.state.priority", "job.state.inactive", "job.destroy")]
    fn stop(&mut self, job: &Job) {
        self.timers.remove(&job.id()).into_iter().flatten().for_each(Timer::cancel);
    }
}
