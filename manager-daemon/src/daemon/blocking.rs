//! The threads for work of plugins that computes or blocks for long.
//!
//! The runtime of the plugins has one thread, so such work would stop the asynchronous handlers of all
//! plugins. Here is a bounded number of threads, which are started when they are needed and then stay. They
//! are not joined when the manager ends: a thread can't be stopped, and the process doesn't wait for it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use jobtap_core::host::{BlockingCommand, BlockingWork, PluginKey};

/// The threads. When this is dropped, work that has not begun is dropped, and the threads end after what they
/// are at.
pub(super) struct BlockingThreads {
    shared: Arc<Shared>,
    limit: usize,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    wanted: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(PluginKey, BlockingWork)>,
    /// How much work of each plugin is running.
    running: HashMap<PluginKey, usize>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl BlockingThreads {
    /// As many threads as the machine has processors, but two at least, so that one plugin can't take all.
    pub(super) fn of_this_host() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self::with_limit(processors.max(2))
    }

    fn with_limit(limit: usize) -> Self {
        Self { shared: Arc::default(), limit }
    }

    /// Carries out a command. This never waits.
    pub(super) fn send(&self, plugin: PluginKey, command: BlockingCommand) {
        match command {
            BlockingCommand::Run(work) => self.run(plugin, work),
            BlockingCommand::DropAll => {
                let mut state = self.shared.lock();
                let (dropped, kept) = std::mem::take(&mut state.waiting)
                    .into_iter()
                    .partition::<VecDeque<_>, _>(|(owner, _)| *owner == plugin);
                state.waiting = kept;
                drop(state);
                // Outside of the lock: it drops values of plugins.
                drop(dropped);
            }
        }
    }

    fn run(&self, plugin: PluginKey, work: BlockingWork) {
        let mut state = self.shared.lock();
        state.waiting.push_back((plugin, work));
        if state.idle >= state.waiting.len() || state.threads == self.limit {
            drop(state);
            return self.shared.wanted.notify_one();
        }
        state.threads += 1;
        drop(state);
        let (shared, limit) = (Arc::clone(&self.shared), self.limit);
        let thread = std::thread::Builder::new().name("blocking".into());
        if let Err(error) = thread.spawn(move || shared.serve(limit)) {
            self.shared.do_without_thread(&error.to_string());
        }
    }
}

impl Drop for BlockingThreads {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        let unbegun = std::mem::take(&mut state.waiting);
        drop(state);
        self.shared.wanted.notify_all();
        drop(unbegun);
    }
}

