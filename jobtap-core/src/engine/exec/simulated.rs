//! Simulated execution (`attributes.system.exec.test`): a job without processes, for tests, for
//! replays and for trying policies.
//!
//! | key | meaning |
//! |---|---|
//! | `run_duration` | how long it runs (FSD); default: its duration; 0: until it is cancelled |
//! | `wait_status` | the status of its `finish` event |
//! | `mock_exception` | `init` or `run`: fails before or after the start |
//! | `override` | 1: starts and finishes when a client says so (`job-exec.override`) |
//! | `reattach_finish` | 1: it has finished when a restarted manager finds it again |

use serde::Deserialize;
use serde_json::Value;

use super::finish;
use crate::engine::api::{Cred, JobLog, Level, RequestError};
use crate::engine::core::Core;
use crate::engine::events;
use crate::engine::jobs::Simulated;
use crate::engine::timers::Due;
use crate::eventlog::EventEntry;
use crate::host::errno::{EINVAL, ENOENT, EPERM};
use crate::job::{Fsd, JobId, Timestamp};
use crate::jobspec::Jobspec;

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

impl Attribute {
    /// The attribute of a jobspec; `None` if it has none.
    fn of(jobspec: &Jobspec) -> Result<Option<Self>, String> {
        // serde would accept an array as well.
        let text = jobspec.simulation_text().filter(|text| text.starts_with('{'));
        if let Some(attribute) = text.and_then(|text| serde_json::from_str(text).ok()) {
            return Ok(Some(attribute));
        }
        // A key that is there twice is an error in a text and none in a value, and errors in a text tell of its lines.
        let Some(test) = jobspec.simulation() else { return Ok(None) };
        if !test.is_object() {
            return Err(format!("exec.test must be an object, not {test}"));
        }
        Self::deserialize(&*test).map(Some).map_err(|error| error.to_string())
    }
}

