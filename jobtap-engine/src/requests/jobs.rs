//! Requests about jobs: exceptions, signals, urgency and memos.

use std::collections::VecDeque;

use serde_json::{Map, Value, json};

use super::slurm::begin;
use crate::agenda::{Agenda, Work};
use crate::api::{Cred, Effects, RaisedException, ReplyTo, RequestError};
use crate::core::Core;
use crate::eventlog::{Event, EventEntry, Raised};
use crate::exec;
use crate::host::errno::{EINVAL, ENOENT, EPERM, EPROTO};
use crate::job::{JobId, Reach, Signal, State, StateSet, Uid, Urgency, merge_annotations};
use crate::jobs::{Jobs, Record};
use crate::topic::TopicId;
use crate::turn::Turn;

/// The maximum size of one memo, and of all memos of a job together, in bytes of JSON: they stay in memory and in each
/// listing as long as the job does.
const MAX_MEMO: usize = 64 * 1024;

pub(super) fn refuse<T>(errno: i32, text: impl Into<String>) -> Result<T, RequestError> {
    Err(RequestError::new(errno, text))
}

/// A job on which this client may act, or a refusal. Clients other than the owner may act on their own
/// jobs only, and nothing can be done to an inactive job. `errno` is for jobs that are unknown or
/// inactive: Flux's services differ there.
pub(super) fn active_job<'a>(
    jobs: &'a Jobs,
    cred: Cred,
    id: JobId,
    errno: i32,
    unknown: &str,
    guests: &str,
) -> Result<&'a Record, RequestError> {
    let record = jobs.accepted(id, errno, unknown)?;
    if record.job.state() == State::Inactive {
        return refuse(errno, "job is inactive");
    }
    if !cred.owner && record.job.userid() != cred.userid {
        return refuse(EPERM, guests);
    }
    Ok(record)
}

/// `job-manager.raise`.
pub(super) fn raise(
    turn: &mut Turn,
    jobs: &mut Jobs,
    cred: Cred,
    id: JobId,
    exception: &RaisedException,
) -> Result<(), RequestError> {
    let severity = check_exception(exception)?;
    let guests = "guests can only raise exceptions on their own jobs";
    active_job(jobs, cred, id, ENOENT, "unknown job id", guests)?;
    post_exception(turn, jobs, cred.userid, id, severity, exception);
    Ok(())
}

pub(super) fn post_exception(
    turn: &mut Turn,
    jobs: &mut Jobs,
    userid: Uid,
    id: JobId,
    severity: u8,
    exception: &RaisedException,
) {
    let raised = Raised::new(&exception.kind, severity, &exception.note, userid);
    jobs.post(turn, id, Event::Exception(raised));
}

/// `job-manager.raiseall`.
pub(super) fn raise_all(
    turn: &mut Turn,
    jobs: &Jobs,
    cred: Cred,
    dry_run: bool,
    userid: Option<Uid>,
    states: StateSet,
    exception: &RaisedException,
) -> Result<Value, RequestError> {
    let severity = check_exception(exception)?;
    if !cred.owner && userid != Some(cred.userid) {
        return refuse(EPERM, "guests can only raise exceptions on their own jobs");
    }
    let ids = matching(jobs, states, userid);
    let count = ids.len();
    if !dry_run {
        let raised = Raised::new(&exception.kind, severity, &exception.note, cred.userid);
        let entry = Event::Exception(raised).at(turn.clock.now);
        turn.agenda.push(Work::PostToEach(ids.into(), Box::new(entry)));
    }
    Ok(json!({ "count": count, "errors": 0 }))
}

/// Posts an event to the next of these jobs. They are taken one by one, since the end of a job may end those that
/// depend on it, which need no second exception.
pub(crate) fn post_to_next(
    agenda: &mut Agenda,
    jobs: &mut Jobs,
    mut ids: VecDeque<JobId>,
    entry: Box<EventEntry>,
) {
    let Some(id) = ids.pop_front() else { return };
    let event = EventEntry::clone(&entry);
    agenda.push(Work::PostToEach(ids, entry));
    if jobs.job(id).is_some_and(|job| job.state() != State::Inactive) {
        jobs.post_entry(agenda, id, event);
    }
}

/// The accepted jobs in these states, of this user or of all.
fn matching(jobs: &Jobs, states: StateSet, userid: Option<Uid>) -> Vec<JobId> {
    jobs.active_where(|record| {
        record.is_accepted()
            && states.contains(record.job.state())
            && userid.is_none_or(|userid| record.job.userid() == userid)
    })
}

/// `job-manager.kill`.
pub(super) fn kill(
    effects: &mut Effects,
    jobs: &Jobs,
    cred: Cred,
    id: JobId,
    signum: i64,
    reach: Reach,
) -> Result<(), RequestError> {
    let signal = check_signal(signum)?;
    let guests = "guests may only send signals to their own jobs";
    let record = active_job(jobs, cred, id, EINVAL, "unknown job id", guests)?;
    if !matches!(record.job.state(), State::Run | State::Cleanup) {
        return refuse(EINVAL, "job is not running");
    }
    exec::signal(effects, jobs, id, signal, reach);
    Ok(())
}

