//! Execution as the engine sees it: one start, reports, one last report; and the end of a job's
//! time.

use std::sync::Arc;

use serde_json::Value;

use super::api::{Effect, Exception, ExecCommand, ExecEvent, Log};
use super::record::{Exec, Record, field};
use super::{Engine, TimerId, events, late_start};
use crate::eventlog::EventEntry;
use crate::job::{JobId, Signal, State, Timestamp};
use crate::jobspec::Jobspec;
use crate::resource::Idset;

const SIGUSR1: i32 = 10;
const SIGALRM: i32 = 14;

/// The time before a job's end at which it is warned, in seconds, if it doesn't say more.
const WARNING: f64 = 60.0;

/// How many seconds a shepherd has to tell what a job did while no manager ran, if it is of a build
/// that doesn't say when it is through.
const CATCHING_UP: f64 = 10.0;

impl Engine {
    /// Asks for the job's start; with `reattach` it may run already.
    pub(super) fn execute_job(&mut self, id: JobId, reattach: bool) {
        let Some(record) = self.jobs.get_mut(&id) else {
            return;
        };
        record.exec = Exec::Open;
        let userid = record.job.userid;
        let simulated = record.job.jobspec.attribute("exec.test").is_some();
        record.behind = reattach && !simulated;
        if reattach {
            self.reattach_begins(id);
        } else {
            self.post_debug(id, "debug.start-request");
        }
        if simulated {
            // Nobody else is to find it.
            self.reattached(id);
            self.simulate(id, reattach);
        } else {
            let start = ExecCommand::Start { id, userid, reattach };
            self.effects.after.push(Effect::Exec(start));
        }
    }

    /// [`Input::Exec`](super::Input::Exec). A report that says nothing new is dropped, so that the
    /// execution system may repeat what it isn't sure has arrived.
    pub(super) fn exec_event(&mut self, event: ExecEvent) {
        match event {
            ExecEvent::Log { id, entry } => {
                if self.is_executing(id) {
                    self.write_event(id, Log::Exec, &Arc::new(entry));
                }
            }
            ExecEvent::Started { id } => {
                let late = self.was_posted(id, "start") || self.was_posted(id, "finish");
                if self.is_executing(id) && !late {
                    self.post(id, events::bare(self.now, "start"));
                }
            }
            ExecEvent::Reattached { id } if self.is_executing(id) => self.reattached(id),
            ExecEvent::Reattached { .. } => {}
            ExecEvent::CaughtUp { id } => self.caught_up(id),
            ExecEvent::Exception { id, exception } => self.exec_exception(id, &exception),
            ExecEvent::Lost { id, note, reason } => self.lost(id, note, &reason),
            ExecEvent::Unkillable { id, ranks, reason } => self.unkillable(id, &ranks, &reason),
            ExecEvent::Finished { id, status } => {
                if self.is_executing(id) && !self.was_posted(id, "finish") {
                    self.finish(id, status);
                }
            }
            ExecEvent::PartlyReleased { id, ranks } => self.partly_released(id, &ranks),
            ExecEvent::Released { id } => {
                self.released(id);
                // Also for a job that is over: its end was durable before the last restart.
                self.effects.after.push(Effect::Exec(ExecCommand::Ack { id }));
            }
        }
    }

    fn partly_released(&mut self, id: JobId, ranks: &Idset) {
        if !self.is_executing(id) {
            return;
        }
        let Some(held) = self.jobs.get(&id).and_then(|record| record.held()) else {
            return;
        };
        let new = held.ranks().intersection(ranks);
        // The last ranks come with the last report.
        if !new.is_empty() && new != held.ranks() {
            self.post(id, events::release_of(self.now, &new));
        }
    }

    /// Ranks that a job gave back can be given to others.
    pub(super) fn take_back(&mut self, id: JobId, entry: &EventEntry) {
        let ranks = field(entry, "ranks").and_then(|ranks| ranks.as_str()?.parse::<Idset>().ok());
        let Some((record, ranks)) = self.jobs.get(&id).zip(ranks) else {
            return;
        };
        if record.holds
            && !record.bypass
            && !record.lost_resources
            && let Some(resources) = record.job.resources()
        {
            self.pool.release(&resources.with_ranks(&ranks));
        }
    }

