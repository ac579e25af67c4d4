//! Jobs that are submitted again.
//!
//! A job can't go back to an earlier state (RFC 21), so where Slurm requeues a job this manager submits an identical
//! one, which names the first.
//!
//! The job ends only when the manager has accepted the new one, in the same commit, and its event `requeue` names it: no
//! job is lost because the manager dies between the two, and no eventlog promises a job that doesn't exist.

use serde_json::{Value, json};

use super::perilogs::{self, PerilogEnd};
use crate::api::{Effect, Level, RequestError, Resubmission};
use crate::eventlog::{Event, Raised};
use crate::host::errno::EINVAL;
use crate::job::{JobId, State, Urgency};
use crate::jobs::{Jobs, Record};
use crate::jobspec::{JobspecError, path};
use crate::plugin::Perilog;
use crate::slurm::JobDescriptor;
use crate::submissions::{Failed, Requeue, Requeuer, Submissions};
use crate::turn::Turn;

/// The jobspec paths at which a resubmitted job has the id of the job that it replaces, and the number of
/// resubmissions.
const REQUEUED: &str = "attributes.system.slurm.requeue_of";
const RESTARTS: &str = "attributes.system.slurm.restart_cnt";

/// The jobspec paths of a job's index in an array of `sbatch`, and of the id of that array, which the first job lacks:
/// there it is the job's own.
const ARRAY_INDEX: &str = "attributes.system.slurm.array_task_id";
const ARRAY: &str = "attributes.system.slurm.array_job_id";

const DEPENDENCIES: &str = "attributes.system.dependencies";

/// The number of times that the job will have been submitted again if it is submitted again now.
pub(crate) fn attempts(record: &Record) -> u64 {
    let earlier = path::get(record.job.jobspec().value(), RESTARTS).and_then(Value::as_u64);
    earlier.unwrap_or(0) + 1
}

/// Whether the job's tasks read what its user types, as with `run`: the user waits for this job, and for no other.
pub(crate) fn is_interactive(jobspec: &Value) -> bool {
    let stdin = "attributes.system.shell.options.input.stdin.type";
    path::get(jobspec, stdin).and_then(Value::as_str) == Some("service")
}

/// Whether the user of a job allows that it runs again from its beginning.
pub(crate) fn allows_requeue(record: &Record) -> bool {
    JobDescriptor::from_jobspec(record.job.jobspec().value()).requeue != Some(0)
}

/// Submits an identical job with this urgency; the caller records why in [`Submissions::requeues`]. The job has had resources, so that its dependencies were
/// satisfied: the new one has none, since the jobs that they name may be gone.
///
/// # Errors
/// [`JobspecError`] if the jobspec has no room for the note about the first job.
pub(crate) fn submit_again(
    turn: &mut Turn,
    record: &mut Record,
    urgency: Urgency,
) -> Result<(), JobspecError> {
    let job = &record.job;
    let mut jobspec = job.jobspec().value().clone();
    path::set(&mut jobspec, REQUEUED, json!(job.id().to_string()))?;
    path::set(&mut jobspec, RESTARTS, attempts(record).into())?;
    path::remove(&mut jobspec, DEPENDENCIES);
    if path::get(&jobspec, ARRAY_INDEX).is_some() && path::get(&jobspec, ARRAY).is_none() {
        path::set(&mut jobspec, ARRAY, job.id().as_u64().into())?;
    }
    let (of, userid, flags) = (job.id(), job.userid(), job.flags());
    let resubmission = Resubmission { of, userid, urgency, flags, jobspec };
    turn.effects.after.push(Effect::Resubmit(Box::new(resubmission)));
    record.execution.resubmitted = true;
    Ok(())
}

