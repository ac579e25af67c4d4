//! From the store back to where the manager was.
//!
//! Eventlogs are replayed through the same state machine as live events, without callbacks. Then,
//! in id order, each active job is introduced to the plugins and its state's action runs again.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use super::api::{Effects, StoredJob, Write};
use super::frames::{Frame, Then};
use super::notices::Cause;
use super::queues::stop_at_restart;
use super::record::{ApplyError, Exec, Record};
use super::submit::blank_job;
use super::summary;
use super::work::Work;
use super::{Engine, Level, StartError, events};
use crate::eventlog::decode_log;
use crate::host::{Bound, OnRestart, Perilog};
use crate::job::{JobId, State, Timestamp};
use crate::jobspec::Jobspec;
use crate::queue::VERSION;
use crate::resource::ResourceSet;
use crate::topic::TopicId;

/// How far the search for what nobody has open any more is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Orphans {
    /// Handlers that say so begin their work again.
    Rerun,
    /// The rest has failed.
    Fail,
}

/// Why a stored job can't be brought back; it is set aside, and the others are not concerned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RestoreError(String);

impl RestoreError {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl From<ApplyError> for RestoreError {
    fn from(error: ApplyError) -> Self {
        Self(error.to_string())
    }
}

impl Engine {
    /// Brings back one job from the store. Before [`start`](Self::start), in any order. What it
    /// gives is to be stored, unless it is known to be there: it tells the next start what the job
    /// is.
    ///
    /// # Errors
    /// The reason, for a warning that names the job.
    pub fn restore(&mut self, stored: StoredJob) -> Result<Write, RestoreError> {
        let id = stored.id;
        let record = replay(stored)?;
        self.restored(id, record);
        Ok(match self.jobs.fold(id) {
            Some(summary) => Write::Over { id, summary },
            None => Write::Accepted { id },
        })
    }

    /// Brings back a job that was over, by the summary of [`Write::Over`]. Before
    /// [`start`](Self::start).
    ///
    /// # Errors
    /// When the summary can't be read; [`restore`](Self::restore) does without.
    pub fn restore_over(&mut self, id: JobId, summary: String) -> Result<(), RestoreError> {
        let record = summary::read(id, &summary)?;
        self.restored(id, record);
        self.jobs.fold_as(id, summary);
        Ok(())
    }

    /// What a job's summary says otherwise than its log, for tests.
    ///
    /// # Errors
    /// When the log can't be replayed.
    #[doc(hidden)]
    pub fn summary_differs(
        stored: StoredJob,
        summary: &str,
    ) -> Result<Option<String>, RestoreError> {
        Ok(summary::difference(&replay(stored)?, summary))
    }

    fn restored(&mut self, id: JobId, mut record: Record) {
        let (state, end) = (record.job.state, record.times.inactive.get());
        if record.holds && !record.bypass {
            let claimed = record.held().is_some_and(|held| self.pool.claim(held));
            record.lost_resources = !claimed;
            if claimed {
                self.holding.insert(id);
            }
        }
        self.jobs.insert(id, Box::new(record));
        self.max_jobid = self.max_jobid.max(Some(id));
        self.tally_new(id);
        if state != State::Inactive {
            self.active.insert(id);
            self.wait_begins(id);
        } else {
            if let Some(end) = end {
                self.inactive.add(id, end);
            }
            self.keep_zombie(id);
        }
    }

    /// Starts work: introduces the restored jobs to the plugins and resumes their actions.
    pub fn start(&mut self, now: Timestamp) -> Effects {
        self.now = now;
        self.running = true;
        self.start_nodes();
        self.ids = crate::job::IdGenerator::new(self.max_jobid);
        let jobs: Vec<JobId> = self.active.iter().rev().copied().collect();
        self.log(Level::Info, format!("restart: {} jobs", self.jobs.len()));
        let runs = |id: &&JobId| self.jobs.get(id).is_some_and(|r| r.job.state.is_running());
        let running = jobs.iter().filter(runs).count();
        self.log(Level::Info, format!("restart: {running} running jobs"));
        let newest = self.max_jobid.unwrap_or(JobId::new(0));
        self.log(Level::Debug, format!("restart: max_jobid={newest}"));
        // The stack gives back the last first, so the lowest id goes on top.
        for id in jobs {
            if let Some(record) = self.jobs.get_mut(&id) {
                // What the callbacks of earlier jobs post to it waits until it is resumed itself:
                // a job whose execution isn't found again yet must not be taken for ended.
                record.busy = true;
            }
            self.work.push(Work::Resume(id));
        }
        self.stack_inactive();
        self.resume_kept();
        self.arm_heartbeat();
        if stop_at_restart(&self.config) == Ok(true) {
            // So that the next start is known to be another one, even after a crash.
            let checkpoint = self.checkpoint();
            self.effects.writes.extend(checkpoint);
        }
        self.settle();
        std::mem::take(&mut self.effects)
    }

