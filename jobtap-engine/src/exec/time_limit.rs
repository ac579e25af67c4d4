//! The end of a job's time, and the signal that a job can ask for before it.

use serde_json::Value;

use super::config::{ExecConfig, ExecConfigError};
use super::signal;
use crate::alloc::nodes::Nodes;
use crate::api::{Effects, Level, TimerId};
use crate::eventlog::Event;
use crate::job::{JobId, State, Timestamp};
use crate::jobs::{Jobs, Reattach, Record};
use crate::jobspec::Warning;
use crate::resource::ResourceSet;
use crate::timers::{Due, Timers};
use crate::turn::Turn;

/// How many seconds the end of a job waits for the executor to report what the job did while no manager ran: a job that
/// has finished in time must not be ended.
const CATCH_UP: f64 = 10.0;

/// Sets the timer for the end of the time of a job that has just started. As in Flux, a job that has less time than its
/// warning asks for is warned at once.
pub(super) fn begin(
    turn: &mut Turn,
    jobs: &mut Jobs,
    timers: &mut Timers,
    config: ExecConfig,
    id: JobId,
    started: Timestamp,
) {
    arm(turn, jobs, timers, config, id, started);
    let at_once = jobs.get(id).and_then(|record| {
        let end = end_of(record, config, started)?;
        let warning = record.job.kept().jobspec.warning()?;
        (end + -warning.before <= started && started < end).then_some(warning)
    });
    if let Some(warning) = at_once {
        send(&mut turn.effects, jobs, id, warning);
    }
}

/// Sets the timer for the end of a job's time.
pub(crate) fn arm(
    turn: &mut Turn,
    jobs: &mut Jobs,
    timers: &mut Timers,
    config: ExecConfig,
    id: JobId,
    started: Timestamp,
) {
    let Some(record) = jobs.get(id) else {
        return;
    };
    let Some(end) = end_of(record, config, started) else {
        return;
    };
    let warning = record.job.kept().jobspec.warning();
    let now = turn.clock.now;
    let behind = record.execution.reattach != Reattach::Done;
    let earliest = if behind { now + CATCH_UP } else { now };
    let at = if end < earliest { earliest } else { end };
    let expiry = timers.start(&mut turn.effects, at, Due::Expire(id));
    if let Some(record) = jobs.get_mut(id) {
        record.execution.expiry = Some(expiry);
    }
    // Not if the job has less time than its warning asks for, or if the moment for it passed before a restart.
    if let Some(warning) = warning
        && end + -warning.before > now
    {
        let at = end + -warning.before;
        timers.start(&mut turn.effects, at, Due::Warn { job: id, warning, expiry });
    }
}

/// Sets the timer anew, since the end has moved. If the moment for the job's warning has thereby passed, the job is
/// warned at once.
pub(crate) fn move_end(
    turn: &mut Turn,
    jobs: &mut Jobs,
    timers: &mut Timers,
    config: ExecConfig,
    id: JobId,
) {
    rearm(turn, jobs, timers, config, id);
    let Some(record) = jobs.get(id) else {
        return;
    };
    let now = turn.clock.now;
    let passed = || {
        let end = end_of(record, config, record.job.kept().times.start()?)?;
        let warning = record.job.kept().jobspec.warning()?;
        (end + -warning.before <= now && now < end).then_some(warning)
    };
    if let Some(warning) = passed() {
        send(&mut turn.effects, jobs, id, warning);
    }
}

/// Moves the ends of running jobs with a clock that was set forward by so many seconds: a job has its time limit to run,
/// and these seconds it did not have. For one that has not started they are a delay of its start. No job gets beyond the
/// end of the instance.
pub(crate) fn move_with_clock(
    turn: &mut Turn,
    jobs: &mut Jobs,
    nodes: &Nodes,
    config: ExecConfig,
    by: f64,
) {
    let last = nodes.inventory.expiration().unwrap_or(f64::INFINITY);
    let mut moved = 0_u64;
    for id in jobs.active_where(|record| record.job.state() == State::Run) {
        let Some(record) = jobs.get(id) else { continue };
        let Some(resources) = record.job.kept().resources.as_ref() else { continue };
        let Some(before) = resources.expiration() else { continue };
        // The end of a job that started late is after its expiration.
        let end = record.job.kept().times.start().and_then(|start| end_of(record, config, start));
        let Some(end) = end else { continue };
        let expiration = (end.as_secs() + by).min(last);
        if expiration > before {
            jobs.post(turn, id, Event::ResourceUpdate { expiration });
            moved += 1;
        }
    }
    let text = format!(
        "the clock went forward by {by:.0} s; ends of running jobs that moved with it: {moved}"
    );
    turn.effects.log(Level::Warning, text);
}

