//! Requests to run a job again from its beginning.

use super::jobs::{active_job, refuse};
use crate::api::{Cred, RequestError};
use crate::dispatch::resubmission::{is_interactive, submit_again};
use crate::eventlog::{Event, Raised};
use crate::host::errno::EINVAL;
use crate::job::{JobId, State, Urgency};
use crate::jobs::Jobs;
use crate::slurm::JobDescriptor;
use crate::turn::Turn;

/// `job-manager.requeue`: ends a job that has started, and submits an identical one.
pub(super) fn requeue(
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
    if let Err(error) = submit_again(turn, record, urgency) {
        return refuse(EINVAL, error.to_string());
    }
    let note = if hold { "requeued, held" } else { "requeued" };
    let raised = match state {
        State::Run => Raised::new("cancel", 0, note, cred.userid),
        // The job ends as it would have: this only says why there is another one.
        _ => Raised::new("requeue", 1, note, cred.userid),
    };
    jobs.post(turn, id, Event::Exception(raised));
    Ok(())
}
