//! `preempt-notice`: tells a job before its time is up, so that it can save its work.
//!
//! ```toml
//! [job-manager]
//! plugins = [{ load = "preempt-notice" }]
//!
//! [plugins.preempt-notice]
//! before = "10m"        # so long before the end
//! signal = "SIGUSR1"    # to the job's tasks; none if not said
//! ```
//!
//! The job gets an exception of type `preempt-notice` that doesn't end it, which `jobtap job attach`
//! shows, and the signal. A job that may not run longer than `before` gets neither. Users say it for
//! their own job with `--setattr=preempt-notice.before=5m` and `--setattr=preempt-notice.signal=TERM`;
//! a `before` of 0 is no notice. When a job is given more time, it is told again before the new end.
//!
//! A notice is noted with the job, so a restart neither forgets it nor repeats it. A manager that is
//! killed right after may not have sent the signal.

use std::collections::HashMap;

use jobtap_core::job::Signal;
use jobtap_core::plugin::{DataError, Timer};
use jobtap_core::prelude::*;

const KIND: &str = "preempt-notice";
/// As little grave as can be: nothing went wrong.
const NOTICE: Severity = Severity::new(7);

/// What a site can set for all jobs, and a user for one.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// How long before its end a job is notified.
    before: Option<Fsd>,
    /// The signal that is sent to the job's tasks.
    signal: Option<Signal>,
}

/// What a job was told.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Told {
    /// The end that it was told of.
    end: Option<Timestamp>,
}

/// See the module.
#[derive(Debug)]
pub struct PreemptNotice {
    settings: Settings,
    timers: HashMap<JobId, Timer>,
    remote: Remote<Self>,
}

#[jobtap_plugin(name = "preempt-notice", load = "by-name", data = Told)]
impl PreemptNotice {
    #[init]
    fn new(settings: Conf<Settings>, remote: Remote<Self>) -> Result<Self, ConfError> {
        let settings = settings.into_inner();
        match settings.before {
            Some(before) if !before.is_infinite() => {
                Ok(Self { settings, timers: HashMap::new(), remote })
            }
            _ => Err(ConfError::new(
                "[plugins.preempt-notice]: before must say how long before its end a job is told",
            )),
        }
    }

    #[on("job.validate")]
    fn validate(&self, job: &Job) -> Result<(), Reject> {
        let settings = self.settings_of(job.into())?;
        let (before, limit) = (settings.before.unwrap_or_default(), job.jobspec().duration());
        let own = job.jobspec().attribute(KIND).is_some();
        if own && limit > 0.0 && before.as_secs() >= limit {
            return Err(Reject::new(format!(
                "{KIND}: before is {before}, and the job has {} in all",
                Fsd::from_secs(limit).unwrap_or_default()
            )));
        }
        Ok(())
    }

    #[on("job.new")]
    fn introduced(&mut self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
        if job.state() != State::Run {
            return Ok(());
        }
        cx.subscribe(cx.active_job(job.id())?)?;
        if job.event_posted("start") {
            self.arm(job, cx.now());
        }
        Ok(())
    }

    #[on("job.state.run")]
    fn run(&self, job: &Job, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
        Ok(cx.subscribe(job)?)
    }

    #[on("job.event.start", "job.event.resource-update")]
    fn timed(&mut self, job: &Job, cx: Cx<'_, JobEvent>) {
        if job.state() == State::Run && job.event_posted("start") {
            self.arm(job, cx.now());
        }
    }

    #[on("job.state.cleanup")]
    fn ended(&mut self, job: &Job) {
        if let Some(timer) = self.timers.remove(&job.id()) {
            timer.cancel();
        }
    }
}

impl PreemptNotice {
    /// The site's, and over them the user's.
    fn settings_of(&self, job: JobRef<'_>) -> Result<Settings, Reject> {
        let Some(own) = job.jobspec().attribute(KIND) else {
            return Ok(self.settings);
        };
        let own = Settings::deserialize(own);
        let own = own.map_err(|error| Reject::new(format!("attributes.system.{KIND}: {error}")))?;
        Ok(Settings {
            before: own.before.or(self.settings.before),
            signal: own.signal.or(self.settings.signal),
        })
    }

    /// When a job is to be told, and of which end; none when it has no end, or less than that in all.
    fn due(&self, job: JobRef<'_>) -> Option<(Timestamp, Timestamp, Settings)> {
        // What can't be read was refused when the job was submitted.
        let settings = self.settings_of(job).unwrap_or(self.settings);
        let before = settings.before?.as_secs();
        let (resources, end) = (job.resources()?, job.resources()?.expiration()?);
        let whole = end - resources.starttime()?;
        let end = Timestamp::from_secs(end);
        (before > 0.0 && before < whole).then(|| (end - before, end, settings))
    }

    fn arm(&mut self, job: &Job, now: Timestamp) {
        let id = job.id();
        let timer = self.due(job.into()).filter(|(_, end, _)| *end > now).map(|(at, _, _)| {
            self.remote.at(at, move |notice: &mut Self, cx| {
                notice.timers.remove(&id);
                if let Err(error) = notice.tell(id, &cx) {
                    cx.log(Level::Error, format!("{id}: no notice: {error}"));
                }
            })
        });
        let before = match timer {
            Some(timer) => self.timers.insert(id, timer),
            None => self.timers.remove(&id),
        };
        before.into_iter().for_each(Timer::cancel);
    }

    fn tell(&self, id: JobId, cx: &Cx<'_, Later<Self>>) -> Result<(), DataError> {
        let Ok(job) = cx.active_job(id) else { return Ok(()) };
        let Some((_, end, settings)) = self.due(job.into()) else { return Ok(()) };
        if job.state() != State::Run || cx.data(job).get()?.end == Some(end) {
            return Ok(());
        }
        cx.data(job).set(&Told { end: Some(end) })?;
        let left = Fsd::from_secs((end - cx.now()).max(0.0)).unwrap_or_default();
        let note = format!("its time is up in {}", left.format_digits(2));
        // The job is live, as was found above.
        let _ = cx.raise(job, Exception::new(NOTICE, KIND, note));
        if let Some(signal) = settings.signal {
            let _ = cx.signal(job, signal);
        }
        Ok(())
    }
}
