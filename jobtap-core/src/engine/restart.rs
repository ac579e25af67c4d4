//! How a manager continues from the store of the one before.
//!
//! Jobs come back one by one: active ones by replay of their eventlogs, inactive ones by their
//! summaries. An inactive job is shown to the plugins as soon as it is there, as in Flux. [`start`] then
//! introduces the active jobs to the plugins, in the order of their ids, and takes up what each was at.

use std::sync::Arc;

use serde_json::Value;

use super::agenda::{Cause, Frame, OrphanStep, Purpose, Work};
use super::alloc::node_events;
use super::api::{Level, StartError, StoredJob, Write};
use super::core::Core;
use super::dispatch::{dependencies, frames, perilogs, retention};
use super::events;
use super::exec::{self, time_limit};
use super::jobs::{ApplyError, Phase, Record, summary};
use super::life_cycle::{actions, waiters};
use super::requests::purge;
use super::requests::queues::{self, stop_at_restart};
use crate::eventlog::decode_log;
use crate::host::{BoundHandler, OnRestart, Perilog};
use crate::job::{JobId, State, merge_annotations};
use crate::jobspec::Jobspec;
use crate::topic::TopicId;

/// Why a stored job cannot be restored. It is set aside; other jobs are not affected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RestoreError(String);

impl From<ApplyError> for RestoreError {
    fn from(error: ApplyError) -> Self {
        Self(error.to_string())
    }
}

/// A job that was read from the store and can be [restored](super::Engine::restore).
///
/// Reading is most of the work of a start with many jobs and needs no engine, so that threads can share it.
pub struct ReadJob {
    id: JobId,
    record: Box<Record>,
    /// Of an inactive job.
    summary: Option<Box<str>>,
}

impl ReadJob {
    /// Reads an inactive job from the summary of [`Write::Inactive`].
    ///
    /// # Errors
    /// When the summary cannot be read; [`from_log`](Self::from_log) does without it.
    pub fn from_summary(id: JobId, summary: Box<str>) -> Result<Self, RestoreError> {
        let record =
            summary::read(id, &summary).map_err(|error| RestoreError(error.to_string()))?;
        // Parsed on first use. The engine uses it at once, to count the job.
        let _ = record.result();
        Ok(Self { id, record: Box::new(record), summary: Some(summary) })
    }

    /// Reads a job by replay of its eventlog.
    ///
    /// # Errors
    /// When the eventlog cannot be replayed; the text is for a warning that names the job.
    pub fn from_log(stored: StoredJob) -> Result<Self, RestoreError> {
        let id = stored.id;
        let mut record = Box::new(replay(stored)?);
        if record.job.state == State::Inactive {
            let summary = summary::write(&record).into();
            return Ok(Self { id, record, summary: Some(summary) });
        }
        // Parsed on first use. The scheduler uses it at once, and needs no more of it than this.
        let _ = record.job.jobspec.queue();
        record.shrink();
        Ok(Self { id, record, summary: None })
    }

    /// The job's id.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// The job's row in the index of jobs.
    pub fn row(&self) -> Write {
        match &self.summary {
            Some(summary) => Write::Inactive { id: self.id, summary: summary.clone().into() },
            None => Write::Accepted { id: self.id },
        }
    }
}

/// Restores a job, and shows it to the plugins if it is inactive.
pub(super) fn restore(core: &mut Core, job: ReadJob) {
    let ReadJob { id, mut record, summary } = job;
    if record.allocation.is_allocated()
        && record.allocation.is_from_pool()
        && !core.alloc.reclaim(&record)
    {
        record.allocation.lose();
    }
    core.jobs.newest_id = core.jobs.newest_id.max(Some(id));
    let Some(summary) = summary else {
        // What callbacks for other jobs post to this one waits until it is resumed itself: before that it is not
        // known whether its tasks still run.
        record.pending_events.busy = true;
        core.jobs.insert_active(record);
        core.jobs.count_new(id);
        waiters::count_waitable(core, id);
        return;
    };
    core.waiters.restore_inactive(&record);
    let is_shown = core.is_handled(TopicId::JobInactiveAdd) || core.is_handled(TopicId::JobDestroy);
    core.jobs.insert_inactive(record, summary, is_shown);
    if is_shown {
        actions::show_inactive(core, id);
    }
}

/// Describes where a summary differs from the eventlog.
pub(super) fn summary_difference(
    stored: StoredJob,
    summary: &str,
) -> Result<Option<String>, RestoreError> {
    Ok(summary::difference(&replay(stored)?, summary))
}

