//! The parts of the engine, side by side.
//!
//! Each part owns its data and changes it by its own methods. Functions take the parts that they need. [`Core`] is for
//! those that call plugins, which may read everything, and for those that concern most of the parts.

use std::path::PathBuf;

use serde_json::Value;

use super::alloc::Allocation;
use super::allocations::Allocations;
use super::arrays::Arrays;
use super::exec::config::ExecConfig;
use super::jobs::Jobs;
use super::jobs::waiters::Waiters;
use super::plugins::Plugins;
use super::submissions::Submissions;
use super::timers::Timers;
use super::turn::Turn;

/// The parts.
pub(super) struct Core {
    /// The instance's configuration, an object.
    pub(super) config: Value,
    pub(super) config_directory: Option<PathBuf>,
    pub(super) turn: Turn,
    pub(super) jobs: Jobs,
    pub(super) plugins: Plugins,
    pub(super) submissions: Submissions,
    pub(super) arrays: Arrays,
    pub(super) waiters: Waiters,
    pub(super) alloc: Allocation,
    pub(super) allocations: Allocations,
    pub(super) exec: ExecConfig,
    pub(super) timers: Timers,
    /// Whether all jobs are restored; only then are resources allocated.
    pub(super) started: bool,
}
