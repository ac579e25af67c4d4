//! Jobs that the engine submits again, since they couldn't start: their environment is in the store only.

use jobtap_core::engine::{Cred, Request, RequestError, Resubmission, Submission};
use jobtap_core::jobspec::{Jobspec, path};
use serde_json::Value;

use crate::daemon::engine::EngineHandle;
use crate::daemon::execution;
use crate::daemon::records::Records;
use crate::rpc::RpcError;
use crate::store::request;

/// Begins to submit a job again. The engine tells who waits for it.
pub(super) fn resubmit(engine: &EngineHandle, records: &Records, job: Resubmission) {
    let (of, cred) = (job.of, Cred { userid: job.userid, owner: false });
    let submission = submission(records, job).map(Box::new);
    let submission = submission.map_err(|error| RequestError::new(error.errno, error.text));
    drop(engine.request(cred, Request::Resubmit { of, submission }));
}

/// The job as its user would submit it now.
fn submission(records: &Records, job: Resubmission) -> Result<Submission, RpcError> {
    let mut document = job.jobspec;
    let environment = execution::environment_of(records, job.of)?;
    if !environment.is_empty() {
        let set =
            path::set(&mut document, "attributes.system.environment", Value::Object(environment));
        set.map_err(|error| RpcError::proto(error.to_string()))?;
    }
    let signed = request::unsigned(job.userid.as_u32(), document.to_string());
    // It was validated when it was submitted first.
    let jobspec = Jobspec::unvalidated(document);
    let (urgency, flags) = (job.urgency.value().into(), job.flags.bits());
    Ok(Submission { jobspec, signed, urgency, flags, elements: None })
}
