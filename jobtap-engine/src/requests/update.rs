//! Changes to a jobspec that users ask for: `job-manager.update`.
//!
//! The plugins of each key decide on it, then `job.validate` on the changed jobspec, then a check of
//! feasibility, as far as the plugins ask for these. All keys are changed or none.

use serde_json::{Map, Value, json};

use super::access;
use super::slurm::begin;
use crate::agenda::{Frame, JobspecUpdate, Purpose, Subject, UpdateStage};
use crate::alloc::nodes::Nodes;
use crate::api::{Cred, Effects, ReplyTo, RequestError};
use crate::core::Core;
use crate::dispatch::pushing;
use crate::eventlog::Event;
use crate::host::BoundHandler;
use crate::host::errno::{EINVAL, ENOENT, EPERM};
use crate::job::{Job, JobFlag, JobId, State, Timestamp};
use crate::jobs::Jobs;
use crate::jobspec::path;
use crate::plugin::UpdateRequest;
use crate::topic::TopicId;
use crate::turn::Turn;

/// The path whose change means a new end for a running job.
const DURATION: &str = "attributes.system.duration";

/// The path of a job's queue.
const QUEUE: &str = "attributes.system.queue";

/// `job-manager.update`.
pub(super) fn update(
    core: &mut Core,
    reply: ReplyTo,
    cred: Cred,
    id: JobId,
    updates: Map<String, Value>,
) {
    match check_access(&core.jobs, cred, id, &updates) {
        Err(error) => core.turn.effects.reply(reply, Err(error)),
        Ok(())
            if core.plugins.stack.handles(TopicId::SlurmJobModify)
                || (access::is_restricted(core, cred) && names_queue(&updates)) =>
        {
            begin::begin_update(core, reply, cred, id, updates);
        }
        Ok(()) => ask_plugins(core, reply, Vec::new(), cred, id, Updates::wanted(updates)),
    }
}

/// Whether these changes may concern the queue. If only a plugin adds such a change, the user has not been looked up,
/// and may only have access to queues that are for all users.
fn names_queue(updates: &Map<String, Value>) -> bool {
    updates.keys().any(|key| QUEUE.starts_with(key.as_str()))
}

/// The new values of a request, by path.
pub(super) struct Updates {
    /// Those that the user wants, as plugins have changed them.
    pub(super) wanted: Map<String, Value>,
    /// Those that plugins have added. They need no plugin for their keys, but they need `job.validate`.
    pub(super) added: Map<String, Value>,
}

impl Updates {
    /// What the user wants, to which no plugin has added anything.
    pub(super) fn wanted(wanted: Map<String, Value>) -> Self {
        Self { wanted, added: Map::new() }
    }
}

/// Asks the plugins of each key that the user wants to change.
pub(super) fn ask_plugins(
    core: &mut Core,
    reply: ReplyTo,
    messages: Vec<String>,
    cred: Cred,
    id: JobId,
    updates: Updates,
) {
    let Updates { wanted: updates, added } = updates;
    let undecided = updates.keys().cloned().collect();
    let update = JobspecUpdate {
        reply,
        messages,
        cred,
        id,
        updates,
        undecided,
        validated: added.is_empty(),
        added,
        feasibility: false,
        stage: UpdateStage::Keys,
    };
    ask_next(core, Box::new(update));
}

fn check_access(
    jobs: &Jobs,
    cred: Cred,
    id: JobId,
    updates: &Map<String, Value>,
) -> Result<(), RequestError> {
    let refuse = |errno, text: &str| Err(RequestError::new(errno, text));
    if updates.keys().any(|path| !path::is_updatable(path)) {
        return refuse(EINVAL, "one or more jobspec updates are invalid");
    }
    let record = jobs.accepted(id, ENOENT, "unknown job id")?;
    if record.job.state() == State::Inactive {
        return refuse(EINVAL, "job is inactive");
    }
    if !cred.owner && record.job.userid() != cred.userid {
        return refuse(EPERM, "guests may only update their own jobs");
    }
    if !cred.owner && record.set_flags.immutable {
        return refuse(EPERM, "job is immutable due to previous instance owner update");
    }
    Ok(())
}

fn refuse(effects: &mut Effects, update: JobspecUpdate, text: impl Into<String>) {
    effects.reply_with(update.reply, update.messages, Err(RequestError::new(EINVAL, text)));
}

/// Asks the plugins of the next key; after the last key, goes on with the whole jobspec.
fn ask_next(core: &mut Core, mut update: Box<JobspecUpdate>) {
    let id = update.id;
    let Some(key) = update.undecided.pop_front() else {
        return check_whole(core, update);
    };
    let topic = TopicId::JobUpdateKey;
    let handlers = core.plugins.stack.members(topic, &key, |_| true);
    if handlers.iter().all(BoundHandler::only_observes) {
        return refuse(&mut core.turn.effects, *update, format!("update of {key} not supported"));
    }
    let value = update.updates.get(&key).cloned().unwrap_or_default();
    let subject = Subject::UpdateRequest(UpdateRequest { cred: update.cred, key, value });
    let update = Some(update);
    let frame = Frame { subject, update, ..Frame::new(topic, id, Purpose::Update) };
    pushing::push_with_shadows(&mut core.turn.agenda, &core.plugins, frame, handlers);
}

