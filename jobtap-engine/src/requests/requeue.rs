//! Requests to run a job again from its beginning. A job whose successor is refused runs on, and the user learns why.

use super::jobs::{active_job, refuse};
use crate::api::{Cred, ReplyTo, RequestError};
use crate::core::Core;
use crate::dispatch::resubmission::{allows_requeue, is_interactive, submit_again};
use crate::host::errno::EINVAL;
use crate::job::{JobId, State, Urgency};
use crate::jobs::Jobs;
use crate::submissions::{Requeue, Requeuer};
use crate::turn::Turn;

/// `job-manager.requeue`: submits a job that is identical to one that has started, which then ends. The response has
/// the id of the new job.
pub(super) fn requeue(core: &mut Core, reply: ReplyTo, cred: Cred, id: JobId, hold: bool) {
    let Core { turn, jobs, submissions, .. } = core;
    match begin(turn, jobs, cred, id, hold) {
        Ok(()) => {
            let requeuer = Requeuer { reply, userid: cred.userid, hold };
            submissions.requeues.insert(id, Requeue::Asked(requeuer));
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
    if !allows_requeue(record) {
        return refuse(EINVAL, "job was submitted with --no-requeue");
    }
    let Some(record) = jobs.get_mut(id) else { return refuse(EINVAL, "unknown job id") };
    let urgency = if hold { Urgency::HOLD } else { record.job.urgency() };
    submit_again(turn, record, urgency).or_else(|error| refuse(EINVAL, error.to_string()))
}
