//! The threads for plugins' work that computes or blocks for long.
//!
//! There is a bounded number of threads, which are started when they are needed and then stay. They are not joined when
//! the manager ends: a thread can't be stopped, and the process doesn't wait for it.
//!
//! For the same reason work that hangs keeps its thread. Once nothing waits for its result, the thread is *given up*:
//! it doesn't count any more, and another one is started in its place. So work that hangs for one request doesn't hold
//! up the next ones. The number of threads that a plugin may give up is bounded, and the log names the plugin.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use jobtap_core::engine::Level;
use jobtap_core::host::{Awaited, BlockingCommand, BlockingWork, PluginKey};

use crate::daemon::log::Log;

/// The least number of threads, whatever the number of processors: work that waits for a file or a server needs no
/// processor.
const LEAST_THREADS: usize = 4;

/// How many threads of one plugin may be given up at a time. Its further work waits, and is refused at once when
/// all of them seem to hang.
const MOST_GIVEN_UP: usize = 8;

/// Work is refused when it has waited for this long and no work of its plugin has begun meanwhile. A thread that was
/// given up and has been at its work for this long seems to hang.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A thread that was given up is reported when it runs on for this long. Most work, such as that for a canceled job,
/// ends soon after nothing waits for it any more.
const QUIET: Duration = Duration::from_secs(1);

/// The interval of the checks for threads that were given up, and for work that has waited for too long.
const CHECK: Duration = Duration::from_millis(250);

/// The threads. When this is dropped, work that has not begun is dropped, and the threads end after their present work.
pub(in crate::daemon) struct BlockingThreads {
    shared: Arc<Shared>,
}

/// How many threads a plugin uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::daemon) struct ThreadUse {
    /// Threads at work for it.
    pub(in crate::daemon) running: usize,
    /// Work that waits for a thread.
    pub(in crate::daemon) waiting: usize,
    /// Threads whose results nothing waits for, and which run on.
    pub(in crate::daemon) given_up: usize,
}

/// Reports how many threads each plugin uses.
#[derive(Clone)]
pub(in crate::daemon) struct ThreadUses(Weak<Shared>);

struct Shared {
    state: Mutex<State>,
    wanted: Condvar,
    /// Wakes the thread that checks, when the manager ends.
    ending: Condvar,
    limit: usize,
    log: Arc<Log>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    running: Vec<Running>,
    /// When work of each plugin last began, by the plugin's name.
    begun: HashMap<Arc<str>, Instant>,
    last: u64,
    threads: usize,
    idle: usize,
    /// Whether the thread that checks is running.
    checked: bool,
    closed: bool,
}

struct Waiting {
    plugin: PluginKey,
    work: BlockingWork,
    since: Instant,
}

/// Work that a thread is doing. Threads are counted by the name of the plugin, so that its earlier threads still count
/// when it is loaded again.
struct Running {
    number: u64,
    plugin: Arc<str>,
    awaited: Awaited,
    since: Instant,
    given_up: GivenUp,
}

/// Whether a thread was given up, as far as the checks have noticed.
enum GivenUp {
    No,
    Since(Instant),
    Told,
}

impl BlockingThreads {
    /// As many threads as the machine has processors, but at least `LEAST_THREADS`, so that one plugin can't take all.
    pub(in crate::daemon) fn of_this_host(log: Arc<Log>) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self::with_limit(processors.max(LEAST_THREADS), log)
    }

    fn with_limit(limit: usize, log: Arc<Log>) -> Self {
        let (state, wanted, ending) = Default::default();
        Self { shared: Arc::new(Shared { state, wanted, ending, limit, log }) }
    }

    /// Reports how many threads each plugin uses.
    pub(in crate::daemon) fn uses(&self) -> ThreadUses {
        ThreadUses(Arc::downgrade(&self.shared))
    }

    /// Carries out a command. This never waits.
    pub(in crate::daemon) fn send(&self, plugin: PluginKey, command: BlockingCommand) {
        match command {
            BlockingCommand::Run(work) => self.shared.take(plugin, work),
            BlockingCommand::DropAll => {
                let mut state = self.shared.lock();
                let (dropped, kept) = std::mem::take(&mut state.waiting)
                    .into_iter()
                    .partition::<VecDeque<_>, _>(|waiting| waiting.plugin == plugin);
                state.waiting = kept;
                drop(state);
                // Outside of the lock: it drops values of plugins.
                drop(dropped);
            }
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
        self.shared.ending.notify_all();
        // Outside of the lock: it drops values of plugins.
        drop(unbegun);
    }
}

