//! `preempt-notice`: notifies a job before its resources expire, so that it can save its work.
//!
//! ```toml
//! [job-manager]
//! plugins = [{ load = "preempt-notice" }]
//!
//! [plugins.preempt-notice]
//! before = "10m"        # how long before the end
//! signal = "SIGUSR1"    # for the job's tasks; default: no signal
//! ```
//!
//! The job gets a non-fatal exception of type `preempt-notice`, which `jobtap job attach` shows, and the
//! signal. A job whose time limit is not longer than `before` gets neither. Users can set both for their own
//! jobs with `--setattr=preempt-notice.before=5m` and `--setattr=preempt-notice.signal=TERM`; a `before` of
//! 0 means no notice. If the expiration of a job is extended, it is notified again before the new one.
//!
//! Notices are stored with the job, so a restart neither loses nor repeats them. If the manager is killed
//! right after a notice, the signal may not have been sent.

use std::collections::HashMap;

use jobtap_core::eventlog::Name;
use jobtap_core::job::Signal;
use jobtap_core::plugin::{DataError, Timer};
use jobtap_core::prelude::*;

const KIND: &str = "preempt-notice";
/// The lowest severity, since nothing has failed.
const NOTICE: Severity = severity!(7);

/// The settings of a site for all jobs, or of a user for one job.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// How long before its end a job is notified.
    before: Option<Fsd>,
    /// The signal that is sent to the job's tasks.
    signal: Option<Signal>,
}

/// The data of a job: its last notice.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Notified {
    /// The end that the job has been notified of.
    end: Option<Timestamp>,
}

/// The plugin `preempt-notice`.
#[derive(Debug)]
pub struct PreemptNotice {
    settings: Settings,
    timers: HashMap<JobId, Timer>,
    remote: Remote<Self>,
}

#[jobtap_plugin(name = "preempt-notice", load = "by-name", data = Notified)]
impl PreemptNotice {
    #[init]
    fn new(settings: Conf<Settings>, remote: Remote<Self>) -> Result<Self, ConfError> {
        let settings = settings.into_inner();
        match settings.before {
            Some(before) if !before.is_infinite() => {
                Ok(Self { settings, timers: HashMap::new(), remote })
            }
            _ => Err(ConfError::new(
                "[plugins.preempt-notice]: before must be set to how long before its end a job is \
                 notified, such as 10m",
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
        if job.event_posted(Name::Start) {
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
        if job.state() == State::Run && job.event_posted(Name::Start) {
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
    /// The settings of the user, completed by those of the site.
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

    /// The time to notify the job, and the time at which its resources expire, with the settings that apply. `None` if
    /// they don't expire, or if the job gets no more time than `before` in total.
    fn due(&self, job: JobRef<'_>) -> Option<(Timestamp, Timestamp, Settings)> {
        // Invalid settings of a user were refused at submission.
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
        cx.data(job).set(&Notified { end: Some(end) })?;
        let left = Fsd::from_secs((end - cx.now()).max(0.0)).unwrap_or_default();
        let note = format!("its time is up in {}", left.format_digits(2));
        // This can't fail, since the job is active, as checked above.
        let _ = cx.raise(job, Exception::new(NOTICE, KIND, note));
        if let Some(signal) = settings.signal {
            let _ = cx.signal(job, signal);
        }
        Ok(())
    }
}
