//! When a job entered its states, in a form small enough for a hundred thousand pending jobs.

use std::fmt;

use super::{State, Timestamp};

/// The times at which a job entered its states, and at which its tasks started.
#[doc(hidden)]
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Times {
    pub depend: Moment,
    pub priority: Moment,
    pub sched: Moment,
    /// Boxed, since a pending job has none of them.
    later: Option<Box<Later>>,
}

/// The times that only running and inactive jobs have.
#[derive(Debug, Clone, Default, PartialEq)]
struct Later {
    run: Moment,
    start: Moment,
    cleanup: Moment,
    inactive: Moment,
}

impl Times {
    /// Notes that the job has entered a state.
    pub fn enter(&mut self, state: State, at: Timestamp) {
        match state {
            State::New => {}
            State::Depend => self.depend = at.into(),
            // A job can enter these two states many times; Flux reports the first time.
            State::Priority => self.priority.set_once(at),
            State::Sched => self.sched.set_once(at),
            State::Run => self.later_mut().run = at.into(),
            State::Cleanup => self.later_mut().cleanup = at.into(),
            State::Inactive => self.later_mut().inactive = at.into(),
        }
    }

    /// Notes that the tasks have started.
    pub fn note_start(&mut self, at: Timestamp) {
        self.later_mut().start = at.into();
    }

    /// When the job entered RUN.
    pub fn run(&self) -> Option<Timestamp> {
        self.later.as_ref()?.run.get()
    }

    /// When the tasks were started. Prologs can delay this after the job has entered RUN.
    pub fn start(&self) -> Option<Timestamp> {
        self.later.as_ref()?.start.get()
    }

    /// When the job entered CLEANUP.
    pub fn cleanup(&self) -> Option<Timestamp> {
        self.later.as_ref()?.cleanup.get()
    }

    /// When the job became inactive.
    pub fn inactive(&self) -> Option<Timestamp> {
        self.later.as_ref()?.inactive.get()
    }

    fn later_mut(&mut self) -> &mut Later {
        self.later.get_or_insert_default()
    }

    /// The times in seconds, from DEPEND to INACTIVE; the start of the tasks comes after RUN.
    pub fn to_seconds(&self) -> [Option<f64>; 7] {
        let none = Later::default();
        let Later { run, start, cleanup, inactive } = self.later.as_deref().unwrap_or(&none);
        [&self.depend, &self.priority, &self.sched, run, start, cleanup, inactive]
            .map(|moment| moment.get().map(Timestamp::as_secs))
    }

    /// The inverse of [`to_seconds`](Self::to_seconds).
    pub fn from_seconds(times: [Option<f64>; 7]) -> Self {
        let [depend, priority, sched, run, start, cleanup, inactive] =
            times.map(|time| time.map(|at| Timestamp::from_secs(at).into()).unwrap_or_default());
        let later = Later { run, start, cleanup, inactive };
        let later = (later != Later::default()).then(|| Box::new(later));
        Self { depend, priority, sched, later }
    }
}

/// A time that may not be known yet, in half the size of an `Option<Timestamp>`.
#[derive(Clone, Copy, PartialEq)]
pub struct Moment(Timestamp);

impl Moment {
    const UNKNOWN: Self = Self(Timestamp::from_secs(f64::NEG_INFINITY));

    /// The time, if it is known.
    pub fn get(self) -> Option<Timestamp> {
        (self != Self::UNKNOWN).then_some(self.0)
    }

    /// Sets the time unless it is known already.
    fn set_once(&mut self, at: Timestamp) {
        if *self == Self::UNKNOWN {
            *self = at.into();
        }
    }
}

impl Default for Moment {
    fn default() -> Self {
        Self::UNKNOWN
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