/// Replays the eventlog of a job.
fn replay(stored: StoredJob) -> Result<Record, RestoreError> {
    let refuse = |text: String| RestoreError(text);
    let jobspec = Jobspec::stored(stored.jobspec)
        .map_err(|error| refuse(format!("failed to decode jobspec: {}", error.text())))?;
    let entries = decode_log(&stored.eventlog)
        .map_err(|error| refuse(format!("failed to decode eventlog: {error}")))?;
    let mut record = Record::stored(stored.id, jobspec);
    if let Some(text) = &stored.resources {
        let resources =
            text.parse().map_err(|error| refuse(format!("failed to decode R: {error}")))?;
        record.job.set_resources(resources);
    }
    record.lines.exec = stored.exec_lines;
    *record.data = stored.data;
    for entry in entries {
        let without_version = entry.name == "submit"
            && entry.context.as_ref().is_some_and(|context| !context.contains_key("version"));
        record.apply(&Arc::new(entry))?;
        record.lines.main += 1;
        if without_version {
            // An eventlog from before there was `validate`: its job was validated before `submit`.
            record.job.state = State::Depend;
        }
    }
    if !stored.annotations.is_empty() {
        merge_annotations(&mut record.job.annotations, stored.annotations.clone());
        record.stored_annotations = Some(Box::new(stored.annotations));
    }
    if record.job.state == State::New {
        return Err(refuse("job state (NEW) is invalid after replay".to_owned()));
    }
    Ok(record)
}

/// Takes over the checkpoint of the last run. What it does not contain stays as it is.
pub(super) fn restore_checkpoint(core: &mut Core, checkpoint: &Value) -> Result<(), StartError> {
    let number = checkpoint.get("max_jobid").and_then(Value::as_u64);
    core.jobs.newest_id = core.jobs.newest_id.max(number.map(JobId::new));
    let stop = stop_at_restart(&core.config)?;
    let restored = core.alloc.queues.restore(checkpoint, stop);
    restored.map_err(|error| StartError(format!("restart failed: {error}")))
}

/// Begins work: introduces the restored jobs to the plugins, and takes up what each was at.
pub(super) fn start(core: &mut Core) {
    core.started = true;
    node_events::start(core);
    core.jobs.continue_ids();
    log_jobs(core);
    // In reverse: the agenda is a stack, so that the job of the lowest id comes first.
    for id in core.jobs.active().into_iter().rev() {
        core.agenda.push(Work::Resume(id));
    }
    retention::resume(core);
    purge::arm_heartbeat(core);
    if stop_at_restart(&core.config) == Ok(true) {
        // Stored now, so that also after a crash the next start is known to be another one.
        queues::checkpoint(core);
    }
}

fn log_jobs(core: &mut Core) {
    let running = core.jobs.active_where(|record| record.job.state.is_running()).len();
    let newest = core.jobs.newest_id.unwrap_or(JobId::new(0));
    core.log(Level::Info, format!("restart: {} jobs", core.jobs.len()));
    core.log(Level::Info, format!("restart: {running} running jobs"));
    core.log(Level::Debug, format!("restart: max_jobid={newest}"));
}

/// Resumes one job: it is introduced to the plugins, then its action follows, then the events that were
/// posted to it meanwhile. The agenda is a stack: what comes first is pushed last.
pub(super) fn resume(core: &mut Core, id: JobId) {
    let Some(record) = core.jobs.get_mut(id) else {
        return;
    };
    let state = record.job.state;
    if state == State::Sched {
        // Back to PRIORITY: the plugins that gave the priority may be others now.
        // In front of what callbacks for earlier jobs may have posted.
        record.pending_events.push_first(events::bare(core.clock.now, "flux-restart"));
    }
    core.agenda.push(Work::ApplyNextEvent(id));
    match state {
        // The plugin that it waits for may have been at work on its priority.
        State::Priority => core.notify(TopicId::JobStatePriority, id, Cause::None),
        State::Run | State::Cleanup => resume_execution(core, id),
        _ => {}
    }
    fail_without_resources(core, id);
    core.agenda.push(Work::Act(id));
    core.agenda.push(Work::Orphans(id, OrphanStep::Rerun));
    if state == State::Depend {
        resume_depend(core, id);
    }
    core.notify(TopicId::JobNew, id, Cause::None);
    frames::push(core, Frame::new(TopicId::JobCreate, id, Purpose::Notify));
    if state == State::Depend {
        dependencies::recheck(core, id, None);
    }
}

