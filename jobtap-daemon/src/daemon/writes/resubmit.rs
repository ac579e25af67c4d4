//! Jobs that the engine submits again, since they couldn't start: their environment is in the store only.

use jobtap_core::engine::{Cred, Request, Resubmission, Submission};
use jobtap_core::jobspec::{Jobspec, path};
use jobtap_core::plugin::Level;
use serde_json::Value;

use super::effects::Effector;
use crate::daemon::engine::answered;
use crate::daemon::execution;
use crate::rpc::RpcError;
use crate::store::request;

/// Begins to submit a job again. The engine responds later; the log says if it refuses.
pub(super) fn resubmit(effector: &Effector, job: Resubmission) {
    let (of, cred) = (job.of, Cred { userid: job.userid, owner: false });
    let (engine, log) = (effector.engine.clone(), effector.log.clone());
    let submission = submission(effector, job);
    drop(effector.plugins.spawn(async move {
        let refused = match submission {
            Err(error) => Some(error),
            Ok(submission) => {
                let request = Request::Resubmit(Box::new(submission));
                answered(engine.request(cred, request)).await.err()
            }
        };
        if let Some(error) = refused {
            log.write(Level::Error, &format!("{of}: can't be submitted again: {error}"));
        }
    }));
}

/// The job as its user would submit it now.
fn submission(effector: &Effector, job: Resubmission) -> Result<Submission, RpcError> {
    let mut document = job.jobspec;
    let environment = execution::environment_of(&effector.records, job.of)?;
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
