//! Requests that plugins see in Slurm's terms first: submissions and changes of jobs.
//!
//! A request comes here only if a plugin handles `slurm.job_submit` or `slurm.job_modify`, or if its user must be
//! looked up because access to queues is restricted. The request is described as Slurm would, the plugins read and
//! change the description one after the other ([`begin`]), and what they have changed is applied to the jobspec
//! ([`finish`]). Then the request goes the way of any other.

pub(crate) mod begin;
pub(crate) mod finish;

use serde_json::{Map, Value};

use crate::api::RequestError;
use crate::host::errno::EINVAL;
use crate::job::JobId;
use crate::jobs::Jobs;
use crate::jobspec::Jobspec;
use crate::slurm::JobDescriptor;

fn invalid(text: impl std::fmt::Display) -> RequestError {
    RequestError::new(EINVAL, text.to_string())
}

/// The jobspec of a job as it is, and as a user wants it.
fn changed(
    jobs: &Jobs,
    id: JobId,
    updates: &Map<String, Value>,
) -> Result<(Jobspec, Jobspec), RequestError> {
    let job = jobs.job(id).ok_or_else(|| invalid("unknown job id"))?;
    let old = job.jobspec().clone();
    let mut new = old.clone();
    new.update_all(updates).map_err(invalid)?;
    Ok((old, new))
}

fn fields(descriptor: &JobDescriptor) -> Map<String, Value> {
    match serde_json::to_value(descriptor) {
        Ok(Value::Object(fields)) => fields,
        // Impossible: a description is written as an object.
        _ => Map::new(),
    }
}

fn from_fields(fields: Map<String, Value>) -> JobDescriptor {
    // The values were written from a description.
    serde_json::from_value(Value::Object(fields)).unwrap_or_default()
}