impl ThreadUses {
    /// Returns what each plugin uses, by the names of those that use any.
    pub(in crate::daemon) fn by_plugin(&self) -> BTreeMap<Arc<str>, ThreadUse> {
        let Some(shared) = self.0.upgrade() else { return BTreeMap::new() };
        let state = shared.lock();
        let mut uses = BTreeMap::<Arc<str>, ThreadUse>::new();
        for running in &state.running {
            let used = uses.entry(Arc::clone(&running.plugin)).or_default();
            let count =
                if running.awaited.holds() { &mut used.running } else { &mut used.given_up };
            *count += 1;
        }
        for waiting in &state.waiting {
            uses.entry(Arc::clone(waiting.work.plugin())).or_default().waiting += 1;
        }
        uses
    }
}

impl Shared {
    /// Nothing panics under this lock: work is run and dropped outside of it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(self: &Arc<Self>, plugin: PluginKey, work: BlockingWork) {
        let since = Instant::now();
        let mut state = self.lock();
        if state.hanging(work.plugin(), since) >= MOST_GIVEN_UP {
            drop(state);
            return work.refuse(too_many_hang());
        }
        state.waiting.push_back(Waiting { plugin, work, since });
        let checked = std::mem::replace(&mut state.checked, true);
        drop(state);
        self.provide();
        if !checked {
            let shared = Arc::clone(self);
            if thread("blocking check").spawn(move || shared.check()).is_err() {
                // The next work tries it again.
                self.lock().checked = false;
            }
        }
    }

    /// Wakes or starts a thread for the work that could run.
    fn provide(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.next_index(self.limit).is_none() {
            return;
        }
        if state.idle >= state.waiting.len() || state.threads >= self.limit + state.given_up() {
            drop(state);
            return self.wanted.notify_one();
        }
        state.threads += 1;
        drop(state);
        let shared = Arc::clone(self);
        if let Err(error) = thread("blocking").spawn(move || shared.serve()) {
            self.do_without_thread(&error.to_string());
        }
    }

    /// Runs work until the manager ends, or until there is one thread too many because one that was given up has ended.
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            while let Some((number, work)) = state.begin_next(self.limit) {
                let more = state.next_index(self.limit).is_some();
                drop(state);
                if more {
                    self.wanted.notify_one();
                }
                if work.awaited().holds() {
                    work.run();
                } else {
                    drop(work);
                }
                state = self.lock();
                if let Some(line) = state.end(number) {
                    drop(state);
                    self.log.write(Level::Info, &line);
                    state = self.lock();
                }
                // Other work of this plugin may have waited for this one to end.
                self.wanted.notify_one();
            }
            if state.closed || state.threads > self.limit + state.given_up() {
                state.threads -= 1;
                return;
            }
            state.idle += 1;
            state = self.wanted.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    /// Checks running and waiting work, while there is any.
    fn check(self: &Arc<Self>) {
        let mut state = self.lock();
        while !state.closed && state.is_busy() {
            drop(state);
            self.check_at(Instant::now());
            let waited = self.ending.wait_timeout(self.lock(), CHECK);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.begun.clear();
        state.checked = false;
    }

    fn check_at(self: &Arc<Self>, now: Instant) {
        let mut state = self.lock();
        let given_up = state.newly_given_up(now);
        let refused = state.waited_too_long(now);
        drop(state);
        for line in given_up {
            self.log.write(Level::Warning, &line);
        }
        for (work, reason) in refused {
            work.refuse(reason);
        }
        // In place of threads that were given up.
        self.provide();
    }

    /// Does without a thread that the system has refused: the others do the work, or else all work that waits is
    /// refused.
    fn do_without_thread(&self, reason: &str) {
        let mut state = self.lock();
        state.threads -= 1;
        // Threads that were given up may never get to it.
        let refused = match state.threads > state.given_up() {
            false => std::mem::take(&mut state.waiting),
            true => VecDeque::new(),
        };
        drop(state);
        for waiting in refused {
            waiting.work.refuse(reason);
        }
    }
}

impl State {
    fn is_busy(&self) -> bool {
        !self.running.is_empty() || !self.waiting.is_empty()
    }

    /// Returns the index of the oldest work whose plugin may use one more thread.
    fn next_index(&self, limit: usize) -> Option<usize> {
        // Work that never ends must leave a thread to the other plugins.
        let may_run = |plugin: &Arc<str>| {
            let running = self.running.iter().filter(|running| running.plugin == *plugin).count();
            let given_up = self.given_up_by(plugin);
            running.saturating_sub(given_up) < limit - 1 && given_up < MOST_GIVEN_UP
        };
        self.waiting.iter().position(|waiting| may_run(waiting.work.plugin()))
    }