    fn released(&mut self, id: JobId) {
        if !self.is_executing(id) {
            return;
        }
        let state = self.jobs.get(&id).map(|record| record.job.state);
        if state == Some(State::Run) {
            // No report will come any more that could end it.
            self.raise_fatal(id, "exec", "execution ended without a status");
        }
        self.post(id, events::release(self.now));
    }

    fn is_executing(&self, id: JobId) -> bool {
        self.jobs.get(&id).is_some_and(|record| {
            // The execution system has no simulated jobs to report.
            record.job.jobspec.attribute("exec.test").is_none()
                && matches!(record.exec, Exec::Open | Exec::Ending)
                && !record.is_queued("release")
        })
    }

    /// Nobody knows what the job left on its nodes. They are drained before the job gives them back.
    fn lost(&mut self, id: JobId, note: String, reason: &str) {
        if !self.is_executing(id) {
            return;
        }
        // One that is unknown since it was never handed over has left nothing.
        let handed_over = |record: &&Record| !record.behind || record.job.event_posted("start");
        let record = self.jobs.get(&id).filter(handed_over);
        if let Some(ranks) = record.and_then(|record| record.held()).map(|held| held.ranks()) {
            self.drain_for_owner(&ranks, reason);
        }
        self.exec_exception(id, &Exception { kind: "exec".to_owned(), severity: 0, note });
    }

    /// What can't be killed keeps the job from giving its nodes back, and no other job is to join it
    /// on those that it shares.
    fn unkillable(&mut self, id: JobId, ranks: &Idset, reason: &str) {
        if !self.is_executing(id) {
            return;
        }
        let held = self.jobs.get(&id).and_then(|record| record.held());
        let left = held.map(|held| held.ranks().intersection(ranks)).unwrap_or_default();
        if !left.is_empty() {
            self.drain_for_owner(&left, reason);
        }
    }

    fn reattach_begins(&mut self, id: JobId) {
        if let Some(record) = self.jobs.get_mut(&id) {
            record.reattaching = true;
        }
        self.post_debug(id, "debug.exec-reattach-start");
    }

    fn reattached(&mut self, id: JobId) {
        let Some(record) = self.jobs.get_mut(&id) else {
            return;
        };
        if std::mem::take(&mut record.reattaching) {
            self.post_debug(id, "debug.exec-reattach-finish");
        }
    }

    /// What the job did while no manager ran is known: only now can its time be up.
    fn caught_up(&mut self, id: JobId) {
        let Some(record) = self.jobs.get_mut(&id) else {
            return;
        };
        if std::mem::take(&mut record.behind) && record.job.state == State::Run {
            self.rearm_expiry(id);
            self.warn_late(id);
        }
    }

    fn was_posted(&self, id: JobId, name: &str) -> bool {
        self.jobs.get(&id).is_some_and(|record| record.is_posted(name))
    }

    fn exec_exception(&mut self, id: JobId, exception: &Exception) {
        // A job that is ending anyway may well be unknown to the execution system by now.
        let running = self.jobs.get(&id).is_some_and(|record| record.job.state == State::Run);
        if !running || !self.is_executing(id) {
            return;
        }
        let severity = u8::try_from(exception.severity).unwrap_or(0).min(7);
        let note = &exception.note;
        let entry = events::exception(self.now, &exception.kind, severity, note, self.owner);
        self.post(id, entry);
    }

    /// Posts `finish`. A job that a fatal exception ended never counts as a success.
    pub(super) fn finish(&mut self, id: JobId, status: i32) {
        let Some(record) = self.jobs.get(&id) else {
            return;
        };
        let ended = record.job.state == State::Cleanup;
        let status = if ended && status == 0 { 256 } else { status };
        self.post(id, events::finish(self.now, status));
    }

    /// What `start` and a fatal exception mean for execution.
    pub(super) fn execution_follows(&mut self, id: JobId, entry: &EventEntry, ended: bool) {
        if ended {
            self.end_execution(id, self.ending_signal(entry));
        } else {
            self.arm_expiry(id, entry.timestamp);
        }
    }

    /// The first signal to a job that this exception ended.
    fn ending_signal(&self, exception: &EventEntry) -> i32 {
        let timeout = field(exception, "type").and_then(|kind| kind.as_str()) == Some("timeout");
        if timeout { SIGALRM } else { self.exec.term_signal.number() }
    }

