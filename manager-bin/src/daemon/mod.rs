//! The manager as a process: the engine on its thread, and around it the store, the executor, the timers
//! and the socket.
//!
//! | folder | what it does |
//! |---|---|
//! | `lifecycle/` | starts, restarts and ends the manager; its state directory, and the jobs of an earlier run |
//! | `server/` | connections, and the limits within which clients use them |
//! | `services/` | from a request to its handler |
//! | `engine/` | the thread that owns the engine, and whose turn it is there |
//! | `writes/` | makes a turn of the engine durable, and then does what it asks for |
//! | `execution/` | between the engine and the executor of jobs |
//! | `processes/` | the processes that plugins run |
//! | `config/` | the configuration, and how another one takes its place |
//!
//! One order keeps every promise: nothing is acknowledged before it is durable, and nothing that was
//! acknowledged is lost.

pub mod config;
mod engine;
mod execution;
mod lifecycle;
pub mod log;
mod processes;
mod records;
pub mod resources;
mod server;
mod services;
mod writes;

use std::any::Any;
use std::sync::Arc;
use std::time::SystemTime;

use jobtap_core::job::{Timestamp, Uid};
use tokio::sync::Notify;
use tokio::sync::watch::{Receiver, Sender, channel};

pub use lifecycle::{Daemon, Options, StartError, statedir};
pub use services::audit::AuditError;
pub(crate) use services::audit::KEY as AUDIT_LOG;
pub(crate) use services::ingest::wrap as token;
pub(crate) use writes::ops as store_ops;

use crate::store::Reserve;
use engine::EngineHandle;
use services::{audit, journal, privacy};

/// The time that goes into events.
pub fn now() -> Timestamp {
    let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_secs(elapsed.as_secs_f64())
}

/// The words of a panic.
fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".into())
}

/// Where a thread says that the manager can't go on. The first reason counts.
#[derive(Clone)]
pub struct Failure(Sender<Option<String>>);

impl Failure {
    fn new() -> (Self, Receiver<Option<String>>) {
        let (sender, receiver) = channel(None);
        (Self(sender), receiver)
    }

    /// Ends the manager with this reason.
    pub fn report(&self, reason: String) {
        self.0.send_if_modified(|slot| {
            let first = slot.is_none();
            if first {
                *slot = Some(reason);
            }
            first
        });
    }
}

/// The parts of a manager that requests need.
pub struct Parts {
    owner: Uid,
    engine: EngineHandle,
    records: records::Records,
    hub: Arc<writes::hub::Hub>,
    journal: Arc<journal::Journal>,
    audit: audit::Audit,
    execution: execution::Execution,
    log: Arc<log::Log>,
    configuration: Arc<config::current::Configuration>,
    privacy: Arc<privacy::Privacy>,
    reserve: Reserve,
    limits: execution::host_limits::HostLimits,
    restart: Notify,
}
