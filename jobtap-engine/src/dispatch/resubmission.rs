//! Jobs that are submitted again.
//!
//! A job can't go back to an earlier state (RFC 21), so where Slurm requeues a job this manager submits an identical
//! one, which names the first.

use serde_json::{Value, json};

use crate::api::{Effect, Resubmission};
use crate::job::Urgency;
use crate::jobs::Record;
use crate::jobspec::{JobspecError, path};
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

/// Submits an identical job with this urgency, and notes that. The job has had resources, so that its dependencies were
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