    /// Takes over what a plugin stored on the instance under [`INSTANCE_DATA`](super::INSTANCE_DATA)
    /// and its name. Before [`start`](Self::start).
    pub fn restore_instance_data(&mut self, plugin: &str, text: &str) {
        // What can't be read is reported when the plugin asks for it.
        let value = serde_json::from_str(text).unwrap_or_else(|_| text.into());
        self.instance_data.insert(plugin.to_owned(), value);
    }

    /// Takes over a [`checkpoint`](Self::checkpoint) of the last run. Before
    /// [`start`](Self::start); what it doesn't say stays as it is.
    ///
    /// # Errors
    /// When a later manager wrote it.
    pub fn restore_checkpoint(&mut self, checkpoint: &Value) -> Result<(), StartError> {
        let number = checkpoint.get("max_jobid").and_then(Value::as_u64);
        self.max_jobid = self.max_jobid.max(number.map(JobId::new));
        let stop = stop_at_restart(&self.config)?;
        let restored = self.queues.restore(checkpoint, stop);
        restored.map_err(|error| StartError(format!("restart failed: {error}")))
    }

    /// Stops all queues for this run only, so that an administrator can look at the jobs first. After
    /// [`restore_checkpoint`](Self::restore_checkpoint), before [`start`](Self::start).
    pub fn hold_queues(&mut self, reason: &str) {
        self.queues.hold(reason);
    }

    /// What must be known after the next start, beside the jobs' own logs.
    pub fn checkpoint(&self) -> Vec<Write> {
        let max_jobid = self.max_jobid.map_or(0, JobId::as_u64);
        let queue = self.queues.checkpoint();
        let value =
            serde_json::json!({ "version": VERSION, "max_jobid": max_jobid, "queue": queue });
        vec![Write::PutInstance {
            key: "checkpoint.job-manager".to_owned(),
            value: value.to_string(),
        }]
    }

    /// Jobs that are over are only shown, and only where a plugin wants to see them.
    fn stack_inactive(&mut self) {
        let stack = &self.plugins.stack;
        if !stack.handles(TopicId::JobInactiveAdd) && !stack.handles(TopicId::JobDestroy) {
            return;
        }
        let mut jobs: Vec<JobId> = self.jobs.ids_over().collect();
        jobs.sort_unstable();
        self.work.push(Work::Inactive(jobs.into()));
    }

    pub(super) fn next_inactive(&mut self, mut jobs: VecDeque<JobId>) {
        let Some(id) = jobs.pop_front() else { return };
        self.work.push(Work::Inactive(jobs));
        self.show_inactive(id);
    }

    /// One restored job: shown to the plugins, then its action, then the events that wait for it.
    pub(super) fn resume(&mut self, id: JobId) {
        let Some(record) = self.jobs.get_mut(&id) else {
            return;
        };
        let state = record.job.state;
        let again = events::bare(self.now, "flux-restart");
        if state == State::Sched {
            record.queue.push_front(again);
        }
        self.work.push(Work::Drain(id));
        match state {
            // The plugin that it waits for may have been at work on it.
            State::Priority => {
                self.notify(TopicId::JobStatePriority, id, Cause::None);
            }
            State::Run | State::Cleanup => self.resume_execution(id),
            _ => {}
        }
        self.fail_lost_resources(id);
        self.work.push(Work::Action(id));
        self.work.push(Work::Orphans(id, Orphans::Rerun));
        if state == State::Depend {
            self.resume_depend(id);
        }
        self.notify(TopicId::JobNew, id, Cause::None);
        self.stack_frame(Frame::new(TopicId::JobCreate, id, Then::Notify));
        if state == State::Depend {
            self.recheck_dependencies(id, None);
        }
    }

    /// Asynchronous handlers of `job.state.depend` whose work ended with the last run begin again.
    fn resume_depend(&mut self, id: JobId) {
        let Some(record) = self.jobs.get(&id) else {
            return;
        };
        let held = |bound: &Bound| {
            let description = format!("{}.{}", bound.instance().name(), bound.entry().method);
            record.job.dependencies().any(|open| open == description).then_some(description)
        };
        let handlers = self.plugins.stack.handlers(TopicId::JobStateDepend);
        let mut again = Vec::new();
        let mut failed = Vec::new();
        for bound in handlers.into_iter().flat_map(|list| list.iter()) {
            match held(bound) {
                None => {}
                Some(_) if reruns(bound, true) => again.push(bound.clone()),
                Some(description) => failed.push(description),
            }
        }
        for what in failed {
            let note = format!("dependency {what}: the manager was restarted while it was open");
            self.raise_fatal(id, "dependency", &note);
        }
        let frame = Frame::new(TopicId::JobStateDepend, id, Then::Introduce);
        self.stack_frame_of(frame, again.into());
    }