impl Script {
    /// Reads the attribute. The second value is a complaint about it, for the log.
    ///
    /// # Errors
    /// A value has the wrong type.
    fn read(jobspec: &Jobspec) -> Result<(Self, Option<String>), String> {
        let Some(attribute) = Attribute::of(jobspec)? else {
            return Ok((Self::default(), None));
        };
        let wait_status = i32::try_from(attribute.wait_status)
            .map_err(|_| format!("wait_status {} is out of range", attribute.wait_status))?;
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
pub(super) fn start(core: &mut Core, id: JobId, reattach: bool) {
    let Some(record) = core.jobs.get_mut(id) else {
        return;
    };
    let read = Script::read(&record.job.jobspec);
    let fault = read.as_ref().err().map(|text| format!("failed to initialize testconf: {text}"));
    let (script, complaint) = read.unwrap_or_default();
    let allowed = record.job.userid == core.owner || core.exec.guests_simulate;
    let started = record.has_event("start");
    let since = record.job.times.start();
    record.execution.simulation.begin(Simulated {
        started,
        overridden: script.overridden,
        wait_status: script.wait_status,
        ..Simulated::default()
    });
    if let Some(text) = complaint {
        core.log(Level::Error, format!("{id}: {text}"));
    }
    if !(reattach && started) {
        log_events(core, id, &["init"]);
    }
    if !allowed {
        return fail(core, id, "guests may not use test exec implementation");
    }
    if let Some(note) = fault {
        return fail(core, id, &note);
    }
    if script.mock_exception.as_deref() == Some("init") {
        return fail(core, id, "mock initialization exception generated");
    }
    if !started {
        if script.overridden {
            return;
        }
        begin(core, id);
    }
    let begun = since.filter(|_| started).unwrap_or(core.clock.now);
    if reattach && script.reattach_finish {
        finish_at(core, id, core.clock.now);
    } else {
        run(core, id, &script, begun);
    }
}

fn begin(core: &mut Core, id: JobId) {
    log_events(core, id, &["starting", "recoverable"]);
    if let Some(simulated) = running(core, id) {
        simulated.started = true;
    }
    core.post(id, events::bare(core.clock.now, "start"));
}

fn run(core: &mut Core, id: JobId, script: &Script, begun: Timestamp) {
    if script.mock_exception.as_deref() == Some("run") {
        fail(core, id, "mock run exception generated");
    } else if script.run_duration > 0.0 && script.run_duration.is_finite() {
        finish_at(core, id, begun + script.run_duration);
    }
}

fn running(core: &mut Core, id: JobId) -> Option<&mut Simulated> {
    core.jobs.get_mut(id)?.execution.simulation.running_mut()
}

fn take(core: &mut Core, id: JobId) -> Option<Simulated> {
    core.jobs.get_mut(id)?.execution.simulation.take()
}

fn finish_at(core: &mut Core, id: JobId, at: Timestamp) {
    let timer = core.start_timer(at, Due::Simulated(id));
    if let Some(simulated) = running(core, id) {
        simulated.timer = Some(timer);
    }
}

fn fail(core: &mut Core, id: JobId, note: &str) {
    core.raise_fatal(id, "exec", note);
}

/// `job-exec.override`: starts or finishes a job that waits for its user to say so.
pub(crate) fn override_job(
    core: &mut Core,
    cred: Cred,
    id: JobId,
    event: &str,
    status: Option<i32>,
) -> Result<(), RequestError> {
    let invalid = |text: &str| Err(RequestError::new(EINVAL, text));
    let record = core.accepted_or(id, ENOENT, "Job not found")?;
    let Some(simulated) = record.execution.simulation.running() else {
        return Err(RequestError::new(ENOENT, "Job not found"));
    };
    if !cred.owner && record.job.userid != cred.userid {
        return Err(RequestError::new(EPERM, "Permission denied"));
    }
    if !simulated.overridden {
        return invalid("Job not in exec override mode");
    }
    match (event, simulated.started) {
        ("start", true) => return invalid("Job already running"),
        ("finish", false) => return invalid("Job not running"),
        ("start", false) => {
            let (script, _) = Script::read(&record.job.jobspec).unwrap_or_default();
            begin(core, id);
            run(core, id, &script, core.clock.now);
        }
        ("finish", true) => {
            let simulated = take(core, id);
            core.timers.stop(simulated.and_then(|simulated| simulated.timer));
            complete(core, id, Some(status.unwrap_or(0)));
        }
        _ => return invalid("Invalid event"),
    }
    Ok(())
}

/// Finishes a job that has run as long as it should.
pub(crate) fn time_out(core: &mut Core, id: JobId) {
    if let Some(simulated) = take(core, id) {
        complete(core, id, Some(simulated.wait_status));
    }
}

/// Ends a job after a fatal exception: it stops at once, and the signal is its status.
pub(super) fn cancel(core: &mut Core, id: JobId, signum: i32) {
    let Some(simulated) = take(core, id) else { return };
    core.timers.stop(simulated.timer);
    // As in Flux, a job that waits to be started by a client ends as if it ran.
    let ran = simulated.started || simulated.overridden;
    complete(core, id, ran.then_some(signum));
}

/// Ends the execution: with `finish` if there were tasks, and with the last release.
fn complete(core: &mut Core, id: JobId, status: Option<i32>) {
    let context = [("status", Value::from(status.unwrap_or(0)))];
    log_event(core, id, events::with(core.clock.now, "complete", context));
    log_events(core, id, &["done"]);
    let Some(status) = status else {
        return core.post(id, events::release(core.clock.now));
    };
    if let Some(record) = core.jobs.get_mut(id) {
        // Not posted here: `finish` may lead to events of its own, which come before the release.
        record.execution.simulation.finish();
    }
    finish(core, id, status);
}

/// Appends to `guest.exec.eventlog`.
fn log_events(core: &mut Core, id: JobId, names: &[&'static str]) {
    for name in names {
        log_event(core, id, events::bare(core.clock.now, name));
    }
}

fn log_event(core: &mut Core, id: JobId, entry: EventEntry) {
    core.append(id, JobLog::Exec, entry);
}
