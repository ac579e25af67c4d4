//! What the command that starts a manager says about it.

use std::path::PathBuf;
use std::sync::Arc;

use jobtap_core::engine::Level;
use jobtap_core::resource::ResourceSet;
use serde_json::Value;

use super::statedir::StateDir;
use crate::daemon::attributes::Attributes;
use crate::daemon::config::Source;
use crate::daemon::resources::TestSize;
use crate::exec::nodes::Nodes;

/// The options of a manager.
pub struct Options {
    /// Where the configuration comes from.
    pub source: Source,
    /// The configuration that was read from there.
    pub config: Value,
    /// Its state directory.
    pub statedir: StateDir,
    /// Its socket.
    pub socket: PathBuf,
    /// Log lines of at least this severity go to standard error.
    pub log_level: Level,
    /// An archive to be written at the end.
    pub dump: Option<PathBuf>,
    /// How many ranks this host has.
    pub test_size: TestSize,
    /// The resources of this manager's job, if it runs as a job of another manager.
    pub given: Option<ResourceSet>,
    /// The nodes of this manager's instance, if it has several.
    pub nodes: Option<Arc<Nodes>>,
    /// When the allocation of these nodes ends (UNIX seconds, 0: never).
    pub end_of_nodes: f64,
    /// Whether all queues are stopped at the start (`--recovery`).
    pub recovery: bool,
    /// The attributes that only the command that starts the manager knows, and those that clients have added.
    pub attributes: Arc<Attributes>,
}
