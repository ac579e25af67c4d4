//! The threads on which the futures of asynchronous handlers run.
//!
//! Each plugin has one, with a runtime of its own, which is started with its first future. A future that blocks holds
//! up the other futures of its plugin, and nothing else: not those of other plugins, nor their processes, nor the
//! server.
//!
//! A future that blocks can't report that itself. So a thread checks the polls while any is under way, and the log
//! names a future that doesn't return from one.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use jobtap_core::engine::Level;
use jobtap_core::host::{Origin, PluginFuture, PluginKey};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};

use crate::daemon::log::Log;

/// A poll that takes this long is reported while it lasts.
const STUCK: Duration = Duration::from_secs(10);

/// The interval at which polls are checked while any is under way.
const CHECK: Duration = Duration::from_secs(1);

/// The threads. When this is dropped, all futures are dropped at their next `await`, and the threads end.
pub(in crate::daemon) struct FutureThreads {
    threads: Mutex<HashMap<PluginKey, PluginThread>>,
    polls: Arc<Polls>,
    checking: Thread,
    log: Arc<Log>,
    /// The runtime of futures for which there is no thread.
    shared: Handle,
    /// Whether plugins get threads at all.
    has_threads: bool,
}

/// The thread of one plugin. It ends at once when this is dropped.
struct PluginThread {
    handle: Handle,
    polling: Arc<Polling>,
    /// Each future has a clone. When the plugin was removed the thread ends after the last of them.
    lease: mpsc::Sender<()>,
    removed: oneshot::Sender<()>,
}

/// The poll that a thread is in.
#[derive(Default)]
struct Polling(Mutex<Option<Present>>);

struct Present {
    what: Origin,
    since: Instant,
    told: bool,
}

/// The polls of all threads, for the thread that checks them.
#[derive(Default)]
struct Polls {
    threads: Mutex<Vec<Weak<Polling>>>,
    /// How many polls are under way.
    active: AtomicUsize,
    /// Whether the thread waits to be woken, or is about to.
    resting: AtomicBool,
    ended: AtomicBool,
}

/// A future on its plugin's thread.
struct Leased {
    future: PluginFuture,
    polling: Arc<Polling>,
    polls: Arc<Polls>,
    checking: Thread,
    _lease: mpsc::Sender<()>,
}

impl FutureThreads {
    /// Starts without any plugin's thread. Futures that can't have one run on the runtime `shared`.
    pub(in crate::daemon) fn new(shared: Handle, log: Arc<Log>) -> io::Result<Self> {
        let polls = Arc::<Polls>::default();
        let checking = Polls::check(Arc::clone(&polls), Arc::clone(&log))?.thread().clone();
        Ok(Self { threads: Mutex::default(), polls, checking, log, shared, has_threads: true })
    }

    /// Without any thread: all futures run on this runtime.
    pub(in crate::daemon) fn none(shared: Handle, log: Arc<Log>) -> Self {
        let (threads, polls) = Default::default();
        let checking = std::thread::current();
        Self { threads, polls, checking, log, shared, has_threads: false }
    }

    /// Runs a future on its plugin's thread. This never waits.
    pub(in crate::daemon) fn spawn(&self, future: PluginFuture) {
        if !self.has_threads {
            return drop(self.shared.spawn(future));
        }
        let plugin = future.origin().plugin;
        let mut threads = lock(&self.threads);
        if let Entry::Vacant(place) = threads.entry(plugin) {
            match self.start(&future.origin().name) {
                Ok(thread) => drop(place.insert(thread)),
                Err(error) => {
                    let name = &future.origin().name;
                    let text = format!(
                        "{name}: no thread can be started for its futures ({error}): they share one with those of \
                         other plugins"
                    );
                    self.log.write(Level::Error, &text);
                }
            }
        }
        match threads.get(&plugin) {
            Some(PluginThread { handle, polling, lease, .. }) => {
                let (polling, polls) = (Arc::clone(polling), Arc::clone(&self.polls));
                let (checking, _lease) = (self.checking.clone(), lease.clone());
                drop(handle.spawn(Leased { future, polling, polls, checking, _lease }));
            }
            None => drop(self.shared.spawn(future)),
        }
    }

