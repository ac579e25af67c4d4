//! Dispatches requests to the handlers of their rows in [`rpc::services`](crate::rpc::services).
//!
//! [`admit`] decides by the row alone who may call a service, decodes the request, hides the jobs of others, and notes
//! what the audit log will record. The result is an [`Admitted`], which knows its handler. A handler is an
//! implementation of [`Handle`] for the type of a request; each file here has the handlers of one family of services.

mod allocation;
mod attr;
mod changes;
mod config;
pub(super) mod eventlog;
mod events_journal;
mod exec;
mod handle;
pub(super) mod ingest;
mod job_exec;
mod job_info;
mod job_list;
mod job_manager;
mod kvs;
pub(super) mod listing;
mod log;
mod plugin;
mod queue;
mod resource;
mod service;
#[cfg(test)]
mod tests;
mod waits;

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use jobtap_core::engine::Cred;
use rustc_hash::FxHashMap;
use serde_json::Value;

pub(super) use self::handle::{Context, Handle, PendingResponse};
use self::handle::{Decoded, owner, without_jobspec};
use super::audit::Change;
use super::request_parts::RequestParts;
use super::rights::privacy::Claim;
use crate::rpc::errno::{ENOSYS, EPERM};
use crate::rpc::message::Body;
use crate::rpc::service::{Access, Responses, Service, Size};
use crate::rpc::{RpcError, payload, services};

/// Services with this prefix that have no row belong to plugins.
const PLUGIN_SERVICE_PREFIX: &str = "job-manager.";
/// The name under which requests to the services of programs are counted.
const PROGRAMS: &str = "service.";

/// A request that its client may send.
pub(super) struct Admitted {
    /// How many responses it has, and when they come.
    pub responses: Responses,
    /// What the audit log records about it.
    pub change: Option<Change>,
    decoded: Box<dyn Decoded>,
}

impl Admitted {
    /// Hands the request to its handler.
    pub(super) fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        self.decoded.handle(context)
    }
}

/// Decodes a request, if this client may send it.
///
/// # Errors
/// ENOSYS for a topic that no service has, EPERM for a client that may not call it, EPROTO for a payload
/// that cannot be read.
pub(super) fn admit(
    parts: &RequestParts,
    cred: Cred,
    claim: Claim,
    topic: &str,
    body: Body,
) -> Result<Admitted, RpcError> {
    let row = match Row::of_topic(topic) {
        Err(_) if parts.added.has(topic) => &*OF_PROGRAMS,
        row => row?,
    };
    row.received.fetch_add(1, Ordering::Relaxed);
    row.check(cred, parts.privacy.is_hidden_from(cred, claim))?;
    let decoded = (row.decode)(topic, body)?;
    if let Some(id) = decoded.job() {
        parts.privacy.check_job(cred, claim, id, &parts.records)?;
    }
    let change = if cred.owner { decoded.change() } else { None };
    Ok(Admitted { responses: row.responses, change, decoded })
}

/// Decodes a request for fuzzers. Returns whether its service can read it.
#[cfg(feature = "fuzz")]
pub(super) fn decodes(topic: &str, body: Body) -> bool {
    let decoded = Row::of_topic(topic).and_then(|row| (row.decode)(topic, body));
    decoded.map(|decoded| (decoded.job(), decoded.change())).is_ok()
}

/// How large a request to this topic may be.
pub(super) fn size(topic: &str) -> Size {
    Row::of_topic(topic).map_or(Size::Normal, |row| row.size)
}

/// Whether there is a service of this topic, of the manager or perhaps of a plugin.
#[cfg(feature = "http")]
pub(super) fn is_known(topic: &str) -> bool {
    Row::of_topic(topic).is_ok()
}

/// Whether a client without the token may call this service. Such services change nothing.
#[cfg(feature = "http")]
pub(super) fn is_for_readers(topic: &str) -> bool {
    let access = Row::of_topic(topic).map(|row| row.access);
    matches!(access, Ok(Access::Reader | Access::UnlessPrivate))
}

