//! The parts of a manager that requests need: what handlers work with, and what a client asks of the manager's own
//! life.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use jobtap_core::job::Uid;
use tokio::sync::Notify;

use super::added_services::AddedServices;
use super::attributes::Attributes;
use super::audit::Audit;
use super::config::current::Configuration;
use super::engine::EngineHandle;
use super::execution::Execution;
use super::execution::host_limits::HostLimits;
use super::log::Log;
use super::node_commands::NodeCommands;
use super::plugin_threads::blocking::ThreadUses;
use super::records::Records;
use super::rights::access::Access;
use super::rights::privacy::Privacy;
use super::user_names::UserNames;
use super::watchers::hub::Hub;
use super::watchers::journal::JournalWatchers;
use crate::store::{CommitTimes, SpaceCheck};

/// The parts of a manager that requests need.
pub(super) struct RequestParts {
    pub(super) owner: Uid,
    pub(super) engine: EngineHandle,
    pub(super) records: Records,
    pub(super) hub: Arc<Hub>,
    pub(super) journal: Arc<JournalWatchers>,
    // Only the metrics read it.
    #[cfg_attr(not(feature = "http"), expect(dead_code))]
    pub(super) commits: Arc<CommitTimes>,
    pub(super) audit: Arc<Audit>,
    pub(super) execution: Execution,
    pub(super) log: Arc<Log>,
    pub(super) configuration: Arc<Configuration>,
    pub(super) access: Arc<Access>,
    pub(super) privacy: Arc<Privacy>,
    pub(super) user_names: Arc<UserNames>,
    pub(super) space: SpaceCheck,
    pub(super) limits: HostLimits,
    pub(super) thread_uses: ThreadUses,
    pub(super) restart: Notify,
    pub(super) shutdown: ShutdownRequest,
    pub(super) attributes: Arc<Attributes>,
    /// The services that programs have added.
    pub(super) added: Arc<AddedServices>,
    /// The commands on nodes; `None` if all ranks are this host.
    pub(super) commands: Option<Arc<NodeCommands>>,
}

/// A client's request to end the manager.
#[derive(Debug, Default)]
pub(super) struct ShutdownRequest {
    asked: Notify,
    dump: Mutex<Option<PathBuf>>,
}

impl ShutdownRequest {
    /// Asks the manager to end, and to write this archive then.
    pub(super) fn ask(&self, dump: Option<PathBuf>) {
        if dump.is_some() {
            *self.dump.lock().unwrap_or_else(PoisonError::into_inner) = dump;
        }
        self.asked.notify_one();
    }

    /// Waits until a client asks.
    pub(super) async fn asked(&self) {
        self.asked.notified().await;
    }

    /// The archive that is to be written at the end.
    pub(super) fn dump(&self) -> Option<PathBuf> {
        self.dump.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