    /// Lets the thread of a removed plugin end after its futures, whose waits through the SDK end now.
    pub(in crate::daemon) fn remove(&self, plugin: PluginKey) {
        if let Some(thread) = lock(&self.threads).remove(&plugin) {
            // Fails when the thread has ended, which is as good.
            let _ = thread.removed.send(());
        }
    }

    fn start(&self, name: &str) -> io::Result<PluginThread> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (removed, is_removed) = oneshot::channel();
        let (lease, mut leases) = mpsc::channel(1);
        // The name shows in the message of a stack overflow.
        std::thread::Builder::new().name(format!("futures of {name}")).spawn(move || {
            runtime.block_on(async {
                // An error means that the manager ends.
                if is_removed.await.is_ok() {
                    // Nothing is ever sent: it returns when all futures are gone.
                    leases.recv().await;
                }
            });
            runtime.shutdown_background();
        })?;
        let polling = Arc::<Polling>::default();
        lock(&self.polls.threads).push(Arc::downgrade(&polling));
        Ok(PluginThread { handle, polling, lease, removed })
    }
}

impl Drop for FutureThreads {
    fn drop(&mut self) {
        self.polls.ended.store(true, SeqCst);
        self.checking.unpark();
    }
}

impl Future for Leased {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { future, polling, polls, checking, .. } = self.get_mut();
        let (what, since) = (future.origin().clone(), Instant::now());
        *lock(&polling.0) = Some(Present { what, since, told: false });
        polls.active.fetch_add(1, SeqCst);
        // The thread writes and reads these in the opposite order, so no wakeup is lost.
        if polls.resting.swap(false, SeqCst) {
            checking.unpark();
        }
        let _over = Over { polls, polling };
        Pin::new(future).poll(cx)
    }
}

/// Notes that a poll is over, also if it panics.
struct Over<'p> {
    polls: &'p Polls,
    polling: &'p Polling,
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.polls.active.fetch_sub(1, SeqCst);
        *lock(&self.polling.0) = None;
    }
}

impl Polls {
    /// Starts the thread that checks the polls. It sleeps while there are none.
    fn check(polls: Arc<Self>, log: Arc<Log>) -> io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name("futures check".to_owned()).spawn(move || {
            let mut quiet = false;
            while !polls.ended.load(SeqCst) {
                let active = polls.active.load(SeqCst) > 0;
                if active {
                    polls
                        .stuck(Instant::now())
                        .iter()
                        .for_each(|text| log.write(Level::Error, text));
                }
                if active || !quiet {
                    // Once more before it sleeps, so that short polls in a row don't wake it each time.
                    quiet = !active;
                    std::thread::park_timeout(CHECK);
                    continue;
                }
                polls.resting.store(true, SeqCst);
                if polls.active.load(SeqCst) == 0 && !polls.ended.load(SeqCst) {
                    std::thread::park();
                }
                polls.resting.store(false, SeqCst);
                quiet = false;
            }
        })
    }

    /// Returns lines for the log about polls that take very long.
    fn stuck(&self, now: Instant) -> Vec<String> {
        let mut threads = lock(&self.threads);
        threads.retain(|polling| polling.strong_count() > 0);
        threads.iter().filter_map(Weak::upgrade).filter_map(|polling| polling.stuck(now)).collect()
    }
}

impl Polling {
    /// Returns a line for the log about the present poll if it takes very long, once.
    fn stuck(&self, now: Instant) -> Option<String> {
        let mut polling = lock(&self.0);
        let poll = polling.as_mut().filter(|poll| !poll.told)?;
        let age = now.saturating_duration_since(poll.since);
        poll.told = age >= STUCK;
        poll.told.then(|| stuck(&poll.what, age.as_secs()))
    }
}

