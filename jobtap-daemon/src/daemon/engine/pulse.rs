//! The clocks by which handlers of plugins are metered.
//!
//! A handler may be called hundreds of thousands of times a second, so the time is read from a number in
//! memory. A thread updates that number while the engine works, and sleeps while the engine does: an idle
//! manager causes no wakeups.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use jobtap_core::engine::Level;
use jobtap_core::host::{Calls, Ticks};

use super::last_words;
use crate::daemon::log::Log;

/// How often the number is updated while the engine works.
const BEAT: Duration = Duration::from_millis(5);

/// An input that keeps the engine busy for this long is reported, once.
const STUCK: Duration = Duration::from_secs(10);

/// The clocks and their thread, which ends when this is dropped.
pub(in crate::daemon) struct Pulse {
    shared: Arc<Shared>,
    ticks: Ticks,
    thread: Thread,
}

#[derive(Default)]
struct Shared {
    /// The time in milliseconds, as handlers read it.
    coarse: Arc<AtomicU64>,
    /// When the engine began the present input, in milliseconds.
    begun: AtomicU64,
    working: AtomicBool,
    /// Whether the thread waits to be woken, or is about to.
    resting: AtomicBool,
    ended: AtomicBool,
}

impl Pulse {
    /// Starts the thread.
    pub(in crate::daemon) fn start(log: Arc<Log>) -> std::io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let beating = Arc::clone(&shared);
        let ticks = Ticks::new(Arc::clone(&shared.coarse), nanoseconds);
        let calls = ticks.calls().clone();
        last_words::keep(calls.clone(), Arc::clone(&log))?;
        let thread = std::thread::Builder::new()
            .name("pulse".into())
            .spawn(move || beat(&beating, &calls, &log))?
            .thread()
            .clone();
        Ok(Self { shared, ticks, thread })
    }

    /// Clocks that stand still, without a thread.
    pub(in crate::daemon) fn still() -> Self {
        let (shared, ticks) = Default::default();
        Self { shared, ticks, thread: std::thread::current() }
    }

    /// The clocks, for the engine.
    pub(in crate::daemon) fn ticks(&self) -> Ticks {
        self.ticks.clone()
    }

    /// Notes that the engine begins an input.
    pub(in crate::daemon) fn works(&self) {
        let now = milliseconds();
        self.shared.coarse.store(now, SeqCst);
        self.shared.begun.store(now, SeqCst);
        // The thread writes and reads these in the opposite order, so at least one of the two sees the other's change,
        // and no wakeup is lost.
        self.shared.working.store(true, SeqCst);
        if self.shared.resting.swap(false, SeqCst) {
            self.thread.unpark();
        }
    }

    /// Notes that the engine is idle.
    pub(in crate::daemon) fn rests(&self) {
        self.shared.working.store(false, SeqCst);
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.shared.ended.store(true, SeqCst);
        self.thread.unpark();
    }
}

fn beat(shared: &Shared, calls: &Calls, log: &Log) {
    let mut watch = Watch::new(0);
    let mut quiet = false;
    while !shared.ended.load(SeqCst) {
        let working = shared.working.load(SeqCst);
        if working {
            let now = milliseconds();
            shared.coarse.store(now, SeqCst);
            match watch.look(shared.begun.load(SeqCst), calls.present(), now) {
                Some(Stuck::In(call)) => log.write(Level::Error, &stuck_in(&calls.describe(call))),
                Some(Stuck::Nowhere) => log.write(Level::Error, &stuck()),
                None => {}
            }
        }
        if working || !quiet {
            // One more beat before the thread sleeps, so that short turns in a row do not wake it each time.
            quiet = !working;
            std::thread::park_timeout(BEAT);
            continue;
        }
        shared.resting.store(true, SeqCst);
        if !shared.working.load(SeqCst) && !shared.ended.load(SeqCst) {
            std::thread::park();
        }
        shared.resting.store(false, SeqCst);
        quiet = false;
    }
}

/// What keeps the engine busy for too long.
#[derive(Debug, PartialEq, Eq)]
enum Stuck<C> {
    /// One call of a handler.
    In(C),
    /// Many calls, or the engine itself.
    Nowhere,
}

/// What the engine was doing at the last look.
struct Watch<C> {
    begun: u64,
    /// The call of a handler, and when it was first seen.
    call: Option<(C, u64)>,
    reported: bool,
}

