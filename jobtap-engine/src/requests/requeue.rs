//! Requests to run a job again from its beginning.
//!
//! The job ends only when the manager has accepted the new one, in the same commit: a job whose successor is refused runs
//! on, and the user learns why.

use serde_json::json;

use super::jobs::{active_job, refuse};
use crate::api::{Cred, ReplyTo, RequestError};
use crate::core::Core;
use crate::dispatch::resubmission::{is_interactive, submit_again};
use crate::eventlog::{Event, Raised};
use crate::host::errno::EINVAL;
use crate::job::{JobId, State, Urgency};
use crate::jobs::Jobs;
use crate::plugin::Level;
use crate::slurm::JobDescriptor;
use crate::submissions::{Requeuer, Submissions};
use crate::turn::Turn;

/// `job-manager.requeue`: submits a job that is identical to one that has started, which then ends. The response has
/// the id of the new job.
pub(super) fn requeue(core: &mut Core, reply: ReplyTo, cred: Cred, id: JobId, hold: bool) {
    let Core { turn, jobs, submissions, .. } = core;
    match begin(turn, jobs, cred, id, hold) {
        Ok(()) => {
            let requeuer = Requeuer { reply, userid: cred.userid, hold };
            submissions.requeues.insert(id, requeuer);
        }
        Err(error) => turn.effects.reply(reply, Err(error)),
    }
}

fn begin(
    turn: &mut Turn,
    jobs: &mut Jobs,
    cred: Cred,
    id: JobId,
    hold: bool,
) -> Result<(), RequestError> {
    let guests = "guests may only requeue their own jobs";
    let record = active_job(jobs, cred, id, EINVAL, "unknown job id", guests)?;
    let state = record.job.state();
    if !matches!(state, State::Run | State::Cleanup) || record.job.resources().is_none() {
        return refuse(EINVAL, "job has not started");
    }
    if record.execution.resubmitted {
        return refuse(EINVAL, "job was requeued already");
    }
    let jobspec = record.job.jobspec();
    if is_interactive(jobspec.value()) {
        return refuse(EINVAL, "only batch jobs can be requeued");
    }
    if JobDescriptor::from_jobspec(jobspec.value()).requeue == Some(0) {
        return refuse(EINVAL, "job was submitted with --no-requeue");
    }
    let Some(record) = jobs.get_mut(id) else { return refuse(EINVAL, "unknown job id") };
    let urgency = if hold { Urgency::HOLD } else { record.job.urgency() };
    submit_again(turn, record, urgency).or_else(|error| refuse(EINVAL, error.to_string()))
}

/// Handles that a job has a successor: if a user has asked for it, the job ends.
pub(super) fn accepted(
    turn: &mut Turn,
    jobs: &mut Jobs,
    submissions: &mut Submissions,
    of: JobId,
    new: JobId,
    messages: Vec<String>,
) {
    let Some(Requeuer { reply, userid, hold }) = submissions.requeues.remove(&of) else { return };
    let note = format!("requeued as {new}{}", if hold { ", held" } else { "" });
    let raised = match jobs.get(of).map(|record| record.job.state()) {
        Some(State::Run) => Some(Raised::new("cancel", 0, &note, userid)),
        // The job ends as it would have: this only says why there is another one.
        Some(State::Cleanup) => Some(Raised::new("requeue", 1, &note, userid)),
        _ => None,
    };
    if let Some(raised) = raised {
        jobs.post(turn, of, Event::Exception(raised));
    }
    turn.effects.reply_with(reply, messages, Ok(json!({ "id": new })));
}

/// Handles that a job has no successor. If the manager has ended it, a memo and the log say so.
pub(super) fn refused(
    turn: &mut Turn,
    jobs: &mut Jobs,
    submissions: &mut Submissions,
    of: JobId,
    messages: Vec<String>,
    error: RequestError,
) {
    if let Some(Requeuer { reply, .. }) = submissions.requeues.remove(&of) {
        if let Some(record) = jobs.get_mut(of) {
            record.execution.resubmitted = false;
        }
        let text = format!("can't be submitted again: {error}");
        let error = RequestError { text, ..error };
        return turn.effects.reply_with(reply, messages, Err(error));
    }
    let text = format!("can't be submitted again: {error}");
    turn.effects.log(Level::Error, format!("{of}: {text}"));
    if jobs.get(of).is_some_and(|record| record.job.state() != State::Inactive) {
        let memo = [("requeue", json!(text))].into();
        jobs.post(turn, of, Event::Memo(&memo));
    }
}
