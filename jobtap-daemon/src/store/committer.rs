//! Group commit: one thread commits all pending batches at once, then acknowledges them in order. While
//! it waits for the disk the next group gathers, so the size of a group follows the load and an idle
//! manager commits without delay.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::group::coalesce;
use super::{CommitTimes, Op, Store, StoreError};

/// Changes that become durable together and are then acknowledged.
pub struct Batch {
    /// The changes; empty for a response that only has to wait for the batches before it.
    pub ops: Vec<Op>,
    /// Runs once the changes are durable, on the thread that has committed them. It should be short, since
    /// the next group waits for it.
    pub then: Box<dyn FnOnce() + Send>,
}

/// Commits batches to a store in the order of their submission.
///
/// Dropping it commits the pending batches, like [`Committer::close`].
pub struct Committer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    store: Arc<dyn Store>,
    queue: Mutex<Queue>,
    wake: Condvar,
    times: Arc<CommitTimes>,
    on_fatal: Mutex<Option<OnFatal>>,
    /// Whether no batch is pending or being committed. Read without the lock, since callers ask often; changed under
    /// the lock of the queue.
    idle: AtomicBool,
}

type OnFatal = Box<dyn FnOnce(StoreError) + Send>;

#[derive(Default)]
struct Queue {
    pending: Vec<Batch>,
    /// A group is being committed.
    committing: bool,
    closing: bool,
    failed: bool,
}

impl Committer {
    /// Starts the committing thread.
    ///
    /// After the first commit that fails no `then` runs any more, later batches are dropped, and
    /// `on_fatal` is called once with the cause, on the thread that has committed. The same holds when a
    /// `then` panics.
    ///
    /// # Errors
    /// Fails if the thread can't be started.
    pub fn start(
        store: Arc<dyn Store>,
        on_fatal: impl FnOnce(StoreError) + Send + 'static,
    ) -> Result<Self, StoreError> {
        Self::start_timed(store, Arc::default(), on_fatal)
    }

