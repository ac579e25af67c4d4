//! The services: from a request to the handler of its row in [`rpc::services`](crate::rpc::services).
//!
//! [`admit`] decides by the row alone who may call a service, decodes the request, hides the jobs of
//! others, and notes what the audit log will record. What is left is an [`Admitted`] that knows its
//! handler. A handler is an implementation of [`Handle`] for the type of a request; each file here has
//! those of one family.

pub(super) mod access;
mod attr;
pub(super) mod audit;
mod changes;
mod config;
mod exec;
pub(super) mod ingest;
mod job_exec;
pub(super) mod job_info;
pub(super) mod job_list;
mod job_manager;
pub(super) mod journal;
mod kvs;
mod log;
mod plugin;
pub(super) mod privacy;
mod queue;
mod resource;
#[cfg(test)]
mod tests;
pub(super) mod user_names;

use std::pin::Pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use jobtap_core::engine::{Cred, Engine, Request, RequestError};
use jobtap_core::job::JobId;
use rustc_hash::FxHashMap;
use serde_json::Value;
use tokio::sync::mpsc::Receiver;

use self::audit::Change;
use self::privacy::Claim;
use super::Parts;
use super::engine::replies;
use super::engine::{EngineHandle, answered, refusal};
use crate::rpc::errno::{EIO, ENOSYS, EPERM};
use crate::rpc::received::Received;
use crate::rpc::service::{Access, Responses, Service};
use crate::rpc::{RpcError, RpcResult, payload, services};

/// Services below this prefix that have no row are those of plugins.
const PLUGIN_SERVICE_PREFIX: &str = "job-manager.";

/// The handler of a service.
pub(super) trait Handle: Service {
    /// Takes the request in. What it sends to the engine is on its way when this returns, so that the
    /// requests of a client reach the engine in their order.
    ///
    /// # Errors
    /// Refusals that do not depend on the engine.
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError>;

    /// Reads the payload.
    ///
    /// # Errors
    /// As [`payload::decode`].
    fn decode(topic: &str, payload: &Received) -> Result<Self, RpcError> {
        payload::decode(topic, payload.json()?)
    }
}

/// What a handler works with.
pub(super) struct Context<'a> {
    /// The parts of the manager.
    pub parts: &'a Parts,
    /// The engine's handle of the client.
    pub engine: &'a EngineHandle,
    /// The user, and whether as the owner.
    pub cred: Cred,
    /// What the client is allowed beside that.
    pub claim: Claim,
    /// Whether the request asks for a stream.
    pub streaming: bool,
}

/// How a request is responded to.
pub(super) enum PendingResponse {
    /// Once, by the engine, which is to get this request.
    Request(Request),
    /// Once.
    One(Pin<Box<dyn Future<Output = RpcResult> + Send>>),
    /// With a list of jobs, which is read part by part.
    Jobs(Pin<Box<dyn Future<Output = Result<job_list::Listing, RpcError>> + Send>>),
    /// By the engine, until the first error.
    Engine(replies::ReplyStream),
    /// By another part of the manager, until the first error.
    Feed(Receiver<RpcResult>),
    /// With an eventlog and what is added to it.
    Eventlog(job_info::Watch),
}

impl PendingResponse {
    /// One response of the service `S` that is there already.
    fn now<S: Service>(response: &S::Response) -> Result<Self, RpcError> {
        let response = written::<S>(response);
        Ok(Self::One(Box::pin(async { response })))
    }

    /// One response that will come.
    fn one(response: impl Future<Output = RpcResult> + Send + 'static) -> Result<Self, RpcError> {
        Ok(Self::One(Box::pin(response)))
    }
}

/// A response of the service `S` as it is sent to the client.
fn written<S: Service>(response: &S::Response) -> RpcResult {
    serde_json::to_value(response).map_err(|error| RpcError::new(EIO, error.to_string()))
}

