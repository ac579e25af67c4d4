//! The manager itself: the engine on its thread, and around it the store, the executor, the timers,
//! the socket.
//!
//! Start, restart and end are in `lifecycle`, what they bring up in `boot`, in the order that keeps
//! every promise: nothing is acknowledged before it is durable, and nothing is lost that was
//! acknowledged.

mod boot;
mod capture;
mod commit;
pub mod config;
mod config_keys;
mod effects;
mod engine_thread;
mod execution;
mod host_limits;
mod hub;
mod index;
mod intake;
mod lifecycle;
pub mod log;
mod placement;
mod process_queue;
mod processes;
mod pulse;
mod records;
mod reload;
mod replies;
pub mod resources;
mod restore;
mod server;
mod services;
mod settings;
pub mod statedir;
mod task_processes;
mod timers;

use std::any::Any;
use std::sync::Arc;
use std::time::SystemTime;

use jobtap_core::job::{Timestamp, Uid};
use tokio::sync::Notify;
use tokio::sync::watch::{Receiver, Sender, channel};

pub(crate) use commit::ops as store_ops;
pub use lifecycle::{Daemon, Options, StartError};
pub use services::audit::AuditError;
pub(crate) use services::audit::KEY as AUDIT_LOG;
pub(crate) use services::ingest::wrap as token;

use crate::store::Reserve;
use engine_thread::EngineHandle;
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
    hub: Arc<hub::Hub>,
    journal: Arc<journal::Journal>,
    audit: audit::Audit,
    execution: execution::Execution,
    log: Arc<log::Log>,
    configuration: Arc<reload::Configuration>,
    privacy: Arc<privacy::Privacy>,
    reserve: Reserve,
    limits: host_limits::HostLimits,
    restart: Notify,
}