/// Sets the timer anew.
pub(crate) fn rearm(
    turn: &mut Turn,
    jobs: &mut Jobs,
    timers: &mut Timers,
    config: ExecConfig,
    id: JobId,
) {
    let Some(record) = jobs.get_mut(id) else {
        return;
    };
    let (timer, start) = (record.execution.expiry.take(), record.job.kept().times.start());
    timers.stop(timer);
    if let Some(start) = start {
        arm(turn, jobs, timers, config, id, start);
    }
}

/// Whether the job's time is up.
pub(super) fn is_up(record: &Record, config: ExecConfig, now: Timestamp) -> bool {
    let end = record.job.kept().times.start().and_then(|started| end_of(record, config, started));
    end.is_some_and(|end| end <= now)
}

/// When the job's time is up, if it has an end.
fn end_of(record: &Record, config: ExecConfig, started: Timestamp) -> Option<Timestamp> {
    let resources = record.job.kept().resources.as_ref()?;
    let end = delayed_end(resources, started.as_secs(), config.max_start_delay)?;
    Some(Timestamp::from_secs(end))
}

/// Warns a job if the moment for its warning passed while no manager ran. It is not recorded whether the manager before
/// has warned it, and a second warning does less harm than none.
pub(crate) fn warn_if_missed(turn: &mut Turn, jobs: &Jobs, config: ExecConfig, id: JobId) {
    let Some(record) = jobs.get(id) else {
        return;
    };
    let now = turn.clock.now;
    let missed = || {
        let started = record.job.kept().times.start()?;
        let end = end_of(record, config, started)?;
        let warning = record.job.kept().jobspec.warning()?;
        let moment = end + -warning.before;
        (started < moment && moment <= now && now < end).then_some(warning)
    };
    if let Some(warning) = missed() {
        send(&mut turn.effects, jobs, id, warning);
    }
}

/// Warns a job, unless its end has moved since the timer was set.
pub(crate) fn warn(
    effects: &mut Effects,
    jobs: &Jobs,
    id: JobId,
    warning: Warning,
    expiry: TimerId,
) {
    if jobs.get(id).is_some_and(|record| record.execution.expiry == Some(expiry)) {
        send(effects, jobs, id, warning);
    }
}

fn send(effects: &mut Effects, jobs: &Jobs, id: JobId, warning: Warning) {
    signal(effects, jobs, id, warning.signal, warning.reach);
}

/// Ends a job whose time is up.
pub(crate) fn expire(turn: &mut Turn, jobs: &mut Jobs, id: JobId) {
    if jobs.state(id) == Some(State::Run) {
        jobs.raise_fatal(turn, id, "timeout", "resource allocation expired");
    }
}

/// When the time of a job that started at `started` is up; both in UNIX seconds.
///
/// That is the expiration of its resources, or later if it started late: a job holds its nodes while
/// its prologs run, and a slow prolog must not use up the job's time. A delay of more than
/// `exec.max-start-delay-percent` of the job's time moves the end by the whole delay. `config` is the
/// configuration of the manager that runs the job. Returns `None` for a job without an end.
///
/// # Errors
/// When `[exec]` has a value that cannot be used.
///
/// ```
/// use jobtap_core::engine::end_of_started;
/// use jobtap_core::resource::ResourceSet;
/// use serde_json::json;
///
/// let mut resources = ResourceSet::default();
/// resources.set_times(100.0, 200.0)?;
/// assert_eq!(end_of_started(&resources, 125.0, &json!({}))?, Some(200.0));
/// assert_eq!(end_of_started(&resources, 130.0, &json!({}))?, Some(230.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn end_of_started(
    resources: &ResourceSet,
    started: f64,
    config: &Value,
) -> Result<Option<f64>, ExecConfigError> {
    let max_start_delay = ExecConfig::read(config)?.max_start_delay;
    Ok(delayed_end(resources, started, max_start_delay))
}

/// Does the work of [`end_of_started`]. `max_start_delay` is the fraction of the job's time by which it may start late
/// without ending later.
fn delayed_end(resources: &ResourceSet, started: f64, max_start_delay: f64) -> Option<f64> {
    let expiration = resources.expiration()?;
    let Some(from) = resources.starttime() else {
        return Some(expiration);
    };
    let delay = started - from;
    let late = delay > (expiration - from) * max_start_delay;
    Some(if late { expiration + delay } else { expiration })
}