/// `job-manager.killall`.
pub(super) fn kill_all(
    effects: &mut Effects,
    jobs: &Jobs,
    cred: Cred,
    dry_run: bool,
    userid: Option<Uid>,
    signum: i64,
) -> Result<Value, RequestError> {
    let signal = check_signal(signum)?;
    if !cred.owner && userid != Some(cred.userid) {
        return refuse(EPERM, "guests can only kill their own jobs");
    }
    let ids = matching(jobs, StateSet::RUNNING, userid);
    if !dry_run {
        for id in &ids {
            exec::signal(effects, jobs, *id, signal, Reach::Group);
        }
    }
    Ok(json!({ "count": ids.len(), "errors": 0 }))
}

/// `job-manager.memo`.
pub(super) fn memo(
    turn: &mut Turn,
    jobs: &mut Jobs,
    cred: Cred,
    id: JobId,
    volatile: bool,
    memo: Map<String, Value>,
) -> Result<(), RequestError> {
    let guests = "guests can only add a memo to their own jobs";
    let record = active_job(jobs, cred, id, ENOENT, "unknown job id", guests)?;
    check_memo(&record.job.kept().annotations, &memo)?;
    if volatile {
        let notes = [("user".to_owned(), Value::Object(memo))].into_iter().collect();
        jobs.post_annotations(turn, id, notes);
    } else {
        jobs.post(turn, id, Event::Memo(&memo.into()));
    }
    Ok(())
}

/// Refuses a memo that is too long, or that makes the memos of its job too long.
fn check_memo(
    annotations: &Map<String, Value>,
    memo: &Map<String, Value>,
) -> Result<(), RequestError> {
    let mut merged =
        annotations.get("user").and_then(Value::as_object).cloned().unwrap_or_default();
    merge_annotations(&mut merged, memo.clone());
    for (what, memo) in [("it", memo), ("the memo of the job", &merged)] {
        let length = json!(memo).to_string().len();
        if length > MAX_MEMO {
            let text = format!("memo: {what} would have {length} bytes, {MAX_MEMO} are allowed");
            return refuse(EINVAL, text);
        }
    }
    Ok(())
}

/// `job-manager.urgency`. The response has the urgency before.
pub(super) fn set_urgency(core: &mut Core, reply: ReplyTo, cred: Cred, id: JobId, value: i64) {
    match check_urgency(&core.jobs, cred, id, value) {
        Ok(urgency) if core.plugins.stack.handles(TopicId::SlurmJobModify) => {
            begin::begin_urgency(core, reply, cred, id, urgency);
        }
        Ok(urgency) => {
            let done = post_urgency(&mut core.turn, &mut core.jobs, cred, id, urgency);
            core.turn.effects.reply(reply, done);
        }
        Err(error) => core.turn.effects.reply(reply, Err(error)),
    }
}

fn check_urgency(jobs: &Jobs, cred: Cred, id: JobId, value: i64) -> Result<Urgency, RequestError> {
    let urgency = Urgency::new(value)
        .map_err(|_| RequestError::new(EINVAL, "urgency value is out of range"))?;
    let guests = "guests can only reprioritize their own jobs";
    let record = active_job(jobs, cred, id, EINVAL, "unknown job", guests)?;
    if !cred.owner && urgency > record.job.kept().urgency.max(Urgency::DEFAULT) {
        return refuse(EPERM, "guests can only adjust urgency <= default");
    }
    check_unallocated(record)?;
    Ok(urgency)
}

fn check_unallocated(record: &Record) -> Result<(), RequestError> {
    if record.allocation.is_allocated() || matches!(record.job.state(), State::Run | State::Cleanup)
    {
        return refuse(EINVAL, "urgency cannot be changed once resources are allocated");
    }
    Ok(())
}

/// Changes the urgency, which has been checked. Returns the response.
pub(super) fn post_urgency(
    turn: &mut Turn,
    jobs: &mut Jobs,
    cred: Cred,
    id: JobId,
    urgency: Urgency,
) -> Result<Value, RequestError> {
    let guests = "guests can only reprioritize their own jobs";
    // Checked once more: the job may have gone on while a plugin was awaited.
    let record = active_job(jobs, cred, id, EINVAL, "unknown job", guests)?;
    check_unallocated(record)?;
    let old = record.job.kept().urgency;
    jobs.post(turn, id, Event::Urgency { userid: Some(cred.userid), urgency });
    Ok(json!({ "old_urgency": old.value() }))
}

pub(super) fn check_signal(signum: i64) -> Result<Signal, RequestError> {
    Signal::from_number(signum).ok_or_else(|| RequestError::new(EINVAL, "Invalid signal number"))
}

/// Checks severity and type by RFC 21; returns the severity.
pub(super) fn check_exception(exception: &RaisedException) -> Result<u8, RequestError> {
    let severity = u8::try_from(exception.severity)
        .ok()
        .filter(|severity| *severity <= 7)
        .ok_or_else(|| RequestError::new(EPROTO, "invalid exception severity"))?;
    let kind = &exception.kind;
    if kind.is_empty() || kind.contains(|c: char| c == '=' || c.is_whitespace()) {
        return refuse(EPROTO, "invalid exception type");
    }
    Ok(severity)
}
