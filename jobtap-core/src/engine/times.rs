//! When a job entered its states, small enough for a hundred thousand jobs that wait.

use std::fmt;

use crate::job::Timestamp;

/// When the job entered its states.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Times {
    pub(super) depend: Moment,
    pub(super) priority: Moment,
    pub(super) sched: Moment,
    pub(super) run: Moment,
    /// When its tasks were started, which a prolog can delay.
    pub(super) start: Moment,
    pub(super) cleanup: Moment,
    pub(super) inactive: Moment,
}

/// A time that may not have come yet, in half the size of an `Option`.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Moment(Timestamp);

impl Moment {
    const NEVER: Self = Self(Timestamp::from_secs(f64::NEG_INFINITY));

    /// The time, when it has come.
    pub(super) fn get(self) -> Option<Timestamp> {
        (self != Self::NEVER).then_some(self.0)
    }

    /// Sets it, unless it has come.
    pub(super) fn first(&mut self, at: Timestamp) {
        if *self == Self::NEVER {
            *self = at.into();
        }
    }
}

impl Default for Moment {
    fn default() -> Self {
        Self::NEVER
    }
}

impl From<Timestamp> for Moment {
    fn from(at: Timestamp) -> Self {
        Self(at)
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
