//! How a manager continues from the store of the previous one.
//!
//! Jobs come back one by one: active ones by replay of their eventlogs, inactive ones by their summaries. An inactive
//! job is shown to the plugins as soon as it is restored, as in Flux. [`start`] then introduces the active jobs to the
//! plugins, in the order of their ids, and continues each of them.

use std::sync::Arc;

use serde_json::Value;

use super::agenda::{Agenda, Cause, Frame, OrphanStep, Purpose, Work};
use super::alloc::{Allocation, node_events};
use super::allocations::{self, inventory};
use super::api::{Effects, Level, StartError, StoredJob, Write};
use super::core::Core;
use super::dispatch::perilogs::{self, PerilogEnd};
use super::dispatch::{dependencies, pushing, retention};
use super::exec::config::ExecConfig;
use super::exec::{self, time_limit};
use super::jobs::{ApplyError, Jobs, Phase, Record, summary};
use super::life_cycle::actions;
use super::plugins::Plugins;
use super::requests::purge;
use super::requests::queues::{self, stop_at_restart};
use super::timers::Timers;
use super::turn::Turn;
use crate::eventlog::{Event, Name, Submitted, decode_log};
use crate::host::{BoundHandler, OnRestart};
use crate::job::{JobId, State, merge_annotations};
use crate::jobspec::Jobspec;
use crate::plugin::Perilog;
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
    /// The summary of an inactive job.
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
        // Parses what would be parsed on first use: the engine needs it at once, to count the job.
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
        if record.job.state() == State::Inactive {
            let summary = summary::write(&record).into();
            return Ok(Self { id, record, summary: Some(summary) });
        }
        // Parses what would be parsed on first use: the scheduler needs it at once, and nothing else of the jobspec.
        let _ = record.job.kept().jobspec.queue();
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
        // Events that callbacks for other jobs post to this one wait until it is resumed itself: before that it is not
        // known whether its tasks still run.
        record.pending_events.busy = true;
        core.waiters.count_active(&record);
        core.jobs.insert_active(record);
        core.jobs.count_new(id);
        return;
    };
    core.waiters.restore_inactive(&record);
    let is_shown = core.plugins.is_handled(TopicId::JobInactiveAdd)
        || core.plugins.is_handled(TopicId::JobDestroy);
    core.jobs.insert_inactive(record, summary, is_shown);
    if is_shown {
        actions::show_inactive(&mut core.turn, &mut core.jobs, &core.plugins, id);
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
        record.job.kept_mut().set_resources(resources);
    }
    record.lines.exec = stored.exec_lines;
    *record.data = stored.data;
    for entry in entries {
        let entry = Arc::new(entry);
        let applied = record.apply(&entry)?;
        record.lines.main += 1;
        if let Event::Submit(Submitted { is_versioned: false, .. }) = applied.event {
            // An eventlog without a version has no `validate`: its job was accepted before it was submitted.
            record.job.kept_mut().state = State::Depend;
        }
    }
    if !stored.annotations.is_empty() {
        merge_annotations(&mut record.job.kept_mut().annotations, stored.annotations.clone());
        record.stored_annotations = Some(Box::new(stored.annotations));
    }
    if record.job.state() == State::New {
        return Err(refuse("job state (NEW) is invalid after replay".to_owned()));
    }
    Ok(record)
}

/// Restores the checkpoint of the last run. What it does not contain stays as it is.
pub(super) fn restore_checkpoint(
    jobs: &mut Jobs,
    alloc: &mut Allocation,
    config: &Value,
    checkpoint: &Value,
) -> Result<(), StartError> {
    let number = checkpoint.get("max_jobid").and_then(Value::as_u64);
    jobs.newest_id = jobs.newest_id.max(number.map(JobId::new));
    let stop = stop_at_restart(config)?;
    let restored = alloc.queues.restore(checkpoint, stop);
    restored.map_err(|error| StartError(format!("restart failed: {error}")))
}

