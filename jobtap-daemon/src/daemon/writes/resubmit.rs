//! Jobs that the engine submits again, since they couldn't start: their environment is in the store only.

use std::sync::Arc;

use jobtap_core::engine::{Cred, Request, Resubmission, Submission};
use jobtap_core::jobspec::{Jobspec, path};
use jobtap_core::plugin::Level;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::daemon::engine::{EngineHandle, answered};
use crate::daemon::execution;
use crate::daemon::log::Log;
use crate::daemon::records::Records;
use crate::rpc::RpcError;
use crate::store::request;

/// Begins to submit a job again, on `runtime`. The engine responds later; if it refuses, the log and a memo of the job
/// say so.
pub(super) fn resubmit(
    engine: &EngineHandle,
    records: &Records,
    log: &Arc<Log>,
    runtime: &Handle,
    job: Resubmission,
) {
    let (of, cred) = (job.of, Cred { userid: job.userid, owner: false });
    let (engine, log) = (engine.clone(), Arc::clone(log));
    let submission = submission(records, job);
    drop(runtime.spawn(async move {
        let refused = match submission {
            Err(error) => Some(error),
            Ok(submission) => {
                let request = Request::Resubmit(Box::new(submission));
                answered(engine.request(cred, request)).await.err()
            }
        };
        if let Some(error) = refused {
            log.write(Level::Error, &format!("{of}: can't be submitted again: {error}"));
            let memo = json!({"requeue": format!("can't be submitted again: {error}")});
            let memo = memo.as_object().cloned().unwrap_or_default();
            // A job that is inactive by now takes no memo.
            let request = Request::Memo { id: of, volatile: false, memo };
            let _ = answered(engine.request(cred, request)).await;
        }
    }));
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
    Ok(Submission { jobspec, signed, urgency, flags })
}
