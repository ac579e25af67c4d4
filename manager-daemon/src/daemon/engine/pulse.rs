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
use jobtap_core::host::Ticks;

use crate::daemon::log::Log;

/// How often the number is updated while the engine works.
const BEAT: Duration = Duration::from_millis(5);

/// An input that keeps the engine busy for this long is reported, once.
const STUCK: Duration = Duration::from_secs(10);

/// The clocks and their thread, which ends when this is dropped.
pub(in crate::daemon) struct Pulse {
    shared: Arc<Shared>,
    thread: Thread,
}

#[derive(Default)]
struct Shared {
    /// Milliseconds.
    coarse: Arc<AtomicU64>,
    /// When the engine began with the present input, in milliseconds.
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
        let thread = std::thread::Builder::new()
            .name("pulse".into())
            .spawn(move || beat(&beating, &log))?
            .thread()
            .clone();
        Ok(Self { shared, thread })
    }

    /// The clocks, for the engine.
    pub(in crate::daemon) fn ticks(&self) -> Ticks {
        Ticks::new(Arc::clone(&self.shared.coarse), nanoseconds)
    }

    /// The engine begins with an input.
    pub(in crate::daemon) fn works(&self) {
        let now = milliseconds();
        self.shared.coarse.store(now, SeqCst);
        self.shared.begun.store(now, SeqCst);
        // The thread writes and reads these in the opposite order, so one of the two sees the change of
        // the other, and no wakeup is lost.
        self.shared.working.store(true, SeqCst);
        if self.shared.resting.swap(false, SeqCst) {
            self.thread.unpark();
        }
    }

    /// The engine is idle.
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

fn beat(shared: &Shared, log: &Log) {
    let mut reported = None;
    let mut quiet = false;
    while !shared.ended.load(SeqCst) {
        let working = shared.working.load(SeqCst);
        if working {
            let now = milliseconds();
            shared.coarse.store(now, SeqCst);
            let begun = shared.begun.load(SeqCst);
            if is_stuck(begun, now) && reported != Some(begun) {
                reported = Some(begun);
                log.write(Level::Error, &stuck());
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

fn is_stuck(begun: u64, now: u64) -> bool {
    u128::from(now.saturating_sub(begun)) >= STUCK.as_millis()
}

fn stuck() -> String {
    format!(
        "the engine has been at one input for {} s and answers nobody meanwhile: a plugin's handler \
         may wait or loop",
        STUCK.as_secs()
    )
}

/// Since the first call.
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

    #[test]
    fn only_a_long_input_is_stuck() {
        assert!(!is_stuck(5, 9_000));
        assert!(is_stuck(5, 10_005));
        // The next one was taken up in between.
        assert!(!is_stuck(20, 10));
    }
}
