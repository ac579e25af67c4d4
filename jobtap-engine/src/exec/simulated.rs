//! Simulated execution (`attributes.system.exec.test`): a job without processes, for tests, for
//! replays and for trying policies.
//!
//! | key | meaning |
//! |---|---|
//! | `run_duration` | how long it runs (FSD); default: its duration; 0: until it is canceled |
//! | `wait_status` | the status of its `finish` event |
//! | `mock_exception` | `init` or `run`: fails before or after the start |
//! | `override` | 1: starts and finishes when a client says so (`job-exec.override`) |
//! | `reattach_finish` | 1: it has finished when a restarted manager finds it again |

use serde::Deserialize;

use serde_json::Value;

use super::config::ExecConfig;
use super::finish;
use crate::api::{Cred, Effects, JobLog, Level, RequestError};
use crate::eventlog::{Event, EventEntry, Name};
use crate::events;
use crate::host::errno::{EINVAL, ENOENT, EPERM};
use crate::job::{Fsd, JobId, Signal, Timestamp};
use crate::jobs::{Jobs, Simulated};
use crate::jobspec::Jobspec;
use crate::timers::{Due, Timers};
use crate::turn::Turn;

/// What the jobspec asks for.
#[derive(Debug, Default)]
struct Script {
    run_duration: f64,
    wait_status: i32,
    mock_exception: Option<String>,
    overridden: bool,
    reattach_finish: bool,
}

/// The attribute as it is written. As in Flux, other keys are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default, expecting = "an object")]
struct Attribute {
    run_duration: Option<String>,
    wait_status: u32,
    mock_exception: Option<String>,
    r#override: i64,
    reattach_finish: i64,
}