    fn end_execution(&mut self, id: JobId, signum: i32) {
        let Some(record) = self.jobs.get_mut(&id) else {
            return;
        };
        if record.exec != Exec::Open {
            return;
        }
        record.exec = Exec::Ending;
        if record.simulated.is_some() {
            self.end_simulation(id, signum);
        } else {
            self.effects.after.push(Effect::Exec(ExecCommand::Cancel { id, signum }));
        }
    }

    /// Sets the timer for the end of the job's time.
    pub(super) fn arm_expiry(&mut self, id: JobId, started: Timestamp) {
        let Some(record) = self.jobs.get(&id) else {
            return;
        };
        let Some(at) = self.time_is_up(record, started) else {
            return;
        };
        let warning = warning(&record.job.jobspec);
        // It may have ended in time, and nobody has told yet.
        let told = if record.behind { self.now + CATCHING_UP } else { self.now };
        let timer = self.expire_at(id, if at < told { told } else { at });
        if let Some(record) = self.jobs.get_mut(&id) {
            record.expiry = Some(timer);
        }
        // Otherwise the job is shorter than its warning, or a restart came between.
        if let Some((signum, before)) = warning
            && at + -before > self.now
        {
            self.warn_at(id, at + -before, signum, timer);
        }
    }

    /// When the job's time is up, if it has an end.
    fn time_is_up(&self, record: &Record, started: Timestamp) -> Option<Timestamp> {
        let resources = record.job.resources.as_ref()?;
        let end = late_start::end(resources, started.as_secs(), self.exec.max_start_delay)?;
        Some(Timestamp::from_secs(end))
    }

    /// Warns a job for which the moment passed before a restart. Whether there was a manager then
    /// is on no record, and to be warned twice does less harm than not at all.
    fn warn_late(&mut self, id: JobId) {
        let Some(record) = self.jobs.get(&id) else {
            return;
        };
        let missed = || {
            let started = record.times.start.get()?;
            let end = self.time_is_up(record, started)?;
            let (signum, before) = warning(&record.job.jobspec)?;
            let moment = end + -before;
            (started < moment && moment <= self.now && self.now < end).then_some(signum)
        };
        if let Some(signum) = missed() {
            self.signal(id, signum);
        }
    }

    /// The job's time is nearly up, unless its end was moved meanwhile.
    pub(super) fn warn(&mut self, id: JobId, signum: i32, expiry: TimerId) {
        let job = self.jobs.get(&id);
        if job.is_some_and(|record| record.expiry == Some(expiry)) {
            self.signal(id, signum);
        }
    }

    /// The job's time is up.
    pub(super) fn expire(&mut self, id: JobId) {
        if self.jobs.get(&id).is_some_and(|record| record.job.state == State::Run) {
            self.raise_fatal(id, "timeout", "resource allocation expired");
        }
    }
}

/// The signal that a job wants before its end, and how many seconds before (shell option `signal`).
fn warning(spec: &Jobspec) -> Option<(i32, f64)> {
    let option = spec.shell_option("signal")?.as_object()?;
    let signum = option.get("signum").map_or(Some(SIGUSR1.into()), Value::as_i64)?;
    let before = option.get("timeleft").map_or(Some(WARNING), Value::as_f64)?;
    let signal = Signal::from_number(signum)?.sendable().ok()?;
    (before >= 0.0).then_some((signal.number(), before))
}

impl Engine {
    /// A restored job in CLEANUP whose last report is missing.
    pub(super) fn end_restored(&mut self, id: JobId) {
        let Some(record) = self.jobs.get_mut(&id) else {
            return;
        };
        let userid = record.job.userid;
        let end = record.job.end_event().cloned();
        record.exec = Exec::Ending;
        record.behind = true;
        if record.job.jobspec.attribute("exec.test").is_some() {
            self.post(id, events::release(self.now));
            return;
        }
        self.reattach_begins(id);
        let start = ExecCommand::Start { id, userid, reattach: true };
        self.effects.after.push(Effect::Exec(start));
        let other = self.exec.term_signal.number();
        let signum = end.map_or(other, |end| self.ending_signal(&end));
        let cancel = ExecCommand::Cancel { id, signum };
        self.effects.after.push(Effect::Exec(cancel));
    }
}
