//! What the service answers and sends.

use jobtap_core::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::fail;

/// The answer to a request: the service has begun the step, or it can't. It reports the end of the step by a request.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    success: bool,
    errstr: Option<String>,
}

/// What the service is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Create,
    Setup,
    PostRun,
}

impl Step {
    /// Why the step doesn't begin, for the job's exception. `None` if it does, or if the plugin is going away.
    pub(crate) fn failure(self, answer: Result<Answer, RpcError>) -> Option<String> {
        let text = match (self, answer) {
            (_, Ok(Answer { success: true, .. }) | Err(RpcError::Gone(_))) => return None,
            (_, Ok(Answer { errstr: Some(reason), .. })) => return Some(reason),
            (Step::Create, Ok(_)) => "dws.create RPC returned failure",
            (Step::Setup, Ok(_)) => "dws.setup RPC returned failure",
            (Step::PostRun, Ok(_)) => "<no error string provided>",
            (Step::Create, Err(RpcError::NoService { .. })) => {
                "dws.create RPC could not be sent. Admins: is the flux-coral2-dws service loaded?"
            }
            (Step::Create, Err(_)) => "Failed to unpack dws.create RPC",
            (Step::Setup, Err(_)) => "Failed to unpack dws.setup RPC",
            (Step::PostRun, Err(_)) => "Failed to send dws.post_run RPC",
        };
        Some(text.to_owned())
    }
}

/// The storage of a job is there.
#[derive(Debug, Deserialize)]
pub(crate) struct ResourceUpdate {
    pub(crate) id: JobId,
    pub(crate) resources: Value,
    pub(crate) errmsg: Option<String>,
    /// Constraints that keep the job from nodes; null for none.
    pub(crate) exclude: Value,
}

/// The storage of a job is mounted.
#[derive(Debug, Deserialize)]
pub(crate) struct PrologRemove {
    pub(crate) id: JobId,
    pub(crate) variables: Value,
}

/// The data of a job is copied back, and its storage is freed.
#[derive(Debug, Deserialize)]
pub(crate) struct EpilogRemove {
    pub(crate) id: JobId,
}

/// Reads a request. One that can't be read ends its job, which would otherwise wait forever. A job in CLEANUP is left
/// alone, since it has ended already.
pub(crate) fn read<Q: DeserializeOwned>(
    sent: &Value,
    service: &str,
    cx: &Cx<'_, Service>,
) -> Result<Q, ServiceError> {
    Q::deserialize(sent).map_err(|error| {
        let text = format!("received malformed dws.{service} RPC");
        let hint = "the versions of the plugin and of the service may differ";
        cx.log(Level::Error, format!("{text}: {error}: {hint}"));
        let id = sent.get("id").and_then(|id| JobId::deserialize(id).ok());
        if let Some(id) = id
            && cx.active_job(id).is_ok_and(|job| job.state() != State::Cleanup)
        {
            fail(cx, id, "exception", &text);
        }
        ServiceError::invalid(text)
    })
}
