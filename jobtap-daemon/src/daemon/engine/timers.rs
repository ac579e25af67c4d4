//! The engine's timers, the earliest first. The engine's thread sleeps until the next one is due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use jobtap_core::engine::TimerId;
use jobtap_core::job::Timestamp;

/// The longest sleep, so that a clock that was set back or corrected is noticed.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// The timers that are set.
#[derive(Default)]
pub(super) struct Timers {
    /// Times are compared in microseconds.
    heap: BinaryHeap<Reverse<(u64, TimerId)>>,
}

impl Timers {
    /// Sets a timer. Returns whether it is now the first one.
    pub(super) fn set(&mut self, id: TimerId, at: Timestamp) -> bool {
        let entry = Reverse((micros(at), id));
        let is_first = self.heap.peek().is_none_or(|first| entry > *first);
        self.heap.push(entry);
        is_first
    }

    /// Takes the first timer if it is due.
    pub(super) fn due(&mut self, now: Timestamp) -> Option<TimerId> {
        let Reverse((at, _)) = self.heap.peek()?;
        if *at > micros(now) {
            return None;
        }
        self.heap.pop().map(|Reverse((_, id))| id)
    }

    /// How long to sleep until the first one is due.
    pub(super) fn sleep(&self, now: Timestamp) -> Duration {
        let left = |Reverse((at, _)): &Reverse<(u64, TimerId)>| {
            Duration::from_micros(at.saturating_sub(micros(now)))
        };
        self.heap.peek().map_or(LONGEST_SLEEP, left).min(LONGEST_SLEEP)
    }

    /// Whether no timer is set.
    pub(super) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

/// The time in whole microseconds, rounded up.
fn micros(time: Timestamp) -> u64 {
    (time.as_secs() * 1e6).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timer(number: u64) -> TimerId {
        TimerId(number.try_into().unwrap())
    }

    fn at(secs: f64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    #[test]
    fn timers_are_due_at_their_times_and_in_their_order() {
        let mut timers = Timers::default();
        let first: Vec<bool> =
            [(3.0, 3), (1.0, 1), (2.0, 2)].map(|(secs, id)| timers.set(timer(id), at(secs))).into();
        assert_eq!(first, [true, true, false]);
        assert_eq!(timers.due(at(0.999)), None);
        assert_eq!(timers.due(at(2.5)), Some(timer(1)));
        assert_eq!(timers.due(at(2.5)), Some(timer(2)));
        assert_eq!(timers.due(at(2.5)), None);
        assert_eq!(timers.sleep(at(2.5)), Duration::from_millis(500));
        assert_eq!(timers.sleep(at(9.0)), Duration::ZERO);
    }

    #[test]
    fn no_sleep_is_longer_than_the_longest() {
        let mut timers = Timers::default();
        assert_eq!(timers.sleep(at(0.0)), LONGEST_SLEEP);
        timers.set(timer(1), at(1e6));
        assert_eq!(timers.sleep(at(0.0)), LONGEST_SLEEP);
    }
}
