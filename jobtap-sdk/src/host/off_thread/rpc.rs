//! Requests of plugins to services outside of the job manager, as a host sends them.

use std::fmt;

use serde_json::Value;

use crate::host::errors::errno::ENOSYS;
use crate::host::errors::failure::Gone;
use crate::host::values::service::ServiceError;

/// Why a request to a service has no response that can be used.
///
/// ```
/// # use jobtap_core::prelude::*;
/// # use serde_json::Value;
/// fn explain(answer: Result<Value, RpcError>) -> Option<String> {
///     match answer {
///         Ok(_) => None,
///         Err(RpcError::NoService { topic }) => Some(format!("{topic}: is the service loaded?")),
///         Err(error) => Some(error.to_string()),
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RpcError {
    /// Nothing serves this topic (ENOSYS).
    #[error("no service has the topic {topic}")]
    NoService {
        /// The topic.
        topic: String,
    },
    /// The service has answered with an error.
    #[error("{topic}: {}", refusal(.error))]
    Refused {
        /// The topic.
        topic: String,
        /// Its error number and text.
        error: ServiceError,
    },
    /// The response is not of the type that the plugin expects, or the payload can't be written as JSON.
    #[error("{topic}: {reason}")]
    Malformed {
        /// The topic.
        topic: String,
        /// What is wrong.
        reason: String,
    },
    /// The plugin was removed or the manager stopped.
    #[error(transparent)]
    Gone(#[from] Gone),
}

fn refusal(error: &ServiceError) -> String {
    match &*error.text {
        "" => std::io::Error::from_raw_os_error(error.errno).to_string(),
        text => text.to_owned(),
    }
}

impl RpcError {
    /// The error of a service. ENOSYS becomes [`NoService`](Self::NoService).
    pub(crate) fn of_service(topic: String, error: ServiceError) -> Self {
        match error.errno {
            ENOSYS => Self::NoService { topic },
            _ => Self::Refused { topic, error },
        }
    }
}

/// Names a request of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RpcKey(pub u64);

/// What a plugin requests outside of the job manager.
#[derive(Debug, Clone, PartialEq)]
pub enum RpcRequest {
    /// A response of a service.
    Service {
        /// The name of the service and, after a dot, that of its method.
        topic: String,
        /// The payload.
        payload: Value,
    },
    /// The value of a key in the KVS, as text.
    Kvs {
        /// The key, as in Flux: `job.0000.0004.a680.0000.R`.
        key: String,
    },
}

impl RpcRequest {
    /// The topic, or for a key the topic under which Flux looks it up.
    #[must_use]
    pub fn topic(&self) -> &str {
        match self {
            Self::Service { topic, .. } => topic,
            Self::Kvs { .. } => "kvs.lookup",
        }
    }
}

/// A host command about requests.
#[derive(Debug)]
pub enum RpcCommand {
    /// Send a request.
    Request {
        /// Names the request in later commands.
        key: RpcKey,
        /// The request.
        request: RpcRequest,
        /// Receives the response; `None` if nobody waits for one.
        answer: Option<RpcAnswer>,
    },
    /// Drop the response, which nobody waits for any more.
    Cancel {
        /// The request.
        key: RpcKey,
    },
    /// Drop the responses to all requests of the plugin, which was removed.
    CancelAll,
}

/// Takes the response to a request.
type Take = Box<dyn FnOnce(Result<Value, ServiceError>) + Send>;

/// Passes the response to a request to the one who waits for it. When this is dropped, the waiter gets [`Gone`].
pub struct RpcAnswer(Take);

impl RpcAnswer {
    /// An answer that is passed to `take`.
    pub fn new(take: impl FnOnce(Result<Value, ServiceError>) + Send + 'static) -> Self {
        Self(Box::new(take))
    }

    /// Passes on the response, or the error of the service. ENOSYS means that there is none.
    pub fn send(self, response: Result<Value, ServiceError>) {
        (self.0)(response);
    }
}

impl fmt::Debug for RpcAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RpcAnswer")
    }
}