    /// As [`start`](Self::start), with the times of commits counted in `times`.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_timed(
        store: Arc<dyn Store>,
        times: Arc<CommitTimes>,
        on_fatal: impl FnOnce(StoreError) + Send + 'static,
    ) -> Result<Self, StoreError> {
        let shared = Shared::new(store, times, Box::new(on_fatal));
        let for_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("committer".to_owned())
            .spawn(move || run(&for_thread))
            .map_err(|err| StoreError::Committer { detail: err.to_string() })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// A committer without a thread: what is queued waits for [`commit_waiting`](Self::commit_waiting), and is dropped
    /// with the committer.
    pub fn without_thread(
        store: Arc<dyn Store>,
        on_fatal: impl FnOnce(StoreError) + Send + 'static,
    ) -> Self {
        Self { shared: Shared::new(store, Arc::default(), Box::new(on_fatal)), thread: None }
    }

    /// Commits all waiting batches as one group, and acknowledges them. Returns false if no batch waits.
    pub fn commit_waiting(&self) -> bool {
        let group = {
            let mut queue = self.shared.queue();
            if queue.pending.is_empty() || queue.committing {
                return false;
            }
            queue.committing = true;
            mem::take(&mut queue.pending)
        };
        self.shared.commit(group);
        true
    }

    /// Queues a batch. Drops it silently if an earlier commit has failed.
    pub fn submit(&self, batch: Batch) {
        let mut queue = self.shared.queue();
        if queue.failed {
            // The destructor of `then` may run any code, even submit a batch, so it must not run under
            // the lock.
            drop(queue);
            drop(batch);
            return;
        }
        queue.pending.push(batch);
        self.shared.idle.store(false, Ordering::Relaxed);
        drop(queue);
        self.shared.wake.notify_one();
    }

    /// Whether no batch is pending or being committed.
    pub fn is_idle(&self) -> bool {
        self.shared.idle.load(Ordering::Relaxed)
    }

    /// Commits a batch on the calling thread if no other one is pending or being committed, and queues it otherwise.
    /// For a caller that has nothing else to do, this saves two context switches.
    pub fn commit_or_submit(&self, batch: Batch) {
        let mut queue = self.shared.queue();
        if queue.failed || queue.committing || !queue.pending.is_empty() {
            drop(queue);
            return self.submit(batch);
        }
        queue.committing = true;
        self.shared.idle.store(false, Ordering::Relaxed);
        drop(queue);
        self.shared.commit(vec![batch]);
    }

    /// Commits and acknowledges the pending batches, then ends the thread.
    pub fn close(self) {}
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.shared.queue().closing = true;
        self.shared.wake.notify_one();
        // A `then` may own the last handle; the committing thread can't join itself.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // A panic of this thread has already been reported through `on_fatal`.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn new(store: Arc<dyn Store>, times: Arc<CommitTimes>, on_fatal: OnFatal) -> Arc<Self> {
        let (queue, wake) = Default::default();
        let (on_fatal, idle) = (Mutex::new(Some(on_fatal)), AtomicBool::new(true));
        Arc::new(Self { store, queue, wake, times, on_fatal, idle })
    }

    /// Locks the queue. Poison is ignored: no foreign code runs under the lock, so a panic can't leave
    /// the queue inconsistent.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for pending batches and takes them, to be committed; `None` when the committer has failed, or is
    /// closed and none is left.
    fn next_group(&self) -> Option<Vec<Batch>> {
        let mut queue = self.queue();
        while queue.pending.is_empty() || queue.committing {
            if queue.failed || (queue.closing && !queue.committing) {
                return None;
            }
            queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.committing = true;
        Some(mem::take(&mut queue.pending))
    }

    /// Commits a group and acknowledges it.
    fn commit(&self, group: Vec<Batch>) {
        let committed = commit_group(self.store.as_ref(), &self.times, group);
        let mut queue = self.queue();
        queue.committing = false;
        self.idle.store(queue.pending.is_empty(), Ordering::Relaxed);
        let Err(cause) = committed else {
            let waits = !queue.pending.is_empty() || queue.closing;
            drop(queue);
            if waits {
                self.wake.notify_one();
            }
            return;
        };
        queue.failed = true;
        let dropped = mem::take(&mut queue.pending);
        drop(queue);
        self.wake.notify_one();
        drop(dropped);
        let on_fatal = self.on_fatal.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(on_fatal) = on_fatal {
            on_fatal(cause);
        }
    }
}

fn run(shared: &Shared) {
    while let Some(group) = shared.next_group() {
        shared.commit(group);
    }
}

