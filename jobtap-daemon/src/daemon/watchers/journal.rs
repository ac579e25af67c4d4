//! The watchers of the events of all jobs. Each gets every event once it is durable; a watcher that is too slow is cut
//! off, and learns that it lost events.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jobtap_core::eventlog::EventEntry;
use jobtap_core::job::JobId;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// How many events may wait for a slow watcher. They are in the manager's memory, so the stream of a watcher
/// that is slower still is ended.
const WAITING_EVENTS: usize = 64 * 1024;

/// An event on its way to the watchers.
#[derive(Debug, Clone)]
pub(in crate::daemon) struct Posted {
    pub id: JobId,
    /// Its number in the job's eventlog; `None` for an event that is not logged.
    pub seq: Option<u64>,
    pub entry: Arc<EventEntry>,
}

struct Watcher {
    events: Sender<Posted>,
    lost: Arc<AtomicBool>,
}

/// The watchers of all jobs.
#[derive(Default)]
pub(in crate::daemon) struct JournalWatchers {
    watchers: Mutex<Vec<Watcher>>,
    /// The number of watchers, so that without any of them an event costs no lock.
    listeners: AtomicUsize,
    /// The number of events since the start.
    published: AtomicU64,
}

/// The events of all jobs, as one watcher gets them. Dropping it ends the watch.
pub(in crate::daemon) struct JournalWatch {
    events: Receiver<Posted>,
    lost: Arc<AtomicBool>,
}

impl JournalWatch {
    /// The next event; `None` when the watcher was cut off or the manager ends.
    pub(in crate::daemon) async fn next(&mut self) -> Option<Posted> {
        self.events.recv().await
    }

    /// Whether the watcher was cut off, and lost events.
    pub(in crate::daemon) fn has_lost_events(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }
}

impl JournalWatchers {
    /// Sends an event to all watchers.
    pub(in crate::daemon) fn publish(&self, id: JobId, seq: Option<u64>, entry: &Arc<EventEntry>) {
        self.published.fetch_add(1, Ordering::Relaxed);
        if self.listeners.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut watchers = self.lock();
        watchers.retain(|watcher| {
            let posted = Posted { id, seq, entry: Arc::clone(entry) };
            let sent = watcher.events.try_send(posted);
            watcher.lost.store(sent.is_err(), Ordering::Release);
            sent.is_ok()
        });
        self.listeners.store(watchers.len(), Ordering::Release);
    }

    /// Counts events that nothing watches, which were not published.
    pub(in crate::daemon) fn count(&self, events: u64) {
        self.published.fetch_add(events, Ordering::Relaxed);
    }

    /// Whether there are watchers.
    pub(in crate::daemon) fn is_watched(&self) -> bool {
        self.listeners() != 0
    }

    /// The number of events since the start.
    #[cfg(feature = "http")]
    pub(in crate::daemon) fn published(&self) -> u64 {
        self.published.load(Ordering::Relaxed)
    }

    /// The number of watchers.
    pub(in crate::daemon) fn listeners(&self) -> usize {
        self.listeners.load(Ordering::Acquire)
    }

    /// Ends all streams, since the manager ends.
    pub(in crate::daemon) fn close(&self) {
        self.lock().clear();
        self.listeners.store(0, Ordering::Release);
    }

    /// Returns all events from now on. Earlier events are in the engine and, once a turn that is requested now is
    /// durable, in the store.
    pub(in crate::daemon) fn watch(&self) -> JournalWatch {
        let (sender, events) = channel(WAITING_EVENTS);
        let lost = Arc::new(AtomicBool::new(false));
        let mut watchers = self.lock();
        // Removes watchers whose clients have left since the last event.
        watchers.retain(|watcher| !watcher.events.is_closed());
        watchers.push(Watcher { events: sender, lost: Arc::clone(&lost) });
        self.listeners.store(watchers.len(), Ordering::Release);
        JournalWatch { events, lost }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Watcher>> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_follower_that_does_not_read_is_cut_off_and_told() {
        let journal = JournalWatchers::default();
        let mut watch = journal.watch();
        let timestamp = jobtap_core::job::Timestamp::from_secs(1.5);
        let entry = Arc::new(EventEntry { timestamp, name: "x".into(), context: None });
        for seq in 0..=WAITING_EVENTS as u64 {
            journal.publish(JobId::new(1), Some(seq), &entry);
        }
        assert!(watch.has_lost_events());
        let mut read = 0;
        while watch.events.try_recv().is_ok() {
            read += 1;
        }
        assert_eq!(read, WAITING_EVENTS);
        assert_eq!(journal.listeners(), 0);
    }
}