    fn begin_next(&mut self, limit: usize) -> Option<(u64, BlockingWork)> {
        let Waiting { work, .. } = self.waiting.remove(self.next_index(limit)?)?;
        let (plugin, awaited) = (Arc::clone(work.plugin()), work.awaited().clone());
        let since = Instant::now();
        self.last += 1;
        let number = self.last;
        self.begun.insert(Arc::clone(&plugin), since);
        self.running.push(Running { number, plugin, awaited, since, given_up: GivenUp::No });
        Some((number, work))
    }

    /// Notes the end of some work. Returns a line for the log if its thread was reported as given up.
    fn end(&mut self, number: u64) -> Option<String> {
        let index = self.running.iter().position(|running| running.number == number)?;
        let Running { plugin, since, given_up, .. } = self.running.swap_remove(index);
        let after = since.elapsed().as_secs();
        matches!(given_up, GivenUp::Told)
            .then(|| format!("{plugin}: a thread that was given up has ended, after {after} s"))
    }

    fn given_up(&self) -> usize {
        self.running.iter().filter(|running| !running.awaited.holds()).count()
    }

    fn given_up_by(&self, plugin: &Arc<str>) -> usize {
        let of_plugin = self.running.iter().filter(|running| running.plugin == *plugin);
        of_plugin.filter(|running| !running.awaited.holds()).count()
    }

    /// How many threads of a plugin were given up and seem to hang.
    fn hanging(&self, plugin: &Arc<str>, now: Instant) -> usize {
        let hangs = |running: &&Running| {
            running.plugin == *plugin
                && !running.awaited.holds()
                && now.saturating_duration_since(running.since) >= LONGEST_WAIT
        };
        self.running.iter().filter(hangs).count()
    }

    /// Returns lines for the log about threads that were given up and run on.
    fn newly_given_up(&mut self, now: Instant) -> Vec<String> {
        let mut told = Vec::new();
        for running in self.running.iter_mut().filter(|running| !running.awaited.holds()) {
            match running.given_up {
                GivenUp::No => running.given_up = GivenUp::Since(now),
                GivenUp::Since(since) if now.saturating_duration_since(since) >= QUIET => {
                    running.given_up = GivenUp::Told;
                    let age = now.saturating_duration_since(running.since).as_secs();
                    told.push((Arc::clone(&running.plugin), age));
                }
                GivenUp::Since(_) | GivenUp::Told => {}
            }
        }
        let line = |(plugin, age)| {
            let count = self.given_up_by(&plugin);
            format!(
                "{plugin}: a thread is given up: nothing waits any more for the work that it has been at for {age} \
                 s, and a thread can't be stopped. {count} of the plugin's threads are given up, of {MOST_GIVEN_UP} \
                 at most"
            )
        };
        told.into_iter().map(line).collect()
    }

    /// Removes the work that waits for a thread in vain.
    fn waited_too_long(&mut self, now: Instant) -> Vec<(BlockingWork, String)> {
        let mut refused = Vec::new();
        for waiting in std::mem::take(&mut self.waiting) {
            let plugin = waiting.work.plugin();
            let progress =
                self.begun.get(plugin).map_or(waiting.since, |at| (*at).max(waiting.since));
            if self.hanging(plugin, now) >= MOST_GIVEN_UP {
                refused.push((waiting.work, too_many_hang()));
            } else if now.saturating_duration_since(progress) >= LONGEST_WAIT {
                let seconds = LONGEST_WAIT.as_secs();
                let reason = format!("none of the plugin's threads has come free for {seconds} s");
                refused.push((waiting.work, reason));
            } else {
                self.waiting.push_back(waiting);
            }
        }
        refused
    }
}

fn too_many_hang() -> String {
    format!(
        "{MOST_GIVEN_UP} of the plugin's threads were given up and hang; a restart of the manager ends them"
    )
}