/// Handles that a job has a successor: the job ends, and who has asked for it learns the new id.
pub(crate) fn accepted(
    turn: &mut Turn,
    jobs: &mut Jobs,
    submissions: &mut Submissions,
    of: JobId,
    new: JobId,
    messages: Vec<String>,
) {
    let Some(requeue) = submissions.requeues.remove(&of) else { return };
    let (asked, failed) = requeue.into_parts();
    if jobs.state(of).is_some_and(|state| state != State::Inactive) {
        jobs.post(turn, of, Event::Requeue { id: new });
    }
    match (&asked, failed) {
        (asked, Some(failed)) => {
            if failed.held && asked.as_ref().is_some_and(|asked| !asked.hold) {
                let (userid, urgency) = (Some(turn.owner), Urgency::HOLD);
                jobs.post(turn, new, Event::Urgency { userid, urgency });
            }
            let held = if failed.held { ", held" } else { "" };
            end(turn, jobs, of, failed, &format!("; submitted again{held}"));
        }
        // A job that ends anyway ends as it would have.
        (Some(Requeuer { userid, hold, .. }), None) if jobs.state(of) == Some(State::Run) => {
            let note = format!("requeued as {new}{}", if *hold { ", held" } else { "" });
            let raised = Raised::new("cancel", 0, &note, *userid);
            jobs.post(turn, of, Event::Exception(raised));
        }
        _ => {}
    }
    if let Some(Requeuer { reply, .. }) = asked {
        turn.effects.reply_with(reply, messages, Ok(json!({ "id": new })));
    }
}

/// Handles that a job has no successor. It runs on, unless something went wrong with it.
pub(crate) fn refused(
    turn: &mut Turn,
    jobs: &mut Jobs,
    submissions: &mut Submissions,
    of: JobId,
    messages: Vec<String>,
    error: RequestError,
) {
    let Some(requeue) = submissions.requeues.remove(&of) else { return };
    if let Some(record) = jobs.get_mut(of) {
        record.execution.resubmitted = false;
    }
    let text = format!("can't be submitted again: {error}");
    let (asked, failed) = requeue.into_parts();
    if let Some(failed) = failed {
        turn.effects.log(Level::Error, format!("{of}: {text}"));
        end(turn, jobs, of, failed, &format!("; {text}"));
    }
    if let Some(Requeuer { reply, .. }) = asked {
        turn.effects.reply_with(reply, messages, Err(RequestError { text, ..error }));
    }
}

/// Handles that a job is canceled: its successor, which isn't accepted yet, won't be.
pub(crate) fn give_up(turn: &mut Turn, jobs: &mut Jobs, submissions: &mut Submissions, id: JobId) {
    let Some(requeue) = submissions.requeues.remove(&id) else { return };
    let (asked, failed) = requeue.into_parts();
    if let Some(description) = failed.and_then(|failed| failed.description) {
        finish_prolog(turn, jobs, id, &description);
    }
    if let Some(Requeuer { reply, .. }) = asked {
        turn.effects.reply(reply, Err(RequestError::new(EINVAL, CANCELED)));
    }
}

/// Why a job isn't submitted again after all.
pub(crate) const CANCELED: &str = "the job was canceled before it was submitted again";

/// Handles a failure that ends a job which can be submitted again.
pub(crate) fn after_failure(
    turn: &mut Turn,
    jobs: &mut Jobs,
    submissions: &mut Submissions,
    id: JobId,
    failed: Failed,
) {
    let requeue = match submissions.requeues.remove(&id) {
        Some(requeue) => match requeue.into_parts() {
            (Some(asked), _) => Requeue::Both(asked, failed),
            (None, _) => Requeue::Failed(failed),
        },
        None => {
            let Some(record) = jobs.get_mut(id) else { return };
            let urgency = if failed.held { Urgency::HOLD } else { record.job.urgency() };
            if let Err(error) = submit_again(turn, record, urgency) {
                let text = format!("can't be submitted again: {error}");
                turn.effects.log(Level::Error, format!("{id}: {text}"));
                return end(turn, jobs, id, failed, &format!("; {text}"));
            }
            Requeue::Failed(failed)
        }
    };
    submissions.requeues.insert(id, requeue);
}

/// Ends a job with which something went wrong. `outcome` says what becomes of it.
pub(crate) fn end(turn: &mut Turn, jobs: &mut Jobs, id: JobId, failed: Failed, outcome: &str) {
    let Failed { kind, why, description, .. } = failed;
    jobs.raise_fatal(turn, id, kind, &format!("{why}{outcome}"));
    if let Some(description) = description {
        // After the exception: once its last prolog is finished the job would start.
        finish_prolog(turn, jobs, id, &description);
    }
}

/// Finishes a prolog that has failed.
pub(crate) fn finish_prolog(turn: &mut Turn, jobs: &mut Jobs, id: JobId, description: &str) {
    perilogs::finish(turn, jobs, id, PerilogEnd::failed(Perilog::Prolog, description, None));
}