/// Handles the end of a dispatch: all handlers of a key, or of `job.validate`, were called.
pub(crate) fn finish_dispatch(core: &mut Core, mut frame: Frame) {
    let Some(mut update) = frame.update.take() else {
        return;
    };
    if let Some(text) = frame.refusal {
        let general = || "update rejected by job-manager plugin".to_owned();
        let text = if text.is_empty() { general() } else { text };
        return refuse(&mut core.turn.effects, *update, text);
    }
    if !frame.awaited.is_empty() {
        let id = frame.job;
        // A job has room for one: the verdict of a plugin only names the job.
        if core.plugins.is_suspended(id) {
            let text = "another update of this job waits for its validation";
            return refuse(&mut core.turn.effects, *update, text);
        }
        frame.update = Some(update);
        return core.plugins.suspend(id, frame);
    }
    if update.stage == UpdateStage::Validate {
        return apply(&mut core.turn, &mut core.jobs, &core.alloc.nodes, *update);
    }
    let decision = frame.progress.outcome.decisions().update.unwrap_or_default();
    // One plugin that wants validation is enough; so is one that wants feasibility.
    update.validated &= decision.validated;
    update.feasibility |= decision.feasibility;
    update.added.extend(decision.further);
    ask_next(core, update);
}

/// Checks the jobspec as it would be with all changes.
fn check_whole(core: &mut Core, mut update: Box<JobspecUpdate>) {
    let added = std::mem::take(&mut update.added);
    update.updates.extend(added);
    let trial = match trial_job(&core.jobs, update.id, &update.updates) {
        Ok(trial) => trial,
        Err(error) => {
            return core.turn.effects.reply_with(update.reply, update.messages, Err(error));
        }
    };
    let moved = core
        .jobs
        .job(update.id)
        .is_some_and(|job| job.jobspec().queue() != trial.jobspec().queue());
    if moved && let Err(error) = access::check(core, update.cred, trial.jobspec()) {
        return core.turn.effects.reply_with(update.reply, update.messages, Err(error));
    }
    if update.feasibility
        && let Err(error) = core.alloc.pool.feasible(trial.jobspec())
    {
        return refuse(&mut core.turn.effects, *update, error.to_string());
    }
    if update.validated {
        return apply(&mut core.turn, &mut core.jobs, &core.alloc.nodes, *update);
    }
    update.stage = UpdateStage::Validate;
    let id = update.id;
    let frame = Frame::new(TopicId::JobValidate, id, Purpose::Update);
    let (trial, update) = (Some(Box::new(trial)), Some(update));
    pushing::push(&mut core.turn.agenda, &core.plugins, Frame { trial, update, ..frame });
}

/// The job with the changed jobspec.
fn trial_job(jobs: &Jobs, id: JobId, updates: &Map<String, Value>) -> Result<Job, RequestError> {
    let job = &jobs.accepted(id, ENOENT, "unknown job id")?.job;
    let mut jobspec = job.kept().jobspec.clone();
    let changed = jobspec.update_all(updates);
    changed.map_err(|error| RequestError::new(EINVAL, error.to_string()))?;
    Ok(job.with_jobspec(jobspec))
}

/// Posts the changes that all plugins have agreed to.
fn apply(turn: &mut Turn, jobs: &mut Jobs, nodes: &Nodes, update: JobspecUpdate) {
    let JobspecUpdate { reply, messages, cred, id, updates, validated, .. } = update;
    // Checked once more: the job may have gone on while a verdict was awaited.
    let checked = check_access(jobs, cred, id, &updates);
    let expiration =
        match checked.and_then(|()| new_expiration(jobs, nodes, turn.clock.now, id, &updates)) {
            Ok(expiration) => expiration,
            Err(error) => return turn.effects.reply_with(reply, messages, Err(error)),
        };
    let guests_job = jobs.job(id).is_some_and(|job| job.userid() != cred.userid);
    if cred.owner && guests_job && validated {
        jobs.post(turn, id, Event::SetFlags(vec![JobFlag::Immutable]));
    }
    jobs.post(turn, id, Event::JobspecUpdate(&updates.into()));
    if let Some(expiration) = expiration {
        jobs.post(turn, id, Event::ResourceUpdate { expiration });
    }
    turn.effects.reply_with(reply, messages, Ok(json!({})));
}

/// The new end of a running job whose duration changes, in UNIX seconds (0 is no end); `None` if its end doesn't
/// change.
fn new_expiration(
    jobs: &Jobs,
    nodes: &Nodes,
    now: Timestamp,
    id: JobId,
    updates: &Map<String, Value>,
) -> Result<Option<f64>, RequestError> {
    let Some(duration) = updates.get(DURATION) else {
        return Ok(None);
    };
    let record = jobs.accepted(id, ENOENT, "unknown job id")?;
    if !matches!(record.job.state(), State::Run | State::Cleanup) {
        return Ok(None);
    }
    let start = record.job.resources().and_then(|resources| resources.starttime());
    let start = start.ok_or_else(|| RequestError::new(EINVAL, "unable to get job starttime"))?;
    let duration = duration.as_f64().unwrap_or(0.0);
    if duration == 0.0 {
        nodes.check_new_end(now, record, f64::INFINITY)?;
        return Ok(Some(0.0));
    }
    let expiration = start + duration;
    if expiration < now.as_secs() {
        let text = "requested duration places job expiration in the past";
        return Err(RequestError::new(EINVAL, text));
    }
    nodes.check_new_end(now, record, expiration)?;
    Ok(Some(expiration))
}