/// How many requests each service has received, by its topic. Services of plugins without a row are counted together,
/// as `job-manager.`, and those of programs as `service.`.
#[cfg(feature = "http")]
pub(super) fn received() -> Vec<(&'static str, u64)> {
    let all = TABLE.values().chain([&*ANY_PLUGIN, &*OF_PROGRAMS]);
    let mut counts: Vec<_> =
        all.map(|row| (row.topic, row.received.load(Ordering::Relaxed))).collect();
    counts.sort_unstable();
    counts
}

/// Decodes a request to this topic.
type Decode = fn(&str, Body) -> Result<Box<dyn Decoded>, RpcError>;

/// What the daemon knows about a service.
struct Row {
    topic: &'static str,
    access: Access,
    responses: Responses,
    size: Size,
    decode: Decode,
    /// How many requests this process has received, refused ones included.
    received: AtomicU64,
}

impl Row {
    /// The row of a service of the manager.
    fn for_service<S: Handle>() -> Self {
        let decode = |topic: &str, body: Body| -> Result<Box<dyn Decoded>, RpcError> {
            Ok(Box::new(S::decode(topic, body)?))
        };
        Self::with::<S>(decode)
    }

    /// The row of a plugin's service. The plugin decodes its payload; only the job is read here.
    fn of_plugin<S: Service>() -> Self {
        let decode = |topic: &str, body: Body| -> Result<Box<dyn Decoded>, RpcError> {
            let job = payload::decode::<S>(topic, body.json()?).ok();
            let job = job.and_then(|request| request.job());
            Ok(Box::new(plugin::Forwarded::new(topic, whole(topic, &body)?, job)))
        };
        Self::with::<S>(decode)
    }

    /// The row of a service whose payload is decoded by `decode`.
    fn with<S: Service>(decode: Decode) -> Self {
        let (topic, access, responses, size) = (S::TOPIC, S::ACCESS, S::RESPONSES, S::SIZE);
        let received = AtomicU64::new(0);
        Self { topic, access, responses, size, decode, received }
    }

    /// The row of all services of plugins that have no row of their own.
    fn of_any_plugin() -> Self {
        Self {
            topic: PLUGIN_SERVICE_PREFIX,
            access: Access::Anyone,
            responses: Responses::Plugin,
            size: Size::Normal,
            decode: |topic, body| {
                Ok(Box::new(plugin::Forwarded::new(topic, whole(topic, &body)?, None)))
            },
            received: AtomicU64::new(0),
        }
    }

    /// The row of all services that programs have added.
    fn of_programs() -> Self {
        Self {
            topic: PROGRAMS,
            access: Access::Owner,
            responses: Responses::Late,
            size: Size::Normal,
            decode: |topic, body| {
                let (topic, payload) = (topic.to_owned(), whole(topic, &body)?);
                Ok(Box::new(service::ToProgram { topic, payload }))
            },
            received: AtomicU64::new(0),
        }
    }

    /// Whether topics that begin with this word are those of the manager.
    fn is_of_manager(service: &str) -> bool {
        TABLE.keys().any(|topic| topic.split_once('.').is_some_and(|(name, _)| name == service))
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

/// Parses a payload for a plugin, which decodes it.
fn whole(topic: &str, body: &Body) -> Result<Value, RpcError> {
    without_jobspec(topic, body)?;
    serde_json::from_str(body.json()?.get())
        .map_err(|error| RpcError::proto(format!("{topic}: {error}")))
}

static OF_PROGRAMS: LazyLock<Row> = LazyLock::new(Row::of_programs);

static ANY_PLUGIN: LazyLock<Row> = LazyLock::new(Row::of_any_plugin);

/// All rows, by topic.
static TABLE: LazyLock<FxHashMap<&'static str, Row>> = LazyLock::new(|| {
    let rows = rows();
    rows.into_iter().map(|row| (row.topic, row)).collect()
});

/// Makes a row for each service in the table that client and manager share.
fn rows() -> Vec<Row> {
    use services::*;

    macro_rules! of_manager {
        ($($request:ty),*) => { vec![$(Row::for_service::<$request>()),*] };
    }
    macro_rules! of_plugins {
        ($($request:ty),*) => { [$(Row::of_plugin::<$request>()),*] };
    }
    let mut rows = services::each_service!(of_manager);
    rows.extend(services::each_plugin_service!(of_plugins));
    rows
}
