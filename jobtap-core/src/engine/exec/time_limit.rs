//! The end of a job's time, and the signal that a job can ask for before it.

use serde_json::Value;

use super::config::ExecConfig;
use super::signal;
use crate::engine::api::TimerId;
use crate::engine::core::Core;
use crate::engine::jobs::{Reattach, Record};
use crate::engine::timers::Due;
use crate::job::{JobId, State, Timestamp};
use crate::jobspec::Jobspec;
use crate::resource::ResourceSet;

/// For how many seconds the end of a job waits until the executor has reported what the job
/// did while no manager ran. A job that has finished in time must not be ended.
const CATCH_UP: f64 = 10.0;

/// Sets the timer for the end of the time of a job that has just started. As in Flux, a job that never has as much time
/// left as its warning takes is warned at once.
pub(super) fn begin(core: &mut Core, id: JobId, started: Timestamp) {
    arm(core, id, started);
    let at_once = core.jobs.get(id).and_then(|record| {
        let end = end_of(record, core.exec, started)?;
        let (signum, before) = warning(&record.job.jobspec)?;
        (end + -before <= started && started < end).then_some(signum)
    });
    if let Some(signum) = at_once {
        signal(&core.jobs, &mut core.effects, id, signum);
    }
}

/// Sets the timer for the end of a job's time.
pub(crate) fn arm(core: &mut Core, id: JobId, started: Timestamp) {
    let Some(record) = core.jobs.get(id) else {
        return;
    };
    let Some(end) = end_of(record, core.exec, started) else {
        return;
    };
    let warning = warning(&record.job.jobspec);
    let now = core.clock.now;
    let behind = record.execution.reattach != Reattach::Done;
    let earliest = if behind { now + CATCH_UP } else { now };
    let at = if end < earliest { earliest } else { end };
    let expiry = core.start_timer(at, Due::Expire(id));
    if let Some(record) = core.jobs.get_mut(id) {
        record.execution.expiry = Some(expiry);
    }
    // Not if the job is shorter than its warning, or the moment passed before a restart.
    if let Some((signum, before)) = warning
        && end + -before > now
    {
        core.start_timer(end + -before, Due::Warn { job: id, signum, expiry });
    }
}

/// Sets the timer anew, since the end has moved. A job for whose warning the moment has thereby passed is warned
/// at once.
pub(crate) fn move_end(core: &mut Core, id: JobId) {
    rearm(core, id);
    let Some(record) = core.jobs.get(id) else {
        return;
    };
    let now = core.clock.now;
    let passed = || {
        let end = end_of(record, core.exec, record.job.times.start()?)?;
        let (signum, before) = warning(&record.job.jobspec)?;
        (end + -before <= now && now < end).then_some(signum)
    };
    if let Some(signum) = passed() {
        signal(&core.jobs, &mut core.effects, id, signum);
    }
}

/// Sets the timer anew.
pub(crate) fn rearm(core: &mut Core, id: JobId) {
    let Some(record) = core.jobs.get_mut(id) else {
        return;
    };
    let (timer, start) = (record.execution.expiry.take(), record.job.times.start());
    core.timers.stop(timer);
    if let Some(start) = start {
        arm(core, id, start);
    }
}

/// Whether the job's time is up.
pub(super) fn is_up(record: &Record, config: ExecConfig, now: Timestamp) -> bool {
    let end = record.job.times.start().and_then(|started| end_of(record, config, started));
    end.is_some_and(|end| end <= now)
}

/// When the job's time is up, if it has an end.
fn end_of(record: &Record, config: ExecConfig, started: Timestamp) -> Option<Timestamp> {
    let resources = record.job.resources.as_ref()?;
    let end = delayed_end(resources, started.as_secs(), config.max_start_delay)?;
    Some(Timestamp::from_secs(end))
}

/// Warns a job if the moment for it passed while no manager ran. Whether the manager before has done
/// it is not recorded, and a second warning does less harm than none.
pub(crate) fn warn_if_missed(core: &mut Core, id: JobId) {
    let Some(record) = core.jobs.get(id) else {
        return;
    };
    let now = core.clock.now;
    let missed = || {
        let started = record.job.times.start()?;
        let end = end_of(record, core.exec, started)?;
        let (signum, before) = warning(&record.job.jobspec)?;
        let moment = end + -before;
        (started < moment && moment <= now && now < end).then_some(signum)
    };
    if let Some(signum) = missed() {
        signal(&core.jobs, &mut core.effects, id, signum);
    }
}

/// Warns a job, unless its end has moved since the timer was set.
pub(crate) fn warn(core: &mut Core, id: JobId, signum: i32, expiry: TimerId) {
    if core.jobs.get(id).is_some_and(|record| record.execution.expiry == Some(expiry)) {
        signal(&core.jobs, &mut core.effects, id, signum);
    }
}

/// Ends a job whose time is up.
pub(crate) fn expire(core: &mut Core, id: JobId) {
    if core.jobs.state(id) == Some(State::Run) {
        core.raise_fatal(id, "timeout", "resource allocation expired");
    }
}

/// The signal that a job wants before its end, and how many seconds before.
fn warning(spec: &Jobspec) -> Option<(i32, f64)> {
    spec.warning().map(|(signal, before)| (signal.number(), before))
}

/// When the time of a job is up that started at `started`; both in UNIX seconds.
///
/// That is the expiration of its resources, or later if it started late: a job holds its nodes while
/// its prologs run, and a slow prolog is not to use up the job's time. A delay of more than
/// `exec.max-start-delay-percent` of the job's time moves the end by the whole delay. `config` is the
/// configuration of the manager that runs the job. Returns `None` for a job without an end.
///
/// # Errors
/// When `[exec]` has a value that cannot be used; the text names the key.
///
/// ```
/// use jobtap_core::engine::end_of_started;
/// use jobtap_core::resource::ResourceSet;
/// use serde_json::json;
///
/// let mut resources = ResourceSet::default();
/// resources.set_times(100.0, 200.0).unwrap();
/// assert_eq!(end_of_started(&resources, 125.0, &json!({})), Ok(Some(200.0)));
/// assert_eq!(end_of_started(&resources, 130.0, &json!({})), Ok(Some(230.0)));
/// ```
pub fn end_of_started(
    resources: &ResourceSet,
    started: f64,
    config: &Value,
) -> Result<Option<f64>, String> {
    let max_start_delay = ExecConfig::read(config)?.max_start_delay;
    Ok(delayed_end(resources, started, max_start_delay))
}

/// The same. `max_start_delay` is the part of the job's time by which it may start late without a
/// later end.
fn delayed_end(resources: &ResourceSet, started: f64, max_start_delay: f64) -> Option<f64> {
    let expiration = resources.expiration()?;
    let Some(from) = resources.starttime() else {
        return Some(expiration);
    };
    let delay = started - from;
    let late = delay > (expiration - from) * max_start_delay;
    Some(if late { expiration + delay } else { expiration })
}