impl<C: Copy + PartialEq> Watch<C> {
    const fn new(begun: u64) -> Self {
        Self { begun, call: None, reported: false }
    }

    /// Notes when the engine began its present input, and the call that it is in. Returns what is stuck, once for each
    /// input.
    fn look(&mut self, begun: u64, call: Option<C>, now: u64) -> Option<Stuck<C>> {
        if self.begun != begun {
            *self = Self::new(begun);
        }
        let is_same = self.call.map(|(seen, _)| seen) == call;
        if !is_same {
            self.call = call.map(|call| (call, now));
        }
        if self.reported || !is_stuck(begun, now) {
            return None;
        }
        let stuck = match self.call {
            Some((call, since)) if is_stuck(since, now) => Stuck::In(call),
            // It is too early to tell: the call may be one of many, or go on and be the one to name.
            Some(_) if !is_stuck(begun, now.saturating_sub(STUCK.as_millis() as u64)) => {
                return None;
            }
            _ => Stuck::Nowhere,
        };
        self.reported = true;
        Some(stuck)
    }
}

fn is_stuck(begun: u64, now: u64) -> bool {
    u128::from(now.saturating_sub(begun)) >= STUCK.as_millis()
}

fn stuck() -> String {
    let seconds = STUCK.as_secs();
    format!(
        "the engine has been at one input for more than {seconds} s and answers nobody meanwhile"
    )
}

/// What the log says about a handler that doesn't return.
fn stuck_in(call: &str) -> String {
    let seconds = STUCK.as_secs();
    format!(
        "{call}: the handler has not returned for {seconds} s, and the manager answers nobody meanwhile. A handler \
         must not wait, block or loop: make it `async`, and use `Remote`"
    )
}

/// The time since the first call.
fn elapsed() -> Duration {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    ORIGIN.get_or_init(Instant::now).elapsed()
}

fn nanoseconds() -> u64 {
    u64::try_from(elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn milliseconds() -> u64 {
    u64::try_from(elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pulse() -> Pulse {
        Pulse::start(Arc::new(Log::new(Level::Error))).unwrap()
    }

    /// Waits without a deadline of its own: the test runner reports a test that hangs.
    fn until(holds: impl Fn() -> bool) {
        while !holds() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_number_moves_while_the_engine_works() {
        let pulse = pulse();
        pulse.works();
        let first = pulse.shared.coarse.load(SeqCst);
        until(|| pulse.shared.coarse.load(SeqCst) > first);
    }

    #[test]
    fn the_thread_rests_with_the_engine_and_is_woken_by_it() {
        let pulse = pulse();
        for _ in 0..3 {
            pulse.works();
            pulse.rests();
            until(|| pulse.shared.resting.load(SeqCst));
        }
    }

    #[test]
    fn the_thread_ends_with_the_engine() {
        let pulse = pulse();
        let shared = Arc::downgrade(&pulse.shared);
        drop(pulse);
        until(|| shared.strong_count() == 0);
    }

    /// A second in the unit of the pulse's clock.
    const S: u64 = 1000;

    #[test]
    fn only_a_long_input_is_stuck() {
        let mut watch = Watch::<&str>::new(0);
        assert_eq!(watch.look(5, None, 9 * S), None);
        // The next input was begun in between.
        assert_eq!(watch.look(9 * S, None, 18 * S), None);
        assert_eq!(watch.look(9 * S, None, 19 * S), Some(Stuck::Nowhere));
        assert_eq!(watch.look(9 * S, None, 60 * S), None);
    }

    #[test]
    fn a_handler_that_does_not_return_is_named() {
        let mut watch = Watch::new(0);
        assert_eq!(watch.look(S, Some("a"), S), None);
        assert_eq!(watch.look(S, Some("b"), 2 * S), None);
        assert_eq!(watch.look(S, Some("b"), 11 * S), None);
        assert_eq!(watch.look(S, Some("b"), 12 * S), Some(Stuck::In("b")));
        assert_eq!(watch.look(S, Some("b"), 60 * S), None);
    }

    #[test]
    fn of_many_handlers_none_is_named() {
        let mut watch = Watch::new(0);
        let looks = (1..40).map(|second| watch.look(S, Some(second), second * S));
        let stuck: Vec<_> = looks.flatten().collect();
        assert_eq!(stuck, [Stuck::Nowhere]);
    }
}
