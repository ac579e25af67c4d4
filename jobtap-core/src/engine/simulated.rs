//! Simulated execution (`attributes.system.exec.test`): a job without processes, for tests, for
//! replays and for trying policies.
//!
//! | key | meaning |
//! |---|---|
//! | `run_duration` | how long it runs (FSD); default: its duration; 0: until it is cancelled |
//! | `wait_status` | the status of its `finish` event |
//! | `mock_exception` | `init` or `run`: fails before or after the start |
//! | `override` | 1: begins and ends when a client says so (`job-exec.override`) |
//! | `reattach_finish` | 1: it has finished when a restarted manager finds it again |

use std::sync::Arc;

use serde_json::Value;

use super::api::{Cred, Log, RequestError, TimerId};
use super::requests::refused;
use super::{Engine, Level, events};
use crate::eventlog::EventEntry;
use crate::job::{Fsd, JobId, Timestamp};
use crate::jobspec::Jobspec;

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EINVAL: i32 = 22;

/// One simulated job while it executes.
#[derive(Debug, Default)]
pub(super) struct Simulated {
    timer: Option<TimerId>,
    started: bool,
    /// Clients say when it begins and ends.
    overridden: bool,
    wait_status: i32,
}

/// What the jobspec asks for.
struct Script {
    run_duration: f64,
    wait_status: i32,
    mock_exception: Option<String>,
    overridden: bool,
    reattach_finish: bool,
}

impl Script {
    /// Reads the attribute; the second value is a complaint about it for the log.
    fn read(jobspec: &Jobspec) -> (Self, Option<String>) {
        let get = |key: &str| jobspec.attribute(&format!("exec.test.{key}"));
        let int = |key: &str| get(key).and_then(Value::as_i64);
        let mut complaint = None;
        let run_duration = match get("run_duration") {
            None => jobspec.duration(),
            Some(value) => serde_json::from_value::<Fsd>(value.clone()).map_or_else(
                |_| {
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    complaint = Some(format!("Unable to parse run duration: {text}"));
                    jobspec.duration()
                },
                Fsd::as_secs,
            ),
        };
        let script = Self {
            run_duration,
            wait_status: int("wait_status").and_then(|s| i32::try_from(s).ok()).unwrap_or(0),
            mock_exception: get("mock_exception").and_then(Value::as_str).map(str::to_owned),
            overridden: int("override") == Some(1),
            reattach_finish: int("reattach_finish") == Some(1),
        };
        (script, complaint)
    }
}

impl Engine {
    /// Starts a simulated job, or finds it again after a restart.
    pub(super) fn simulate(&mut self, id: JobId, reattach: bool) {
        let Some(record) = self.jobs.get_mut(&id) else {
            return;
        };
        let (script, complaint) = Script::read(&record.job.jobspec);
        let allowed = record.job.userid == self.owner || self.exec.guests_simulate;
        let started = record.is_posted("start");
        let since = record.times.start.get();
        record.simulated = Some(Box::new(Simulated {
            started,
            overridden: script.overridden,
            wait_status: script.wait_status,
            ..Simulated::default()
        }));
        if let Some(text) = complaint {
            self.log(Level::Error, format!("{id}: {text}"));
        }
        if !(reattach && started) {
            self.exec_log(id, &["init"]);
        }
        if !allowed {
            return self.simulated_failure(id, "guests may not use test exec implementation");
        }
        if script.mock_exception.as_deref() == Some("init") {
            return self.simulated_failure(id, "mock initialization exception generated");
        }
        if !started {
            if script.overridden {
                return;
            }
            self.simulate_start(id);
        }
        let begun = since.filter(|_| started).unwrap_or(self.now);
        if reattach && script.reattach_finish {
            let timer = self.simulate_until(id, self.now);
            self.keep_timer(id, timer);
        } else {
            self.simulate_run(id, &script, begun);
        }
    }

    fn simulate_start(&mut self, id: JobId) {
        self.exec_log(id, &["starting", "recoverable"]);
        if let Some(simulated) = self.simulated(id) {
            simulated.started = true;
        }
        self.post(id, events::bare(self.now, "start"));
    }

