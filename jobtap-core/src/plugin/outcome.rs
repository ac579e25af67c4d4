//! What handlers return, and how it becomes the outcome that a host reads.

use serde_json::{Map, Value};

use super::failure::{ConfError, Failure, HandlerError, Reject};
use crate::job::{PRIORITY_MAX, PRIORITY_MIN};
use crate::topic::{
    ReturnsAnnotations, ReturnsConf, ReturnsFault, ReturnsPriority, ReturnsUnit, ReturnsVerdict,
    TopicSet,
};

/// A job's priority as a handler decides it.
///
/// All plugins of the stack are asked in load order and the last one that decides wins. Urgency 0
/// (hold) and 31 (expedite) override every plugin.
///
/// ```
/// use jobtap_core::plugin::Priority;
///
/// assert_eq!(Priority::clamped(-5.0), Priority::HELD);
/// assert_eq!(Priority::clamped(1e12), Priority::new(u32::MAX));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Priority {
    /// This priority: 0 holds the job, 4294967295 puts it before all others.
    Set(u32),
    /// Not known yet: the job waits in PRIORITY until
    /// [`Cx::reprioritize`](super::Cx::reprioritize).
    Unavailable,
    /// Leave it to the other plugins.
    #[default]
    Unchanged,
}

impl Priority {
    /// Priority 0: the job is held.
    pub const HELD: Priority = Priority::Set(PRIORITY_MIN);
    /// See [`Priority::Unavailable`].
    pub const UNAVAILABLE: Priority = Priority::Unavailable;
    /// See [`Priority::Unchanged`].
    pub const UNCHANGED: Priority = Priority::Unchanged;

    /// This priority.
    pub const fn new(value: u32) -> Self {
        Priority::Set(value)
    }

    /// The nearest priority to a computed score: below 0 (and NaN) is 0, above the maximum is the
    /// maximum, fractions are cut.
    pub fn clamped(score: f64) -> Self {
        // `as` saturates and maps NaN to 0, which is the rule here.
        Priority::Set(score.clamp(f64::from(PRIORITY_MIN), f64::from(PRIORITY_MAX)) as u32)
    }
}

impl From<u32> for Priority {
    fn from(value: u32) -> Self {
        Priority::Set(value)
    }
}

/// Notes on a job for users to see; merged into those it has. `null` removes a key.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Annotations(Map<String, Value>);

impl Annotations {
    /// No notes yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more note.
    pub fn with(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.0.insert(key.into(), value.into());
        self
    }

    /// The notes.
    pub fn into_map(self) -> Map<String, Value> {
        self.0
    }
}

/// What one callback decided, or a whole stack of them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// The priority, where the topic asks for one.
    pub priority: Priority,
    /// Annotations to merge.
    pub annotations: Option<Annotations>,
    /// An asynchronous handler will answer later, by [`Command::Verdict`](super::Command::Verdict).
    pub deferred: bool,
}

impl Outcome {
    /// Adds what a later plugin of the stack decided: its word counts where it said one.
    pub fn merge(&mut self, later: Outcome) {
        if later.priority != Priority::Unchanged {
            self.priority = later.priority;
        }
        if let Some(notes) = later.annotations {
            let mine = self.annotations.get_or_insert_with(Annotations::new);
            mine.0.extend(notes.0);
        }
        self.deferred |= later.deferred;
    }
}

/// Types that a handler of topic `T` may return.
#[diagnostic::on_unimplemented(
    message = "a handler of `{T}` can't return `{Self}`",
    label = "not a return type of this topic",
    note = "return `()`, `Priority` where a priority is asked, `Annotations`, or a `Result` of one of them: with `Reject` in gates (`job.validate`, `job.dependency.SCHEME`), `ConfError` in `conf.update`, `HandlerError` elsewhere"
)]
pub trait IntoOutcome<T: TopicSet> {
    /// Makes the outcome.
    ///
    /// # Errors
    /// Those of the handler itself.
    fn into_outcome(self) -> Result<Outcome, Failure>;
}

impl<T: ReturnsUnit> IntoOutcome<T> for () {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        Ok(Outcome::default())
    }
}

impl<T: ReturnsPriority> IntoOutcome<T> for Priority {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        Ok(Outcome {
            priority: self,
            ..Outcome::default()
        })
    }
}

impl<T: ReturnsAnnotations> IntoOutcome<T> for Annotations {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        Ok(Outcome {
            annotations: Some(self),
            ..Outcome::default()
        })
    }
}

impl<T: ReturnsPriority + ReturnsAnnotations> IntoOutcome<T> for (Priority, Annotations) {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        Ok(Outcome {
            priority: self.0,
            annotations: Some(self.1),
            ..Outcome::default()
        })
    }
}

impl<T: TopicSet, O: IntoOutcome<T>, E: IntoFailure<T>> IntoOutcome<T> for Result<O, E> {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        match self {
            Ok(value) => value.into_outcome(),
            Err(error) => Err(error.into_failure()),
        }
    }
}

/// Types that a handler of topic `T` may fail with.
#[diagnostic::on_unimplemented(
    message = "a handler of `{T}` can't fail with `{Self}`",
    label = "not an error type of this topic",
    note = "use `Reject` in gates (`job.validate`, `job.dependency.SCHEME`), `ConfError` in `conf.update`, `HandlerError` elsewhere; `?` converts any other error into them"
)]
pub trait IntoFailure<T: TopicSet> {
    /// Makes the failure.
    fn into_failure(self) -> Failure;
}

impl<T: ReturnsVerdict> IntoFailure<T> for Reject {
    fn into_failure(self) -> Failure {
        Failure::Reject(self.text().to_owned())
    }
}

impl<T: ReturnsConf> IntoFailure<T> for ConfError {
    fn into_failure(self) -> Failure {
        Failure::Reject(self.text().to_owned())
    }
}

impl<T: ReturnsFault> IntoFailure<T> for HandlerError {
    fn into_failure(self) -> Failure {
        Failure::Error(self.text().to_owned())
    }
}