/// Begins work: introduces the restored jobs to the plugins, and continues each of them.
pub(super) fn start(core: &mut Core) {
    let Core { turn, jobs, plugins, alloc, allocations, timers, config, started, arrays, .. } =
        &mut *core;
    *started = true;
    inventory::take_unjoined_offline(allocations, alloc);
    node_events::start(turn, alloc, timers, config);
    jobs.continue_ids();
    log_jobs(&mut turn.effects, jobs);
    // In reverse: the agenda is a stack, so that the job of the lowest id comes first.
    for id in jobs.active().into_iter().rev() {
        turn.agenda.push(Work::Resume(id));
    }
    retention::resume(turn, plugins, alloc);
    purge::arm_heartbeat(turn, jobs, timers);
    arrays.count_restored(jobs);
    if stop_at_restart(config) == Ok(true) {
        // Stored now, so that even after a crash the next start is known to be another one.
        queues::checkpoint(&mut turn.effects, jobs, &alloc.queues);
    }
    allocations::restart::resume(core);
}

fn log_jobs(effects: &mut Effects, jobs: &Jobs) {
    let running = jobs.active_where(|record| record.job.state().is_running()).len();
    let newest = jobs.newest_id.unwrap_or(JobId::new(0));
    effects.log(Level::Info, format!("restart: {} jobs", jobs.len()));
    effects.log(Level::Info, format!("restart: {running} running jobs"));
    effects.log(Level::Debug, format!("restart: max_jobid={newest}"));
}

/// Resumes one job: it is introduced to the plugins, then its action follows, then the events that were
/// posted to it meanwhile. The agenda is a stack: what comes first is pushed last.
pub(super) fn resume(core: &mut Core, id: JobId) {
    let Core { turn, jobs, plugins, alloc, timers, exec, .. } = core;
    let Some(record) = jobs.get_mut(id) else {
        return;
    };
    let state = record.job.state();
    // The executor has begun it: its next event is `alloc`, and what is posted to it waits for that.
    let was_begun = alloc.prefill.before(id).is_some();
    if state == State::Sched && !was_begun {
        // Back to PRIORITY: other plugins may decide the priority now. This event comes before those that callbacks for
        // earlier jobs may have posted.
        record.pending_events.push_first(Event::FluxRestart.at(turn.clock.now));
    }
    if !was_begun {
        turn.agenda.push(Work::ApplyNextEvent(id));
    }
    match state {
        // The plugin that the job waits for may have been at work on its priority.
        State::Priority => {
            plugins.notify(&mut turn.agenda, TopicId::JobStatePriority, id, Cause::None)
        }
        State::Run | State::Cleanup => resume_execution(turn, jobs, timers, *exec, id),
        _ => {}
    }
    fail_without_resources(turn, jobs, id);
    if !was_begun {
        turn.agenda.push(Work::Act(id));
    }
    turn.agenda.push(Work::Orphans(id, OrphanStep::Rerun));
    if state == State::Depend {
        resume_depend(turn, jobs, plugins, id);
    }
    plugins.notify(&mut turn.agenda, TopicId::JobNew, id, Cause::None);
    pushing::push(&mut turn.agenda, plugins, Frame::new(TopicId::JobCreate, id, Purpose::Notify));
    if state == State::Depend {
        dependencies::recheck(turn, jobs, plugins, id, None);
    }
}

/// Ends a running job whose resources are no longer available.
fn fail_without_resources(turn: &mut Turn, jobs: &mut Jobs, id: JobId) {
    let Some(record) = jobs.get(id) else {
        return;
    };
    if record.allocation.is_lost() && record.job.state() == State::Run {
        let note = "failed to reallocate R for running job";
        jobs.raise_fatal(turn, id, "scheduler-restart", note);
    }
}