impl Context<'_> {
    /// Sends a request to the engine, which may respond much later. It is removed when its client leaves.
    fn wait(&self, request: Request) -> Result<PendingResponse, RpcError> {
        let mut responses = self.engine.stream(self.cred, request);
        PendingResponse::one(async move { responses.next().await })
    }

    /// Reads the response from the engine, which has it as JSON.
    fn read<F>(&self, read: F) -> Result<PendingResponse, RpcError>
    where
        F: FnOnce(&Engine, Cred) -> Result<Value, RequestError> + Send + 'static,
    {
        let cred = self.cred;
        let read = self.engine.read(move |engine| read(engine, cred).map_err(refusal));
        PendingResponse::one(answered(read))
    }

    /// Reads from the engine what the response of the service `S` is made of.
    fn read_as<S, F>(&self, read: F) -> Result<PendingResponse, RpcError>
    where
        S: Service,
        F: FnOnce(&Engine) -> Result<S::Response, RequestError> + Send + 'static,
    {
        let read = self.engine.read(move |engine| {
            let response = read(engine).map_err(refusal)?;
            written::<S>(&response)
        });
        PendingResponse::one(answered(read))
    }
}

/// A request that may be handled.
pub(super) struct Admitted {
    /// How many responses it has, and when they come.
    pub responses: Responses,
    /// What the audit log records of it.
    pub change: Option<Change>,
    decoded: Box<dyn Decoded>,
}

impl Admitted {
    /// Takes it in.
    pub(super) fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        self.decoded.handle(context)
    }
}

/// The request in a payload, if this client may send it.
///
/// # Errors
/// ENOSYS for a topic that no service has, EPERM for a client that may not call it, EPROTO for a payload
/// that cannot be read.
pub(super) fn admit(
    parts: &Parts,
    (cred, claim): (Cred, Claim),
    topic: &str,
    payload: &Received,
) -> Result<Admitted, RpcError> {
    let row = Row::of_topic(topic)?;
    row.received.fetch_add(1, Ordering::Relaxed);
    row.check(cred, parts.privacy.is_hidden_from(cred, claim))?;
    let decoded = (row.decode)(topic, payload)?;
    if let Some(id) = decoded.job() {
        parts.privacy.check_job((cred, claim), id, &parts.records)?;
    }
    let change = if cred.owner { decoded.change() } else { None };
    Ok(Admitted { responses: row.responses, change, decoded })
}

/// Whether the payload of a request to this topic may fill a whole message.
pub(super) fn is_large(topic: &str) -> bool {
    Row::of_topic(topic).is_ok_and(|row| row.large)
}

/// Whether there is a service of this topic, of the manager or perhaps of a plugin.
#[cfg(feature = "http")]
pub(super) fn is_known(topic: &str) -> bool {
    Row::of_topic(topic).is_ok()
}

/// Whether a client without a name may call this service: it changes nothing.
#[cfg(feature = "http")]
pub(super) fn is_for_readers(topic: &str) -> bool {
    let access = Row::of_topic(topic).map(|row| row.access);
    matches!(access, Ok(Access::Reader | Access::UnlessPrivate))
}

/// How many requests each service has received, by its topic. Services of plugins without a row are counted together,
/// as `job-manager.`.
#[cfg(feature = "http")]
pub(super) fn received() -> Vec<(&'static str, u64)> {
    let all = TABLE.values().chain(std::iter::once(&*ANY_PLUGIN));
    let mut counts: Vec<_> =
        all.map(|row| (row.topic, row.received.load(Ordering::Relaxed))).collect();
    counts.sort_unstable();
    counts
}

/// What a request is to this module, whatever its type.
trait Decoded: Send {
    /// The job that it is about.
    fn job(&self) -> Option<JobId>;
    /// What the audit log records of it.
    fn change(&self) -> Option<Change>;
    /// See [`Handle::handle`].
    fn handle(self: Box<Self>, context: &Context<'_>) -> Result<PendingResponse, RpcError>;
}

impl<S: Handle> Decoded for S {
    fn job(&self) -> Option<JobId> {
        Service::job(self)
    }

    fn change(&self) -> Option<Change> {
        self.audited().map(|audited| Change::of(self, audited))
    }

