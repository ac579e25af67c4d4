//! The clock of the manager and of its shepherd. The core reads no clock; it is given this time with each
//! input.
//!
//! It shows the system's time as long as that goes forward. When the system's clock is set back, this clock
//! continues from where it was, at the pace of the monotonic clock. Otherwise no time limit and no timer would
//! expire until the system's clock had caught up, and events would be a microsecond apart.
//!
//! When the system's clock is set forward, or the host has slept, this clock follows, and the engine is told: what
//! counts seconds, such as the time limit of a job, must not end by seconds that nothing had.

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use jobtap_core::job::Timestamp;

use crate::stderr;

/// How far the system's clock may be behind or ahead before that is reported, in microseconds.
const WORTH_TELLING: u64 = 1_000_000;

/// The clock of this process.
static CLOCK: Mutex<Option<Clock>> = Mutex::new(None);

thread_local! {
    /// What this thread takes for the clocks of the system, if they are played.
    static PLAYED: RefCell<Option<Played>> = const { RefCell::new(None) };
}

/// Clocks of a simulated system that runs on one thread. What drives the parts of its manager also sets the time.
struct Played {
    system: u64,
    monotonic: Instant,
    /// The clock of the process that is played, from its first look on.
    clock: Option<Clock>,
}

impl Played {
    fn clock(&mut self) -> &mut Clock {
        let clock = self.clock.get_or_insert(Clock::new(self.system, self.monotonic));
        let _told = clock.go_on(self.system, self.monotonic);
        clock
    }
}

/// The clock of a process that is played, while another process is at work on the thread.
#[derive(Default)]
pub struct PlayedProcess(Option<Clock>);

/// Plays the clocks of the system on this thread from now on: both show their beginning.
pub fn play(system: Duration) {
    let played = Played { system: micros(system), monotonic: Instant::now(), clock: None };
    PLAYED.set(Some(played));
}

/// Lets so much time pass on the clocks that are played, and sets the system's by this many microseconds besides.
pub fn play_on(passed: Duration, set_by: i64) {
    PLAYED.with_borrow_mut(|played| {
        if let Some(played) = played {
            let system = played.system.saturating_add(micros(passed));
            played.system = system.saturating_add_signed(set_by);
            played.monotonic += passed;
        }
    });
}

/// The monotonic clock, for what is measured and not shown.
pub(crate) fn monotonic() -> Instant {
    let played = PLAYED.with_borrow(|played| Some(played.as_ref()?.monotonic));
    played.unwrap_or_else(Instant::now)
}

/// Lets another process look at the clocks that are played. Returns the clock of the one before.
pub fn play_process(process: PlayedProcess) -> PlayedProcess {
    let PlayedProcess(clock) = process;
    PLAYED.with_borrow_mut(|played| {
        PlayedProcess(
            played.as_mut().and_then(|played| std::mem::replace(&mut played.clock, clock)),
        )
    })
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The current time, as it goes into events: in whole microseconds, which are quick to write. For the seconds since
/// 1970, adjacent floating point numbers are a quarter of a microsecond apart today.
pub fn now() -> Timestamp {
    with_clock(|clock| clock.timestamp())
}

/// The current time for the engine, with the seconds by which the clock went forward since the last call, if it did.
pub(crate) fn now_and_step() -> (Timestamp, Option<f64>) {
    with_clock(|clock| {
        let skipped = std::mem::take(&mut clock.skipped);
        (clock.timestamp(), (skipped > 0).then_some(skipped as f64 / 1e6))
    })
}

/// Calls `look` with the clock of this process, which shows the current time.
fn with_clock<T>(look: impl Fn(&mut Clock) -> T) -> T {
    let played = PLAYED.with_borrow_mut(|played| Some(look(played.as_mut()?.clock())));
    if let Some(shown) = played {
        return shown;
    }
    // Read before the monotonic clock: a pause between the two then makes this clock wait for the system's. In the
    // other order, this clock would run ahead.
    let system = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let system = micros(system);
    let mut clock = CLOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let monotonic = Instant::now();
    let clock = clock.get_or_insert(Clock::new(system, monotonic));
    if let Some(behind) = clock.go_on(system, monotonic) {
        stderr::line(&format!(
            "the system's clock was set back by {:.0} s: the manager goes on with its own time until the system's clock \
             is there again, or until it is restarted",
            behind as f64 / 1e6
        ));
    }
    look(clock)
}

/// The last time shown, in microseconds since 1970, and the monotonic clock at that moment.
struct Clock {
    time: u64,
    at: Instant,
    /// Whether it was reported that the system's clock is behind.
    told: bool,
    /// By how many microseconds it went forward that did not pass, and that the engine was not told yet.
    skipped: u64,
}

impl Clock {
    fn new(time: u64, at: Instant) -> Self {
        Self { time, at, told: false, skipped: 0 }
    }

    fn timestamp(&self) -> Timestamp {
        Timestamp::from_secs(self.time as f64 / 1e6)
    }

    /// Takes over the system's time, unless that goes back. Returns how far the system's clock is behind, if that
    /// is to be reported.
    fn go_on(&mut self, system: u64, monotonic: Instant) -> Option<u64> {
        let passed = monotonic.saturating_duration_since(self.at).as_micros();
        let own = self.time.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX));
        (self.time, self.at) = (own.max(system), monotonic);
        let ahead = system.saturating_sub(own);
        if ahead >= WORTH_TELLING {
            self.skipped = self.skipped.saturating_add(ahead);
        }
        let behind = own.saturating_sub(system);
        let is_behind = behind >= WORTH_TELLING;
        let was_told = std::mem::replace(&mut self.told, is_behind);
        (is_behind && !was_told).then_some(behind)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: u64 = 1_000_000;

    #[test]
    fn it_tells_whole_microseconds() {
        // A quarter of all times are whole microseconds anyway.
        for _ in 0..50 {
            let secs = now().as_secs();
            assert!(secs > 1.7e9);
            assert_eq!((secs * 1e6).round() / 1e6, secs);
        }
    }

    #[test]
    fn it_goes_on_when_the_systems_clock_is_set_back() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let day = 24 * 3600 * SECOND;
        let mut clock = Clock::new(2 * day, start);
        assert_eq!(clock.go_on(2 * day + SECOND, after(1)), None);
        assert_eq!(clock.time, 2 * day + SECOND);
        // Set back by a day, which is reported once.
        assert_eq!(clock.go_on(day + 2 * SECOND, after(2)), Some(day));
        assert_eq!(clock.go_on(day + 7 * SECOND, after(7)), None);
        assert_eq!(clock.time, 2 * day + 7 * SECOND);
        // Set forward again, and beyond.
        assert_eq!(clock.go_on(3 * day, after(8)), None);
        assert_eq!(clock.time, 3 * day);
        assert_eq!(clock.go_on(2 * day, after(9)), Some(day + SECOND));
        // Only what it went beyond its own time was skipped.
        assert_eq!(clock.skipped, day - 8 * SECOND);
    }

    #[test]
    fn a_pause_between_the_two_clocks_does_not_make_it_run_ahead() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut clock = Clock::new(0, start);
        // The system's clock was read 5 s before the monotonic one.
        clock.go_on(15 * SECOND, after(20));
        clock.go_on(30 * SECOND, after(30));
        assert_eq!((clock.time, clock.skipped), (30 * SECOND, 0));
    }
}