fn commit_group(
    store: &dyn Store,
    times: &CommitTimes,
    group: Vec<Batch>,
) -> Result<(), StoreError> {
    let mut ops = Vec::new();
    let mut thens = Vec::with_capacity(group.len());
    let several = group.len() > 1;
    for batch in group {
        match ops.is_empty() {
            true => ops = batch.ops,
            false => ops.extend(batch.ops),
        }
        thens.push(batch.then);
    }
    // Within one batch, the events of a job are already one change.
    if several {
        ops = coalesce(ops);
    }
    let made = catch_unwind(AssertUnwindSafe(|| {
        if !ops.is_empty() {
            let begun = Instant::now();
            store.commit(ops)?;
            times.add(begun.elapsed());
        }
        for then in thens {
            then();
        }
        Ok(())
    }));
    made.unwrap_or_else(|panic| {
        Err(StoreError::Committer { detail: jobtap_core::host::panic_text(panic.as_ref()) })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::store::Key;
    use crate::store::memory::MemoryStore;

    fn append(id: u64, seq: u64) -> Vec<Op> {
        vec![Op::Append { key: Key::eventlog(id), seq, value: format!("{seq};").into() }]
    }

    struct Fixture {
        store: Arc<MemoryStore>,
        committer: Committer,
        fatal: mpsc::Receiver<String>,
        done: mpsc::Receiver<u64>,
        note: mpsc::Sender<u64>,
    }

    impl Fixture {
        fn new() -> Self {
            let store = Arc::new(MemoryStore::default());
            let (tell, fatal) = mpsc::channel();
            let committer = Committer::start(Arc::clone(&store) as Arc<dyn Store>, move |err| {
                tell.send(err.to_string()).unwrap();
            })
            .unwrap();
            let (note, done) = mpsc::channel();
            Self { store, committer, fatal, done, note }
        }

        fn submit(&self, number: u64, ops: Vec<Op>) {
            let note = self.note.clone();
            let then = Box::new(move || note.send(number).unwrap());
            self.committer.submit(Batch { ops, then });
        }

        /// Ends the committer and returns the acknowledged batches, in order.
        fn finish(self) -> (Arc<MemoryStore>, Vec<u64>, Vec<String>) {
            drop(self.note);
            self.committer.close();
            (self.store, self.done.iter().collect(), self.fatal.iter().collect())
        }
    }

    #[test]
    fn batches_are_acknowledged_in_order_after_they_are_durable() {
        let fixture = Fixture::new();
        let (tell, seen) = mpsc::channel();
        for number in 0..100 {
            let (tell, store) = (tell.clone(), Arc::clone(&fixture.store));
            fixture.committer.submit(Batch {
                ops: append(number % 3, number),
                then: Box::new(move || {
                    let log = store.read_log(&Key::eventlog(number % 3)).unwrap().unwrap();
                    let log = String::from_utf8(log).unwrap();
                    let there = log.split(';').any(|seq| seq == number.to_string());
                    tell.send((number, there)).unwrap();
                }),
            });
        }
        drop(tell);
        fixture.finish();
        let expected: Vec<_> = (0..100).map(|number| (number, true)).collect();
        assert_eq!(seen.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_batch_is_committed_by_its_thread_only_while_no_other_waits() {
        let fixture = Fixture::new();
        let (tell, threads) = mpsc::channel();
        let batch = |number| {
            let tell = tell.clone();
            let then = Box::new(move || tell.send((number, thread::current().id())).unwrap());
            Batch { ops: append(1, number), then }
        };
        let this = thread::current().id();
        fixture.committer.commit_or_submit(batch(0));
        assert_eq!(threads.try_recv(), Ok((0, this)));
        let hold = fixture.store.block_commit();
        fixture.committer.submit(batch(1));
        hold.wait_for_commit();
        fixture.committer.commit_or_submit(batch(2));
        assert!(threads.try_recv().is_err());
        hold.release();
        for number in [1, 2] {
            let (acknowledged, thread) = threads.recv().unwrap();
            assert_eq!(acknowledged, number);
            assert_ne!(thread, this);
        }
        // A batch that is submitted while this thread commits waits for it.
        let hold = fixture.store.block_commit();
        thread::scope(|scope| {
            let committer = &fixture.committer;
            let first = batch(3);
            let caller = scope.spawn(|| committer.commit_or_submit(first));
            hold.wait_for_commit();
            committer.submit(batch(4));
            hold.release();
            caller.join().unwrap();
        });
        let order = [threads.recv().unwrap().0, threads.recv().unwrap().0];
        assert_eq!(order, [3, 4]);
        fixture.finish();
    }

    #[test]
    fn a_failed_commit_of_the_calling_thread_ends_all_commits() {
        let fixture = Fixture::new();
        fixture.store.fail_from_now();
        let note = fixture.note.clone();
        let then = Box::new(move || note.send(0).unwrap());
        fixture.committer.commit_or_submit(Batch { ops: append(1, 0), then });
        fixture.submit(1, append(1, 1));
        let (_, done, fatal) = fixture.finish();
        assert_eq!((done, fatal.len()), (Vec::new(), 1));
    }

    #[test]
    fn batches_submitted_during_a_commit_form_the_next_group() {
        let fixture = Fixture::new();
        let hold = fixture.store.block_commit();
        fixture.submit(0, append(1, 0));
        hold.wait_for_commit();
        fixture.submit(1, append(1, 1));
        fixture.submit(2, append(2, 0));
        fixture.submit(3, append(1, 2));
        hold.release();
        let (store, done, fatal) = fixture.finish();
        assert_eq!((done, fatal.len()), (vec![0, 1, 2, 3], 0));
        let joined = Op::Append { key: Key::eventlog(1), seq: 1, value: "1;2;".into() };
        let second = vec![joined, append(2, 0).remove(0)];
        assert_eq!(store.commits(), [append(1, 0), second]);
    }

    #[test]
    fn a_batch_without_changes_waits_for_those_before_it() {
        let fixture = Fixture::new();
        assert!(fixture.committer.is_idle());
        let hold = fixture.store.block_commit();
        fixture.submit(0, append(1, 0));
        hold.wait_for_commit();
        fixture.submit(1, Vec::new());
        assert!(fixture.done.try_recv().is_err() && !fixture.committer.is_idle());
        hold.release();
        let (store, done, _) = fixture.finish();
        assert_eq!(done, [0, 1]);
        assert_eq!(store.commits().len(), 1);
    }

    /// A response to a read includes the changes of the writes before it.
    #[test]
    fn a_batch_without_changes_waits_for_those_of_its_own_group() {
        let fixture = Fixture::new();
        let first = fixture.store.block_commit();
        fixture.submit(0, append(1, 0));
        first.wait_for_commit();
        // These three gather while the first is committed, and are the next group.
        fixture.submit(1, Vec::new());
        fixture.submit(2, append(1, 1));
        fixture.submit(3, Vec::new());
        let second = fixture.store.block_commit();
        first.release();
        second.wait_for_commit();
        let done: Vec<u64> = fixture.done.try_iter().collect();
        assert_eq!(done, [0], "acknowledged before the group's commit ended");
        second.release();
        let (_, done, _) = fixture.finish();
        assert_eq!(done, [1, 2, 3]);
    }

    #[test]
    fn nothing_is_acknowledged_after_a_failed_commit() {
        let fixture = Fixture::new();
        let hold = fixture.store.block_commit();
        fixture.submit(0, append(1, 0));
        hold.wait_for_commit();
        fixture.store.fail_from_now();
        fixture.submit(1, append(1, 1));
        fixture.submit(2, Vec::new());
        hold.release();
        let fatal = fixture.fatal.recv().unwrap();
        assert!(fatal.contains("injected"), "{fatal}");
        fixture.submit(3, append(1, 2));
        fixture.submit(4, Vec::new());
        let (store, done, again) = fixture.finish();
        assert_eq!((done, again.len()), (vec![0], 0));
        let log = store.read_log(&Key::eventlog(1)).unwrap();
        assert_eq!(log, Some(b"0;".to_vec()));
    }

    #[test]
    fn a_panic_while_acknowledging_is_fatal() {
        let fixture = Fixture::new();
        fixture
            .committer
            .submit(Batch { ops: append(1, 0), then: Box::new(|| panic!("no answer")) });
        let fatal = fixture.fatal.recv().unwrap();
        assert_eq!(fatal, "the commit thread stopped (no answer): restart the manager");
        fixture.submit(1, append(1, 1));
        assert_eq!(fixture.finish().1, [0u64; 0]);
    }

    #[test]
    fn a_dropped_batch_may_itself_submit() {
        struct Submits(Arc<Committer>);
        impl Drop for Submits {
            fn drop(&mut self) {
                self.0.submit(Batch { ops: Vec::new(), then: Box::new(|| ()) });
            }
        }
        let store = Arc::new(MemoryStore::default());
        store.fail_from_now();
        let (tell, fatal) = mpsc::channel();
        let committer = Arc::new(Committer::start(store, move |_| tell.send(()).unwrap()).unwrap());
        for _ in 0..3 {
            let submits = Submits(Arc::clone(&committer));
            committer.submit(Batch { ops: append(1, 0), then: Box::new(move || drop(submits)) });
        }
        fatal.recv().unwrap();
    }

    #[test]
    fn the_last_handle_may_be_dropped_on_the_committing_thread() {
        let store = Arc::new(MemoryStore::default());
        let committer = Arc::new(Committer::start(store, |_| ()).unwrap());
        let (tell, done) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let last = Arc::clone(&committer);
        committer.submit(Batch {
            ops: Vec::new(),
            then: Box::new(move || {
                wait.recv().unwrap();
                drop(last);
                tell.send(()).unwrap();
            }),
        });
        drop(committer);
        go.send(()).unwrap();
        done.recv().unwrap();
    }
}
