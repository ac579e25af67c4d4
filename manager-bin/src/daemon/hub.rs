//! Who watches which job: durable events are handed from the committing thread to the watchers.

use std::sync::{Arc, Mutex, PoisonError};

use jobtap_core::engine::Log;
use jobtap_core::eventlog::EventEntry;
use jobtap_core::job::JobId;
use rustc_hash::FxHashMap;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A durable event of a watched job.
#[derive(Debug, Clone)]
pub(super) struct Published {
    /// Which of the job's logs.
    pub log: Log,
    /// Its position there, from 0.
    pub seq: u64,
    /// The event.
    pub entry: Arc<EventEntry>,
}

/// The watchers, by job.
#[derive(Debug, Default)]
pub(super) struct Hub {
    watchers: Mutex<FxHashMap<JobId, Vec<UnboundedSender<Published>>>>,
}

impl Hub {
    /// All events of both logs of this job from now on.
    pub(super) fn subscribe(&self, id: JobId) -> UnboundedReceiver<Published> {
        let (sender, receiver) = unbounded_channel();
        self.lock().entry(id).or_default().push(sender);
        receiver
    }

    /// Hands an event to those who watch; those who left are forgotten.
    pub(super) fn publish(&self, id: JobId, log: Log, seq: u64, entry: &Arc<EventEntry>) {
        let mut watchers = self.lock();
        let Some(list) = watchers.get_mut(&id) else {
            return;
        };
        list.retain(|sender| sender.send(Published { log, seq, entry: Arc::clone(entry) }).is_ok());
        if list.is_empty() {
            watchers.remove(&id);
        }
    }

    /// Forgets those who left without an event; called when a watcher ends.
    pub(super) fn sweep(&self, id: JobId) {
        let mut watchers = self.lock();
        let Some(list) = watchers.get_mut(&id) else {
            return;
        };
        list.retain(|sender| !sender.is_closed());
        if list.is_empty() {
            watchers.remove(&id);
        }
    }

    /// Nothing happens to any job any more: those who watch hear that.
    pub(super) fn close(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, FxHashMap<JobId, Vec<UnboundedSender<Published>>>> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