/// Why the attribute can't be used.
#[derive(Debug, thiserror::Error)]
enum ScriptError {
    #[error("exec.test must be an object, not {0}")]
    NoObject(Value),
    #[error("{0}")]
    Unreadable(#[from] serde_json::Error),
    #[error("wait_status {0} is out of range")]
    WaitStatus(u32),
}

impl Attribute {
    /// The attribute of a jobspec; `None` if it has none.
    fn from_jobspec(jobspec: &Jobspec) -> Result<Option<Self>, ScriptError> {
        // serde would accept an array as well.
        let text = jobspec.simulation_text().filter(|text| text.starts_with('{'));
        if let Some(attribute) = text.and_then(|text| serde_json::from_str(text).ok()) {
            return Ok(Some(attribute));
        }
        // Tried again with the parsed value: a duplicate key is an error in a text only, and errors in a text name its
        // lines.
        let Some(test) = jobspec.simulation() else { return Ok(None) };
        if !test.is_object() {
            return Err(ScriptError::NoObject(test.into_owned()));
        }
        Ok(Some(Self::deserialize(&*test)?))
    }
}

impl Script {
    /// Reads the attribute. The second value is a complaint about it, for the log.
    ///
    /// # Errors
    /// A value has the wrong type.
    fn read(jobspec: &Jobspec) -> Result<(Self, Option<String>), ScriptError> {
        let Some(attribute) = Attribute::from_jobspec(jobspec)? else {
            return Ok((Self::default(), None));
        };
        let wait_status = i32::try_from(attribute.wait_status)
            .map_err(|_| ScriptError::WaitStatus(attribute.wait_status))?;
        let (mut run_duration, mut complaint) = (jobspec.duration(), None);
        if let Some(text) = &attribute.run_duration {
            match text.parse::<Fsd>() {
                Ok(duration) => run_duration = duration.as_secs(),
                Err(_) => complaint = Some(format!("Unable to parse run duration: {text}")),
            }
        }
        let script = Self {
            run_duration,
            wait_status,
            mock_exception: attribute.mock_exception,
            overridden: attribute.r#override == 1,
            reattach_finish: attribute.reattach_finish == 1,
        };
        Ok((script, complaint))
    }
}

/// Starts a simulated job, or continues it after a restart.
pub(super) fn start(
    turn: &mut Turn,
    jobs: &mut Jobs,
    timers: &mut Timers,
    config: ExecConfig,
    id: JobId,
    reattach: bool,
) {
    let Some(record) = jobs.get_mut(id) else {
        return;
    };
    let read = Script::read(&record.job.kept().jobspec);
    let fault = read.as_ref().err().map(|error| format!("failed to initialize testconf: {error}"));
    let (script, complaint) = read.unwrap_or_default();
    let allowed = record.job.userid() == turn.owner || config.guests_simulate;
    let started = record.has_event(&Name::Start);
    let since = record.job.kept().times.start();
    record.execution.simulation.begin(Simulated {
        started,
        overridden: script.overridden,
        wait_status: script.wait_status,
        ..Simulated::default()
    });
    if let Some(text) = complaint {
        turn.effects.log(Level::Error, format!("{id}: {text}"));
    }
    if !(reattach && started) {
        log_events(turn, jobs, id, &["init"]);
    }
    if !allowed {
        return fail(turn, jobs, id, "guests may not use test exec implementation");
    }
    if let Some(note) = fault {
        return fail(turn, jobs, id, &note);
    }
    if script.mock_exception.as_deref() == Some("init") {
        return fail(turn, jobs, id, "mock initialization exception generated");
    }
    if !started {
        if script.overridden {
            return;
        }
        begin(turn, jobs, id);
    }
    let begun = since.filter(|_| started).unwrap_or(turn.clock.now);
    if reattach && script.reattach_finish {
        finish_at(&mut turn.effects, jobs, timers, id, turn.clock.now);
    } else {
        run(turn, jobs, timers, id, &script, begun);
    }
}

fn begin(turn: &mut Turn, jobs: &mut Jobs, id: JobId) {
    log_events(turn, jobs, id, &["starting", "recoverable"]);
    if let Some(simulated) = running(jobs, id) {
        simulated.started = true;
    }
    jobs.post(turn, id, Event::Start);
}

fn run(
    turn: &mut Turn,
    jobs: &mut Jobs,
    timers: &mut Timers,
    id: JobId,
    script: &Script,
    begun: Timestamp,
) {
    if script.mock_exception.as_deref() == Some("run") {
        fail(turn, jobs, id, "mock run exception generated");
    } else if script.run_duration > 0.0 && script.run_duration.is_finite() {
        finish_at(&mut turn.effects, jobs, timers, id, begun + script.run_duration);
    }
}

fn running(jobs: &mut Jobs, id: JobId) -> Option<&mut Simulated> {
    jobs.get_mut(id)?.execution.simulation.running_mut()
}

fn take(jobs: &mut Jobs, id: JobId) -> Option<Simulated> {
    jobs.get_mut(id)?.execution.simulation.take()
}

fn finish_at(
    effects: &mut Effects,
    jobs: &mut Jobs,
    timers: &mut Timers,
    id: JobId,
    at: Timestamp,
) {
    let timer = timers.start(effects, at, Due::Simulated(id));
    if let Some(simulated) = running(jobs, id) {
        simulated.timer = Some(timer);
    }
}

fn fail(turn: &mut Turn, jobs: &mut Jobs, id: JobId, note: &str) {
    jobs.raise_fatal(turn, id, "exec", note);
}

/// `job-exec.override`: starts or finishes a job that waits for its user to say so.
pub(crate) fn override_job(
    turn: &mut Turn,
    jobs: &mut Jobs,
    timers: &mut Timers,
    cred: Cred,
    id: JobId,
    event: &str,
    status: Option<i32>,
) -> Result<(), RequestError> {
    let invalid = |text: &str| Err(RequestError::new(EINVAL, text));
    let record = jobs.accepted(id, ENOENT, "Job not found")?;
    let Some(simulated) = record.execution.simulation.running() else {
        return Err(RequestError::new(ENOENT, "Job not found"));
    };
    if !cred.owner && record.job.userid() != cred.userid {
        return Err(RequestError::new(EPERM, "Permission denied"));
    }
    if !simulated.overridden {
        return invalid("Job not in exec override mode");
    }
    match (event, simulated.started) {
        ("start", true) => return invalid("Job already running"),
        ("finish", false) => return invalid("Job not running"),
        ("start", false) => {
            let (script, _) = Script::read(&record.job.kept().jobspec).unwrap_or_default();
            begin(turn, jobs, id);
            run(turn, jobs, timers, id, &script, turn.clock.now);
        }
        ("finish", true) => {
            let simulated = take(jobs, id);
            timers.stop(simulated.and_then(|simulated| simulated.timer));
            complete(turn, jobs, id, Some(status.unwrap_or(0)));
        }
        _ => return invalid("Invalid event"),
    }
    Ok(())
}

/// Finishes a job that has run as long as it should.
pub(crate) fn time_out(turn: &mut Turn, jobs: &mut Jobs, id: JobId) {
    if let Some(simulated) = take(jobs, id) {
        complete(turn, jobs, id, Some(simulated.wait_status));
    }
}

/// Ends a job after a fatal exception: it stops at once, and the signal is its status.
pub(super) fn cancel(
    turn: &mut Turn,
    jobs: &mut Jobs,
    timers: &mut Timers,
    id: JobId,
    signal: Signal,
) {
    let Some(simulated) = take(jobs, id) else { return };
    timers.stop(simulated.timer);
    // As in Flux, a job that waits to be started by a client ends as if it ran.
    let ran = simulated.started || simulated.overridden;
    complete(turn, jobs, id, ran.then_some(signal.number()));
}

/// Ends the execution: with `finish` if there were tasks, and with the last release.
fn complete(turn: &mut Turn, jobs: &mut Jobs, id: JobId, status: Option<i32>) {
    let context = [("status", Value::from(status.unwrap_or(0)))];
    log_event(&mut turn.effects, jobs, id, events::with(turn.clock.now, "complete", context));
    log_events(turn, jobs, id, &["done"]);
    let Some(status) = status else {
        return jobs.post(turn, id, super::LAST_RELEASE);
    };
    if let Some(record) = jobs.get_mut(id) {
        // Not posted here: `finish` may lead to events of its own, which come before the release.
        record.execution.simulation.finish();
    }
    finish(turn, jobs, id, status);
}

/// Appends to `guest.exec.eventlog`.
fn log_events(turn: &mut Turn, jobs: &mut Jobs, id: JobId, names: &[&'static str]) {
    for name in names {
        log_event(&mut turn.effects, jobs, id, EventEntry::new(turn.clock.now, *name, None));
    }
}

fn log_event(effects: &mut Effects, jobs: &mut Jobs, id: JobId, entry: EventEntry) {
    jobs.append(effects, id, JobLog::Exec, entry);
}