    fn simulate_run(&mut self, id: JobId, script: &Script, begun: Timestamp) {
        if script.mock_exception.as_deref() == Some("run") {
            self.simulated_failure(id, "mock run exception generated");
        } else if script.run_duration > 0.0 && script.run_duration.is_finite() {
            let timer = self.simulate_until(id, begun + script.run_duration);
            self.keep_timer(id, timer);
        }
    }

    /// Begins or ends a job that waits for its user to say so.
    pub(super) fn override_simulation(
        &mut self,
        cred: Cred,
        id: JobId,
        event: &str,
        status: Option<i32>,
    ) -> Result<(), RequestError> {
        let record = self.known(id, ENOENT, "Job not found")?;
        let simulated = record.simulated.as_ref();
        let simulated = simulated.ok_or_else(|| refused(ENOENT, "Job not found"))?;
        if !cred.owner && record.job.userid != cred.userid {
            return Err(refused(EPERM, "Permission denied"));
        }
        if !simulated.overridden {
            return Err(refused(EINVAL, "Job not in exec override mode"));
        }
        match (event, simulated.started) {
            ("start", true) => return Err(refused(EINVAL, "Job already running")),
            ("finish", false) => return Err(refused(EINVAL, "Job not running")),
            ("start", false) => {
                let (script, _) = Script::read(&record.job.jobspec);
                self.simulate_start(id);
                self.simulate_run(id, &script, self.now);
            }
            ("finish", true) => {
                let simulated = self.jobs.get_mut(&id).and_then(|record| record.simulated.take());
                self.stop_timer(simulated.and_then(|simulated| simulated.timer));
                self.complete(id, Some(status.unwrap_or(0)));
            }
            _ => return Err(refused(EINVAL, "Invalid event")),
        }
        Ok(())
    }

    fn simulated(&mut self, id: JobId) -> Option<&mut Simulated> {
        self.jobs.get_mut(&id)?.simulated.as_deref_mut()
    }

    fn keep_timer(&mut self, id: JobId, timer: TimerId) {
        if let Some(simulated) = self.simulated(id) {
            simulated.timer = Some(timer);
        }
    }

    fn simulated_failure(&mut self, id: JobId, note: &str) {
        self.raise_fatal(id, "exec", note);
    }

    /// The job has run as long as it should.
    pub(super) fn simulated_end(&mut self, id: JobId) {
        let simulated = self.jobs.get_mut(&id).and_then(|record| record.simulated.take());
        if let Some(simulated) = simulated {
            self.complete(id, Some(simulated.wait_status));
        }
    }

    /// A fatal exception ended the job: it stops at once, with the signal as its status.
    pub(super) fn end_simulation(&mut self, id: JobId, signum: i32) {
        let simulated = self.jobs.get_mut(&id).and_then(|record| record.simulated.take());
        let Some(simulated) = simulated else { return };
        self.stop_timer(simulated.timer);
        self.complete(id, simulated.started.then_some(signum));
    }

    /// As a real execution's last report, the release comes when all is done that `finish` caused.
    fn complete(&mut self, id: JobId, status: Option<i32>) {
        let context = [("status", Value::from(status.unwrap_or(0)))];
        self.exec_entry(id, events::with(self.now, "complete", context));
        self.exec_log(id, &["done"]);
        let Some(status) = status else {
            return self.post(id, events::release(self.now));
        };
        if let Some(record) = self.jobs.get_mut(&id) {
            record.release_due = true;
        }
        self.finish(id, status);
    }

    /// Entries of `guest.exec.eventlog`.
    fn exec_log(&mut self, id: JobId, names: &[&'static str]) {
        for name in names {
            self.exec_entry(id, events::bare(self.now, name));
        }
    }

    fn exec_entry(&mut self, id: JobId, entry: EventEntry) {
        self.write_event(id, Log::Exec, &Arc::new(entry));
    }
}
