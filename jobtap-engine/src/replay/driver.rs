//! What a replay works on.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::api::Replayed;
use super::ledger::Ledger;
use super::log::Log;
use crate::api::TimerId;
use crate::core::Core;
use crate::host::{PluginKey, RemoteQueue};
use crate::job::{JobId, Timestamp};

/// The recorded jobs, and the plugins that see them.
pub(super) struct Driver {
    pub(super) core: Core,
    /// The plugin that is reported.
    pub(super) reported: PluginKey,
    pub(super) ledger: Ledger,
    pub(super) calls: u64,
    pub(super) returned: Arc<RemoteQueue>,
    /// When the first of the calls in `returned` was sent.
    pub(super) sent: Option<Timestamp>,
    /// Jobs whose priority a plugin gives later.
    pub(super) unprioritized: FxHashSet<JobId>,
    pub(super) logs: Vec<Log>,
    pub(super) by_id: FxHashMap<JobId, usize>,
    /// Timers by the bits of their times, which have the order of the times, since these are positive.
    pub(super) timers: BinaryHeap<Reverse<(u64, TimerId)>>,
    pub(super) report: Replayed,
}

impl Driver {
    /// The number of events of a job that were applied.
    pub(super) fn place(&self, id: JobId) -> usize {
        self.log(id).map_or(0, |log| log.next)
    }

    pub(super) fn log(&self, id: JobId) -> Option<&Log> {
        self.logs.get(*self.by_id.get(&id)?)
    }
}