/// Ends a running job whose resources are not there any more.
fn fail_without_resources(core: &mut Core, id: JobId) {
    let Some(record) = core.jobs.get(id) else {
        return;
    };
    if record.allocation.is_lost() && record.job.state == State::Run {
        let note = "failed to reallocate R for running job";
        core.raise_fatal(id, "scheduler-restart", note);
    }
}

/// Reattaches the tasks of a job, or starts them if they were to be started.
fn resume_execution(core: &mut Core, id: JobId) {
    let Some(record) = core.jobs.get(id) else {
        return;
    };
    if matches!(record.execution.phase, Phase::Released | Phase::Skipped)
        || record.perilogs.is_open(Perilog::Prolog)
    {
        return;
    }
    let started = record.job.event_posted("start");
    if record.job.state == State::Cleanup {
        // It may still run: then it is ended, and its end reported.
        if record.job.times.run().is_some() {
            exec::end_restored(core, id);
        }
        return;
    }
    // A start that was asked for is found again, or made now if it has never arrived.
    exec::execute(core, id, started);
    if started {
        let since = core.jobs.get(id).and_then(|record| record.job.times.start());
        time_limit::arm(core, id, since.unwrap_or(core.clock.now));
    }
}

/// Whether the work of an asynchronous handler begins again after a restart; `default` if its handler
/// does not say.
fn reruns(bound: &BoundHandler, default: bool) -> bool {
    let declared = bound.entry().policy.and_then(|policy| policy.on_restart);
    declared.map_or(default, |declared| declared == OnRestart::Rerun)
}

/// Begins the work of asynchronous `job.state.depend` handlers again, which ended with the last run.
fn resume_depend(core: &mut Core, id: JobId) {
    let Some(job) = core.job(id) else {
        return;
    };
    let interrupted = |bound: &BoundHandler| {
        let description = bound.work_description(None);
        job.dependencies().any(|open| open == description).then_some(description)
    };
    let handlers = core.plugins.stack.handlers(TopicId::JobStateDepend);
    let (mut again, mut failed) = (Vec::new(), Vec::new());
    for bound in handlers.into_iter().flat_map(|list| list.iter()) {
        match interrupted(bound) {
            None => {}
            Some(_) if reruns(bound, true) => again.push(bound.clone()),
            Some(description) => failed.push(description),
        }
    }
    for what in failed {
        let note = format!("dependency {what}: the manager was restarted while it was open");
        core.raise_fatal(id, "dependency", &note);
    }
    let frame = Frame::new(TopicId::JobStateDepend, id, Purpose::Introduce);
    frames::push_to(core, frame, again.into());
}

/// Handles the prologs and epilogs of a job that no plugin has taken over in `job.new`: handlers that
/// are declared with `on_restart = rerun` begin their work again; the rest has failed.
pub(super) fn handle_orphans(core: &mut Core, id: JobId, step: OrphanStep) {
    let Some(record) = core.jobs.get(id) else {
        return;
    };
    let orphans = record.perilogs.orphans();
    if orphans.is_empty() {
        return;
    }
    if step == OrphanStep::Rerun {
        core.agenda.push(Work::Orphans(id, OrphanStep::Fail));
    }
    for (kind, what) in orphans {
        match step {
            OrphanStep::Rerun => rerun(core, id, kind, &what),
            OrphanStep::Fail => {
                let word = kind.word();
                let note = format!("{word} {what}: the manager was restarted while it was open");
                perilogs::finish(core, id, kind, &what, 1, Some(note));
            }
        }
    }
}

/// Calls the asynchronous handler that had a prolog or epilog open, if its work begins again.
fn rerun(core: &mut Core, id: JobId, kind: Perilog, what: &str) {
    let topic = match kind {
        Perilog::Prolog => TopicId::JobStateRun,
        Perilog::Epilog => TopicId::JobStateCleanup,
    };
    let begins_again =
        |bound: &&BoundHandler| reruns(bound, false) && what == bound.work_description(None);
    let handlers = core.plugins.stack.handlers(topic);
    let handlers = handlers.into_iter().flat_map(|list| list.iter());
    let handlers = handlers.filter(begins_again).cloned().collect();
    frames::push_to(core, Frame::new(topic, id, Purpose::Introduce), handlers);
}