fn thread(name: &str) -> std::thread::Builder {
    std::thread::Builder::new().name(name.to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use jobtap_core::plugin::BlockingError;

    use super::*;

    const ONE: PluginKey = PluginKey(1);
    const OTHER: PluginKey = PluginKey(2);

    /// A test fails after this time instead of waiting forever.
    const LONG: Duration = Duration::from_secs(30);

    fn threads(limit: usize) -> BlockingThreads {
        BlockingThreads::with_limit(limit, Arc::new(Log::new(Level::Error)))
    }

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
        let (work, result) = BlockingWork::new(format!("p{}", plugin.0).into(), work);
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
        let threads = threads(2);
        assert_eq!(wait(run(&threads, ONE, || 7)), Ok(7));
        assert_eq!(wait(run(&threads, ONE, || 8)), Ok(8));
    }

    #[test]
    fn a_panic_is_an_error_and_the_thread_goes_on() {
        let threads = threads(2);
        let result = wait(run(&threads, ONE, || -> () { panic!("out of range") }));
        assert_eq!(result, Err(BlockingError::Panicked("out of range".to_owned())));
        assert_eq!(wait(run(&threads, ONE, || 7)), Ok(7));
    }

    #[test]
    fn values_that_panic_when_they_are_dropped_end_no_thread() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("in Drop");
            }
        }
        let threads = threads(2);
        let (endless, begun, release) = held(&threads, ONE);
        begun.recv_timeout(LONG).unwrap();
        let bomb = Bomb;
        let waiting = run(&threads, ONE, move || drop(bomb));
        threads.send(ONE, BlockingCommand::DropAll);
        assert!(matches!(wait(waiting), Err(BlockingError::Gone(_))));
        let (began, has_begun) = channel();
        let (go, gone) = channel::<()>();
        drop(release);
        assert_eq!(wait(endless), Ok(()));
        let unread = run(&threads, ONE, move || {
            began.send(()).unwrap();
            let _ = gone.recv_timeout(LONG);
            Bomb
        });
        has_begun.recv_timeout(LONG).unwrap();
        drop(unread);
        drop(go);
        assert_eq!(wait(run(&threads, ONE, || 7)), Ok(7));
        while threads.uses().by_plugin().contains_key("p1") {
            std::thread::yield_now();
        }
    }

    #[test]
    fn one_plugin_leaves_a_thread_to_the_others() {
        let threads = threads(2);
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
        let threads = threads(2);
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
        let threads = threads(2);
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
        let threads = threads(2);
        let (endless, begun, release) = held(&threads, ONE);
        begun.recv_timeout(LONG).unwrap();
        let waiting = run(&threads, ONE, || 7);
        drop(threads);
        assert!(matches!(wait(waiting), Err(BlockingError::Gone(_))));
        drop(release);
        assert_eq!(wait(endless), Ok(()));
    }

    #[test]
    fn a_thread_that_was_given_up_does_not_count() {
        let threads = threads(2);
        let mut held_up = Vec::new();
        for number in 0..3 {
            let (result, begun, release) = held(&threads, ONE);
            begun.recv_timeout(LONG).unwrap();
            held_up.push(release);
            let given_up = ThreadUse { running: 1, given_up: number, ..ThreadUse::default() };
            assert_eq!(threads.uses().by_plugin(), BTreeMap::from([("p1".into(), given_up)]));
            drop(result);
        }
        assert_eq!(wait(run(&threads, ONE, || 7)), Ok(7));
        assert_eq!(wait(run(&threads, OTHER, || 7)), Ok(7));
    }

    #[test]
    fn work_that_waits_gets_the_place_of_a_thread_that_is_given_up() {
        let threads = threads(2);
        let (first, begun, _release) = held(&threads, ONE);
        begun.recv_timeout(LONG).unwrap();
        let second = run(&threads, ONE, || 7);
        drop(first);
        // The thread that checks notices it without any further request.
        assert_eq!(wait(second), Ok(7));
    }

    #[test]
    fn threads_that_are_given_up_are_told_and_bounded() {
        let log = Arc::new(Log::new(Level::Error));
        let threads = BlockingThreads::with_limit(2, Arc::clone(&log));
        let mut held_up = Vec::new();
        for _ in 0..MOST_GIVEN_UP {
            let (result, begun, release) = held(&threads, ONE);
            begun.recv_timeout(LONG).unwrap();
            held_up.push(release);
            drop(result);
        }
        // They may end soon, so the next one waits.
        let waits = run(&threads, ONE, || 7);
        let now = Instant::now();
        threads.shared.check_at(now);
        threads.shared.check_at(now + QUIET);
        let lines: Vec<String> = log.lines().into_iter().map(|line| line.text).collect();
        assert_eq!(lines.len(), MOST_GIVEN_UP, "{lines:?}");
        assert!(lines[0].starts_with("p1: a thread is given up: "), "{lines:?}");
        assert!(
            lines[0].ends_with("8 of the plugin's threads are given up, of 8 at most"),
            "{lines:?}"
        );
        threads.shared.check_at(now + LONGEST_WAIT);
        assert_eq!(wait(waits), Err(BlockingError::NoThread(too_many_hang())));
        assert_eq!(wait(run(&threads, OTHER, || 7)), Ok(7));
        drop(held_up);
    }

    #[test]
    fn work_does_not_wait_for_a_thread_for_ever() {
        let threads = threads(2);
        let (endless, begun, release) = held(&threads, ONE);
        begun.recv_timeout(LONG).unwrap();
        let waits = run(&threads, ONE, || 7);
        threads.shared.check_at(Instant::now() + LONGEST_WAIT);
        let text = "none of the plugin's threads has come free for 60 s".to_owned();
        assert_eq!(wait(waits), Err(BlockingError::NoThread(text)));
        drop(release);
        assert_eq!(wait(endless), Ok(()));
    }
}