fn stuck(what: &impl fmt::Display, seconds: u64) -> String {
    format!(
        "{what}: its future has not returned from a poll for {seconds} s, and the other futures of the plugin wait: \
         what blocks or computes belongs in `remote.blocking`"
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use jobtap_core::host::{NoReturn, RemoteHandle};
    use jobtap_core::job::JobId;

    use super::*;

    /// A test fails after this time instead of waiting forever.
    const LONG: Duration = Duration::from_secs(30);

    fn task(plugin: u64, future: impl Future<Output = ()> + Send + 'static) -> PluginFuture {
        let name = format!("p{plugin}").into();
        let remote = RemoteHandle::new(PluginKey(plugin), name, Arc::new(NoReturn));
        PluginFuture::new(&remote, "job.state.run", Some(JobId::new(7)), future)
    }

    fn threads() -> (tokio::runtime::Runtime, FutureThreads) {
        let shared = Builder::new_current_thread().build().unwrap();
        let log = Arc::new(Log::new(Level::Error));
        let threads = FutureThreads::new(shared.handle().clone(), log).unwrap();
        (shared, threads)
    }

    /// Lets a plugin's thread block until the sender is dropped.
    fn block(threads: &FutureThreads, plugin: u64) -> Sender<()> {
        let (release, released) = channel::<()>();
        let (begins, begun) = channel();
        threads.spawn(task(plugin, async move {
            begins.send(()).unwrap();
            let _ = released.recv_timeout(LONG);
        }));
        begun.recv_timeout(LONG).unwrap();
        release
    }

    /// Spawns a future of this plugin, which reports that it runs.
    fn runs(threads: &FutureThreads, plugin: u64) -> Receiver<()> {
        let (tells, told) = channel();
        threads.spawn(task(plugin, async move {
            let _ = tells.send(());
        }));
        told
    }

    #[test]
    fn a_future_that_blocks_holds_up_its_own_plugin_only() {
        let (_shared, threads) = threads();
        let release = block(&threads, 1);
        let own = runs(&threads, 1);
        runs(&threads, 2).recv_timeout(LONG).unwrap();
        assert!(own.try_recv().is_err());
        drop(release);
        own.recv_timeout(LONG).unwrap();
    }

    #[test]
    fn a_future_that_does_not_return_is_named_once() {
        let (_shared, threads) = threads();
        let _release = block(&threads, 1);
        let now = Instant::now();
        assert_eq!(threads.polls.stuck(now), Vec::<String>::new());
        let named = threads.polls.stuck(now + STUCK);
        let [text] = &*named else { panic!("{named:?}") };
        let job = JobId::new(7);
        assert!(
            text.starts_with(&format!("p1: job.state.run: job {job}: its future has not")),
            "{text}"
        );
        assert_eq!(threads.polls.stuck(now + STUCK * 2), Vec::<String>::new());
    }

    #[test]
    fn the_thread_of_a_removed_plugin_ends_after_its_futures() {
        let (_shared, threads) = threads();
        let (go, gone) = oneshot::channel::<()>();
        let (tells, told) = channel();
        threads.spawn(task(1, async move {
            let _ = gone.await;
            tells.send("came to its end").unwrap();
        }));
        let polling = Arc::downgrade(&lock(&threads.threads)[&PluginKey(1)].polling);
        threads.remove(PluginKey(1));
        drop(go);
        assert_eq!(told.recv_timeout(LONG), Ok("came to its end"));
        let began = Instant::now();
        while polling.strong_count() > 0 {
            assert!(began.elapsed() < LONG);
            std::thread::yield_now();
        }
    }

    #[test]
    fn futures_are_dropped_when_the_manager_ends() {
        let (_shared, threads) = threads();
        let (held, dropped) = channel::<()>();
        threads.spawn(task(1, async move {
            std::future::pending::<()>().await;
            drop(held);
        }));
        drop(threads);
        assert_eq!(
            dropped.recv_timeout(LONG),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected)
        );
    }
}
