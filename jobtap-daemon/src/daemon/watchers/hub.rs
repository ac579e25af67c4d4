//! The watchers of jobs: durable events go from the committing thread to the watchers of their job. Watchers of other
//! keys only learn that something was committed.
//!
//! The number of events that wait for a slow watcher is bounded. A watcher that falls behind learns that
//! it missed events, and reads them from the store.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jobtap_core::engine::JobLog;
use jobtap_core::eventlog::EventEntry;
use jobtap_core::job::JobId;
use rustc_hash::FxHashMap;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender, channel};
use tokio::sync::watch;

/// How many events of a job may wait for its slowest watcher. Most jobs have fewer events in all.
const WAITING: usize = 16;

/// A durable event of a watched job.
#[derive(Debug, Clone)]
pub(in crate::daemon) struct Published {
    /// Which of the job's logs.
    pub log: JobLog,
    /// Its number there, from 0.
    pub seq: u64,
    /// The event.
    pub entry: Arc<EventEntry>,
}

/// What a watcher receives.
#[derive(Debug)]
pub(in crate::daemon) enum Heard {
    /// The next event.
    Event(Published),
    /// Events were missed. The store has them.
    Missed,
}

/// The watched jobs.
#[derive(Debug, Default)]
pub(in crate::daemon) struct Hub {
    jobs: Mutex<FxHashMap<JobId, Sender<Published>>>,
    /// The number of watched jobs, so that without any of them an event costs no lock.
    watched: AtomicUsize,
    /// Whether the manager ends. Sent again after each commit.
    commits: watch::Sender<bool>,
}

/// The notifications of commits. Commits between two calls of [`next`](Self::next) count as one.
#[derive(Debug)]
pub(in crate::daemon) struct Commits(watch::Receiver<bool>);

impl Commits {
    /// Waits for a commit. Returns false if the manager ends.
    pub(in crate::daemon) async fn next(&mut self) -> bool {
        self.0.changed().await.is_ok() && !*self.0.borrow()
    }
}

/// A watcher of one job. Dropping it removes it.
#[derive(Debug)]
pub(in crate::daemon) struct Subscription {
    hub: Arc<Hub>,
    id: JobId,
    events: Receiver<Published>,
}

impl Hub {
    /// Watches both logs of this job. Earlier events may have been left out, see
    /// [`Engine::set_watched`](jobtap_core::engine::Engine::set_watched): a watcher reads the store after they are
    /// durable.
    pub(in crate::daemon) fn subscribe(self: &Arc<Self>, id: JobId) -> Subscription {
        let mut jobs = self.lock();
        let events = jobs.entry(id).or_insert_with(|| channel(WAITING).0).subscribe();
        self.count(&jobs);
        drop(jobs);
        Subscription { hub: Arc::clone(self), id, events }
    }

    /// Whether any job is watched.
    pub(in crate::daemon) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::SeqCst) != 0
    }

    /// Sends an event to the watchers of its job.
    pub(in crate::daemon) fn publish(
        &self,
        id: JobId,
        log: JobLog,
        seq: u64,
        entry: &Arc<EventEntry>,
    ) {
        // A watcher that subscribes from now on reads the event from the store, since it is durable.
        if !self.is_watched() {
            return;
        }
        if let Some(watchers) = self.lock().get(&id) {
            // Sending fails only after the last watcher was dropped and before its job is removed here.
            let _ = watchers.send(Published { log, seq, entry: Arc::clone(entry) });
        }
    }

    /// Notifies the watchers of keys that writes are durable.
    pub(in crate::daemon) fn committed(&self) {
        self.commits.send_modify(|_| {});
    }

    /// The commits from now on.
    pub(in crate::daemon) fn commits(&self) -> Commits {
        Commits(self.commits.subscribe())
    }

    /// Ends all watches, since the manager ends.
    pub(in crate::daemon) fn close(&self) {
        self.commits.send_replace(true);
        let mut jobs = self.lock();
        jobs.clear();
        self.count(&jobs);
    }

    fn count(&self, jobs: &FxHashMap<JobId, Sender<Published>>) {
        self.watched.store(jobs.len(), Ordering::SeqCst);
    }

    fn lock(&self) -> MutexGuard<'_, FxHashMap<JobId, Sender<Published>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscription {
    /// The next event; `None` when the manager ends.
    pub(in crate::daemon) async fn next(&mut self) -> Option<Heard> {
        match self.events.recv().await {
            Ok(event) => Some(Heard::Event(event)),
            Err(RecvError::Lagged(_)) => Some(Heard::Missed),
            Err(RecvError::Closed) => None,
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut jobs = self.hub.lock();
        // The receiver that is being dropped is still counted.
        if jobs.get(&self.id).is_some_and(|watchers| watchers.receiver_count() <= 1) {
            jobs.remove(&self.id);
            self.hub.count(&jobs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> Arc<EventEntry> {
        let timestamp = jobtap_core::job::Timestamp::from_secs(1.0);
        Arc::new(EventEntry { timestamp, name: "memo".into(), context: None })
    }

    fn next(subscription: &mut Subscription) -> Option<Heard> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        // Published events are there already.
        let limit = std::time::Duration::from_secs(10);
        runtime.block_on(async { tokio::time::timeout(limit, subscription.next()).await.unwrap() })
    }

    #[test]
    fn a_watcher_that_is_dropped_is_removed_at_once() {
        let hub = Arc::<Hub>::default();
        let (one, other) = (hub.subscribe(JobId::new(1)), hub.subscribe(JobId::new(1)));
        drop(one);
        assert_eq!(hub.lock().len(), 1);
        drop(other);
        assert!(hub.lock().is_empty());
    }

    #[test]
    fn commits_between_two_calls_count_as_one_until_the_end() {
        let hub = Hub::default();
        let mut commits = hub.commits();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut next = || {
            let limit = std::time::Duration::from_millis(1);
            runtime.block_on(async { tokio::time::timeout(limit, commits.next()).await.ok() })
        };
        hub.committed();
        hub.committed();
        assert_eq!((next(), next()), (Some(true), None));
        hub.close();
        assert_eq!(next(), Some(false));
    }

    #[test]
    fn a_slow_watcher_is_told_that_it_missed_events() {
        let hub = Arc::<Hub>::default();
        let (id, entry) = (JobId::new(1), event());
        let mut slow = hub.subscribe(id);
        for seq in 0..10 * WAITING as u64 {
            hub.publish(id, JobLog::Main, seq, &entry);
        }
        // No more events than the bound wait for it.
        assert!(Arc::strong_count(&entry) <= WAITING + 1);
        assert!(matches!(next(&mut slow), Some(Heard::Missed)));
        assert!(matches!(next(&mut slow), Some(Heard::Event(_))));
        hub.close();
        for _ in 1..WAITING {
            assert!(next(&mut slow).is_some());
        }
        assert!(next(&mut slow).is_none());
    }
}