impl Shared {
    /// Nothing panics under this lock: work is run and dropped outside of it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs work until the manager ends.
    fn serve(&self, limit: usize) {
        let mut state = self.lock();
        loop {
            while let Some((plugin, work)) = state.next(limit) {
                *state.running.entry(plugin).or_default() += 1;
                drop(state);
                if work.is_awaited() {
                    work.run();
                } else {
                    drop(work);
                }
                state = self.lock();
                state.has_ended(plugin);
                // Work of this plugin may have waited for this end.
                self.wanted.notify_one();
            }
            if state.closed {
                return;
            }
            state.idle += 1;
            state = self.wanted.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    /// The system has refused a thread: the others do the work, or else all that waits is refused.
    fn do_without_thread(&self, reason: &str) {
        let mut state = self.lock();
        state.threads -= 1;
        let refused = match state.threads {
            0 => std::mem::take(&mut state.waiting),
            _ => VecDeque::new(),
        };
        drop(state);
        for (_, work) in refused {
            work.refuse(reason);
        }
    }
}

impl State {
    /// Takes the oldest work whose plugin has a thread left.
    fn next(&mut self, limit: usize) -> Option<(PluginKey, BlockingWork)> {
        // Work that never ends must leave a thread to the other plugins.
        let may_run = |plugin| self.running.get(plugin).is_none_or(|running| *running < limit - 1);
        let index = self.waiting.iter().position(|(plugin, _)| may_run(plugin))?;
        self.waiting.remove(index)
    }

    fn has_ended(&mut self, plugin: PluginKey) {
        if let Some(running) = self.running.get_mut(&plugin) {
            *running -= 1;
            if *running == 0 {
                self.running.remove(&plugin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use jobtap_core::plugin::BlockingError;

    use super::*;

    const ONE: PluginKey = PluginKey(1);
    const OTHER: PluginKey = PluginKey(2);

    /// A test fails after this time instead of waiting for ever.
    const LONG: Duration = Duration::from_secs(30);

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
    }

    fn wait<T>(future: impl Future<Output = T>) -> T {
        runtime().block_on(async { tokio::time::timeout(LONG, future).await.unwrap() })
    }

    fn run<R: Send + 'static, W: FnOnce() -> R + Send + 'static>(
        threads: &BlockingThreads,
        plugin: PluginKey,
        work: W,
    ) -> impl Future<Output = Result<R, BlockingError>> + use<R, W> {
        let (work, result) = BlockingWork::new(work);
        threads.send(plugin, BlockingCommand::Run(work));
        result
    }

    /// Work that says that it has begun, and ends when the test drops or uses the sender.
    fn held(
        threads: &BlockingThreads,
        plugin: PluginKey,
    ) -> (impl Future<Output = Result<(), BlockingError>> + use<>, Receiver<()>, Sender<()>) {
        let (begins, begun) = channel();
        let (release, released) = channel::<()>();
        let result = run(threads, plugin, move || {
            begins.send(()).unwrap();
            let _ = released.recv_timeout(LONG);
        });
        (result, begun, release)
    }

    #[test]
    fn the_result_of_the_work_comes_back() {
        let threads = BlockingThreads::with_limit(2);
        assert_eq!(wait(run(&threads, ONE, || 7)), Ok(7));
        assert_eq!(wait(run(&threads, ONE, || 8)), Ok(8));
    }

    #[test]
    fn a_panic_is_an_error_and_the_thread_goes_on() {
        let threads = BlockingThreads::with_limit(2);
        let result = wait(run(&threads, ONE, || -> () { panic!("out of range") }));
        assert_eq!(result, Err(BlockingError::Panicked("out of range".to_owned())));
        assert_eq!(wait(run(&threads, ONE, || 7)), Ok(7));
    }

    #[test]
    fn one_plugin_leaves_a_thread_to_the_others() {
        let threads = BlockingThreads::with_limit(2);
        let (endless, begun, release) = held(&threads, ONE);
        begun.recv_timeout(LONG).unwrap();
        let (next, waits, _) = held(&threads, ONE);
        assert_eq!(wait(run(&threads, OTHER, || 7)), Ok(7));
        assert!(waits.try_recv().is_err());
        drop(release);
        assert_eq!(wait(endless), Ok(()));
        assert_eq!(wait(next), Ok(()));
    }

    #[test]
    fn work_that_nothing_awaits_does_not_run() {
        let threads = BlockingThreads::with_limit(2);
        let (endless, begun, release) = held(&threads, ONE);
        begun.recv_timeout(LONG).unwrap();
        let (told, runs) = channel();
        drop(run(&threads, ONE, move || told.send(())));
        drop(release);
        assert_eq!(wait(endless), Ok(()));
        assert_eq!(wait(run(&threads, ONE, || 7)), Ok(7));
        assert!(runs.recv_timeout(LONG).is_err());
    }

    #[test]
    fn waiting_work_of_a_removed_plugin_is_gone() {
        let threads = BlockingThreads::with_limit(2);
        let (endless, begun, release) = held(&threads, ONE);
        begun.recv_timeout(LONG).unwrap();
        let waiting = run(&threads, ONE, || 7);
        threads.send(ONE, BlockingCommand::DropAll);
        assert!(matches!(wait(waiting), Err(BlockingError::Gone(_))));
        drop(release);
        assert_eq!(wait(endless), Ok(()));
    }

    #[test]
    fn waiting_work_is_gone_when_the_manager_ends() {
        let threads = BlockingThreads::with_limit(2);
        let (endless, begun, release) = held(&threads, ONE);
        begun.recv_timeout(LONG).unwrap();
        let waiting = run(&threads, ONE, || 7);
        drop(threads);
        assert!(matches!(wait(waiting), Err(BlockingError::Gone(_))));
        drop(release);
        assert_eq!(wait(endless), Ok(()));
    }
}