    fn handle(self: Box<Self>, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        Handle::handle(*self, context)
    }
}

/// Decodes the payload of a request to this topic.
type Decode = fn(&str, &Received) -> Result<Box<dyn Decoded>, RpcError>;

/// What the daemon knows of a service.
struct Row {
    topic: &'static str,
    access: Access,
    responses: Responses,
    large: bool,
    decode: Decode,
    /// How many requests this process has received, refused ones included.
    received: AtomicU64,
}

impl Row {
    /// The row of a service of the manager.
    fn of<S: Handle>() -> Self {
        let decode = |topic: &str, payload: &Received| -> Result<Box<dyn Decoded>, RpcError> {
            Ok(Box::new(S::decode(topic, payload)?))
        };
        Self::with::<S>(decode)
    }

    /// The row of a plugin's service. The plugin decodes its payload; here only the job is looked for.
    fn of_plugin<S: Service>() -> Self {
        let decode = |topic: &str, payload: &Received| -> Result<Box<dyn Decoded>, RpcError> {
            let job = payload::decode::<S>(topic, payload.json()?).ok();
            let job = job.and_then(|request| request.job());
            Ok(Box::new(plugin::Forwarded::new(topic, whole(topic, payload)?, job)))
        };
        Self::with::<S>(decode)
    }

    /// The row of a service whose payload is decoded by `decode`.
    fn with<S: Service>(decode: Decode) -> Self {
        let (topic, access, responses, large) = (S::TOPIC, S::ACCESS, S::RESPONSES, S::LARGE);
        let received = AtomicU64::new(0);
        Self { topic, access, responses, large, decode, received }
    }

    /// The row of all services of plugins that have no row of their own.
    fn of_any_plugin() -> Self {
        Self {
            topic: PLUGIN_SERVICE_PREFIX,
            access: Access::Anyone,
            responses: Responses::Plugin,
            large: false,
            decode: |topic, payload| {
                Ok(Box::new(plugin::Forwarded::new(topic, whole(topic, payload)?, None)))
            },
            received: AtomicU64::new(0),
        }
    }

    fn of_topic(topic: &str) -> Result<&'static Self, RpcError> {
        match TABLE.get(topic) {
            Some(row) => Ok(row),
            None if topic.starts_with(PLUGIN_SERVICE_PREFIX) => Ok(&ANY_PLUGIN),
            None => Err(RpcError::new(ENOSYS, format!("Unknown service method '{topic}'"))),
        }
    }

    /// Refuses clients that may not call this service. `hidden` says that the client may not see the jobs
    /// of other users.
    fn check(&self, cred: Cred, hidden: bool) -> Result<(), RpcError> {
        match self.access {
            Access::Reader | Access::Anyone => Ok(()),
            Access::UnlessPrivate if hidden => Err(RpcError::new(EPERM, "")),
            Access::UnlessPrivate => Ok(()),
            Access::Owner => owner(cred),
        }
    }
}

/// A payload for a plugin, which decodes it.
fn whole(topic: &str, payload: &Received) -> Result<Value, RpcError> {
    serde_json::from_str(payload.text())
        .map_err(|error| RpcError::proto(format!("{topic}: {error}")))
}

/// Refuses everyone but the owner.
fn owner(cred: Cred) -> Result<(), RpcError> {
    if cred.owner { Ok(()) } else { Err(refusal(RequestError::owner_only())) }
}

static ANY_PLUGIN: LazyLock<Row> = LazyLock::new(Row::of_any_plugin);

/// All rows, by topic.
static TABLE: LazyLock<FxHashMap<&'static str, Row>> = LazyLock::new(|| {
    let rows = rows();
    rows.into_iter().map(|row| (row.topic, row)).collect()
});

/// A row for each service in the table of both ends.
fn rows() -> Vec<Row> {
    use services::*;

    macro_rules! of_manager {
        ($($request:ty),*) => { vec![$(Row::of::<$request>()),*] };
    }
    macro_rules! of_plugins {
        ($($request:ty),*) => { [$(Row::of_plugin::<$request>()),*] };
    }
    let mut rows = services::each_service!(of_manager);
    rows.extend(services::each_plugin_service!(of_plugins));
    rows
}
