//! The engine's idea of time: it comes with each input, since the engine reads no clock.

use crate::job::Timestamp;

/// Events are shown with microseconds.
const MICROSECONDS_PER_SECOND: f64 = 1e6;

/// Times that the engine works with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    /// The time of the current input.
    pub(super) now: Timestamp,
    /// When this engine was made. Job ids count milliseconds from here.
    pub(super) started_at: Timestamp,
    /// The time of the newest event.
    newest_event: Timestamp,
}

impl Clock {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { now, started_at: now, newest_event: now }
    }

    /// Returns `time`, or the next microsecond after the newest event if that is later. So the events of all jobs have
    /// distinct times in the order in which they were applied, even when the system's clock is set back.
    ///
    /// That time is a whole number of microseconds, so that the times differ where they are shown, and don't drift.
    pub(super) fn in_order(&mut self, time: Timestamp) -> Timestamp {
        let micros = (self.newest_event.as_secs() * MICROSECONDS_PER_SECOND).round() + 1.0;
        let next = Timestamp::from_secs(micros / MICROSECONDS_PER_SECOND);
        self.newest_event = if time > next { time } else { next };
        self.newest_event
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever the clock says, even times that differ by less than a microsecond.
        #[test]
        fn event_times_are_distinct_where_microseconds_are_shown(
            times in prop::collection::vec(prop_oneof![1.7e9..1.7e9 + 1e-5, 0.0..4e9], 1..20),
        ) {
            let mut clock = Clock::new(Timestamp::from_secs(times[0]));
            let shown = |time: Timestamp| format!("{:.6}", time.as_secs());
            let mut last = Timestamp::from_secs(times[0]);
            for time in times {
                let next = clock.in_order(Timestamp::from_secs(time));
                prop_assert!(last < next && shown(last) != shown(next), "{last:?} {next:?}");
                last = next;
            }
        }
    }

    #[test]
    fn event_times_increase_when_the_clock_does_not() {
        let at = Timestamp::from_secs;
        let mut clock = Clock::new(at(10.0));
        assert_eq!(clock.in_order(at(11.0)), at(11.0));
        assert_eq!(clock.in_order(at(11.0)), at(11.000_001));
        assert_eq!(clock.in_order(at(5.0)), at(11.000_002));
        assert_eq!(clock.in_order(at(12.0)), at(12.0));
    }

    #[test]
    fn the_times_of_a_million_events_of_one_moment_dont_drift() {
        let now = Timestamp::from_secs(1_700_000_000.25);
        let mut clock = Clock::new(now);
        for _ in 0..1_000_000 {
            clock.in_order(now);
        }
        assert_eq!(clock.in_order(now), Timestamp::from_secs(1_700_000_001.250_001));
    }
}
