//! The engine's idea of time: it comes with each input, since the engine reads no clock.

use crate::job::Timestamp;

/// The resolution at which event times are shown: microseconds in a second.
const MICROSECONDS: f64 = 1e6;

/// Times that the engine works with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    /// The time of the input that is being worked on.
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

    /// Returns `time`, or the next microsecond after the newest event if that is later. So the events
    /// of all jobs have distinct times in the order in which they were applied, also when the
    /// system's clock is set back.
    ///
    /// It is a whole microsecond, as the clock's are: those are written in the least time.
    pub(super) fn in_order(&mut self, time: Timestamp) -> Timestamp {
        let micros = (self.newest_event.as_secs() * MICROSECONDS).round() + 1.0;
        let next = Timestamp::from_secs(micros / MICROSECONDS);
        self.newest_event = if time > next { time } else { next };
        self.newest_event
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_million_events_of_one_moment_take_a_second() {
        let now = Timestamp::from_secs(1_700_000_000.25);
        let mut clock = Clock::new(now);
        for _ in 0..1_000_000 {
            clock.in_order(now);
        }
        assert_eq!(clock.in_order(now), Timestamp::from_secs(1_700_000_001.250_001));
    }
}