    /// Resources that are no longer there to have.
    fn fail_lost_resources(&mut self, id: JobId) {
        let Some(record) = self.jobs.get(&id) else {
            return;
        };
        if record.lost_resources && record.job.state == State::Run {
            let note = "failed to reallocate R for running job";
            self.raise_fatal(id, "scheduler-restart", note);
        }
    }

    /// Prologs and epilogs that are open and that no plugin has, once `job.new` was called: the
    /// handlers that say so begin their work again, the rest has failed.
    pub(super) fn orphans(&mut self, id: JobId, step: Orphans) {
        let Some(record) = self.jobs.get(&id) else {
            return;
        };
        let open = |bracket, open: &[Box<str>]| -> Vec<(Perilog, Box<str>)> {
            let orphaned = open.iter().filter(|d| record.is_orphaned(bracket, d));
            orphaned.map(|d| (bracket, d.clone())).collect()
        };
        let mut orphans = open(Perilog::Prolog, &record.prologs);
        orphans.extend(open(Perilog::Epilog, &record.epilogs));
        if orphans.is_empty() {
            return;
        }
        if step == Orphans::Rerun {
            self.work.push(Work::Orphans(id, Orphans::Fail));
        }
        for (bracket, what) in orphans {
            if step == Orphans::Rerun {
                self.rerun(id, bracket, &what);
                continue;
            }
            let note =
                format!("{} {what}: the manager was restarted while it was open", bracket.word());
            self.finish_of(id, bracket, &what, 1, Some(note));
        }
    }

    /// Calls the asynchronous handler that had this open, if its work is to begin again.
    fn rerun(&mut self, id: JobId, bracket: Perilog, what: &str) {
        let topic = match bracket {
            Perilog::Prolog => TopicId::JobStateRun,
            Perilog::Epilog => TopicId::JobStateCleanup,
        };
        let wanted = |bound: &&Bound| {
            let (plugin, method) = (bound.instance().name(), bound.entry().method);
            reruns(bound, false) && what == format!("{plugin}.{method}")
        };
        let handlers = self.plugins.stack.handlers(topic);
        let handlers = handlers.into_iter().flat_map(|list| list.iter());
        let handlers = handlers.filter(wanted).cloned().collect();
        self.stack_frame_of(Frame::new(topic, id, Then::Introduce), handlers);
    }

    fn resume_execution(&mut self, id: JobId) {
        let Some(record) = self.jobs.get(&id) else {
            return;
        };
        let started = record.job.event_posted("start");
        let open_prolog = !record.prologs.is_empty();
        let ended = record.job.state == State::Cleanup;
        match (record.exec, ended) {
            (Exec::Done | Exec::Never, _) => {}
            // A start that was asked for is found again, or done now if it never arrived.
            (_, false) if !open_prolog => {
                self.execute_job(id, started);
                if started {
                    let since = self.jobs.get(&id).and_then(|r| r.times.start.get());
                    self.arm_expiry(id, since.unwrap_or(self.now));
                }
            }
            // It may run on: what is left of it is ended and reported.
            (_, true) if record.times.run.get().is_some() && !open_prolog => self.end_restored(id),
            _ => {}
        }
    }
}

/// Whether a handler's work begins again after a restart.
fn reruns(bound: &Bound, unsaid: bool) -> bool {
    let said = bound.entry().policy.and_then(|policy| policy.on_restart);
    said.map_or(unsaid, |said| said == OnRestart::Rerun)
}

fn refuse(text: impl Into<String>) -> RestoreError {
    RestoreError(text.into())
}

/// Replays a job's log.
fn replay(stored: StoredJob) -> Result<Record, RestoreError> {
    let jobspec = Jobspec::stored(stored.jobspec)
        .map_err(|error| refuse(format!("failed to decode jobspec: {}", error.text())))?;
    let resources = match &stored.resources {
        None => None,
        Some(text) => {
            let set: ResourceSet =
                text.parse().map_err(|error| refuse(format!("failed to decode R: {error}")))?;
            Some(Arc::new(set))
        }
    };
    let entries = decode_log(&stored.eventlog)
        .map_err(|error| refuse(format!("failed to decode eventlog: {error}")))?;
    let mut record = Record::new(blank_job(stored.id, jobspec));
    *record.job.resources = resources;
    record.exec_lines = stored.exec_lines;
    *record.data = stored.data;
    for entry in entries {
        let old = entry.name == "submit"
            && entry.context.as_ref().is_some_and(|context| !context.contains_key("version"));
        record.apply(&Arc::new(entry))?;
        record.lines += 1;
        if old {
            // Logs from before `validate` existed: the job was valid when it was logged.
            record.job.state = State::Depend;
        }
    }
    if record.job.state == State::New {
        return Err(refuse("job state (NEW) is invalid after replay"));
    }
    Ok(record)
}
