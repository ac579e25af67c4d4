//! The manager as a process: the engine on its thread, and around it the store, the executor and the
//! socket.
//!
//! | folder | what it does |
//! |---|---|
//! | `lifecycle/` | starts, restarts and ends the manager; its state directory, and the jobs of an earlier run |
//! | `http/` | the same services over HTTP, for tools and browsers |
//! | `server/` | connections, and the limits within which clients use them |
//! | `services/` | dispatches requests to their handlers |
//! | `engine/` | the thread that owns the engine, and the order in which it takes messages |
//! | `writes/` | makes a turn of the engine durable, and then does what it asks for |
//! | `execution/` | connects the engine to the executor of jobs |
//! | `processes/`, `plugin_threads/` | the processes that plugins run; their work on threads |
//! | `config/` | the configuration, and how a new one replaces it |
//! | `stages` | single stages of processing a job, for `jobtap bench` |
//!
//! One order keeps every promise: nothing is acknowledged before it is durable, and nothing that was
//! acknowledged is lost.

pub mod attributes;
pub mod config;
mod engine;
mod execution;
mod failure;
#[cfg(feature = "http")]
mod http;
#[cfg(not(feature = "http"))]
#[path = "no_http.rs"]
mod http;
mod lifecycle;
pub mod log;
mod plugin_threads;
mod processes;
mod records;
pub mod resources;
mod server;
mod services;
pub mod stages;
mod writes;

use std::sync::Arc;

use jobtap_core::job::Uid;
use tokio::sync::Notify;

pub use crate::clock::now;
pub use failure::Failure;
pub use lifecycle::{Daemon, Options, StartError, statedir};
pub use services::audit::AuditError;
pub use services::audit::KEY as AUDIT_LOG;
pub use writes::push_ops as store_ops;

use crate::store::{CommitTimes, SpaceCheck};
use engine::EngineHandle;
use services::{access, audit, journal, privacy, user_names};

/// The parts of a manager that requests need.
pub struct Parts {
    owner: Uid,
    engine: EngineHandle,
    records: records::Records,
    hub: Arc<writes::hub::Hub>,
    journal: Arc<journal::Journal>,
    // Only the metrics read it.
    #[cfg_attr(not(feature = "http"), expect(dead_code))]
    commits: Arc<CommitTimes>,
    audit: Arc<audit::Audit>,
    execution: execution::Execution,
    log: Arc<log::Log>,
    configuration: Arc<config::current::Configuration>,
    access: Arc<access::Access>,
    privacy: Arc<privacy::Privacy>,
    user_names: Arc<user_names::UserNames>,
    space: SpaceCheck,
    limits: execution::host_limits::HostLimits,
    thread_uses: plugin_threads::blocking::ThreadUses,
    restart: Notify,
    shutdown: lifecycle::ShutdownRequest,
    attributes: Arc<attributes::Attributes>,
}