/// Reattaches the tasks of a job, or starts them if they had yet to be started.
fn resume_execution(
    turn: &mut Turn,
    jobs: &mut Jobs,
    timers: &mut Timers,
    config: ExecConfig,
    id: JobId,
) {
    let Some(record) = jobs.get(id) else {
        return;
    };
    if matches!(record.execution.phase, Phase::Released | Phase::Skipped)
        || record.perilogs.is_open(Perilog::Prolog)
    {
        return;
    }
    let started = record.job.has_event(&Name::Start);
    if record.job.state() == State::Cleanup {
        // It may still have tasks: then these are ended, and the executor reports that.
        if record.job.kept().times.run().is_some() {
            exec::end_restored(turn, jobs, config, id);
        }
        return;
    }
    // If a start was requested, the executor finds the job, or starts it now if the request has never arrived.
    exec::execute(turn, jobs, timers, config, id, started);
    if started {
        let since = jobs.get(id).and_then(|record| record.job.kept().times.start());
        time_limit::arm(turn, jobs, timers, config, id, since.unwrap_or(turn.clock.now));
    }
}

/// Whether the work of an asynchronous handler begins again after a restart; `default` if its handler
/// does not say.
fn reruns(bound: &BoundHandler, default: bool) -> bool {
    let declared = bound.entry().policy.and_then(|policy| policy.on_restart);
    declared.map_or(default, |declared| declared == OnRestart::Rerun)
}

/// Begins the work of asynchronous `job.state.depend` handlers again, which ended with the last run.
fn resume_depend(turn: &mut Turn, jobs: &mut Jobs, plugins: &Plugins, id: JobId) {
    let Some(job) = jobs.job(id) else {
        return;
    };
    let interrupted = |bound: &BoundHandler| {
        let description = bound.work_description(None);
        job.dependencies().any(|open| open == description).then_some(description)
    };
    let handlers = plugins.stack.handlers(TopicId::JobStateDepend);
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
        jobs.raise_fatal(turn, id, "dependency", &note);
    }
    let frame = Frame::new(TopicId::JobStateDepend, id, Purpose::Introduce);
    pushing::push_to(&mut turn.agenda, frame, again.into());
}

/// Handles the prologs and epilogs of a job that no plugin has taken over in `job.new`: handlers that
/// are declared with `on_restart = rerun` begin their work again; the rest has failed.
pub(super) fn handle_orphans(
    turn: &mut Turn,
    jobs: &mut Jobs,
    plugins: &Plugins,
    id: JobId,
    step: OrphanStep,
) {
    let Some(record) = jobs.get(id) else {
        return;
    };
    let orphans = record.perilogs.orphans();
    if orphans.is_empty() {
        return;
    }
    if step == OrphanStep::Rerun {
        turn.agenda.push(Work::Orphans(id, OrphanStep::Fail));
    }
    for (kind, what) in orphans {
        match step {
            OrphanStep::Rerun => rerun(&mut turn.agenda, plugins, id, kind, &what),
            OrphanStep::Fail => {
                let word = kind.word();
                let note = format!("{word} {what}: the manager was restarted while it was open");
                let end = PerilogEnd::failed(kind, &what, Some(note));
                perilogs::finish(turn, jobs, id, end);
            }
        }
    }
}

/// Calls the asynchronous handler that had a prolog or epilog open, if its work begins again.
fn rerun(agenda: &mut Agenda, plugins: &Plugins, id: JobId, kind: Perilog, what: &str) {
    let topic = match kind {
        Perilog::Prolog => TopicId::JobStateRun,
        Perilog::Epilog => TopicId::JobStateCleanup,
    };
    let begins_again =
        |bound: &&BoundHandler| reruns(bound, false) && what == bound.work_description(None);
    let handlers = plugins.stack.handlers(topic);
    let handlers = handlers.into_iter().flat_map(|list| list.iter());
    let handlers = handlers.filter(begins_again).cloned().collect();
    pushing::push_to(agenda, Frame::new(topic, id, Purpose::Introduce), handlers);
}
