//! What handlers return, and how it becomes the outcome that a host reads.

use std::any::Any;

use serde_json::{Map, Value};

use super::asyncs::{EpilogFailed, PrologFailed};
use super::failure::{ConfError, Failure, HandlerError, Reject};
use super::given::IsJson;
use super::query::QueryData;
use super::update::Update;
use crate::job::{PRIORITY_MAX, PRIORITY_MIN};
use crate::resource::ResourceSet;
use crate::topic::{
    PluginQuery, ReturnsAnnotations, ReturnsConf, ReturnsEnd, ReturnsFault, ReturnsPriority,
    ReturnsQuery, ReturnsResources, ReturnsUnit, ReturnsUpdate, ReturnsVerdict, TopicSet,
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
///
/// ```
/// # use jobtap_core::prelude::*;
/// # #[derive(Default)]
/// # struct Estimate;
/// #[jobtap_plugin(name = "estimate")]
/// impl Estimate {
///     #[on("job.state.sched")]
///     fn sched(&self, job: &Job) -> Annotations {
///         let hours = job.jobspec().duration() / 3600.0;
///         Annotations::new().with("estimate", serde_json::json!({"hours": hours}))
///     }
///
///     #[on("job.state.run")]
///     fn run(&self) -> Annotations {
///         Annotations::new().with("estimate", serde_json::Value::Null) // Takes it away.
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Annotations(Map<String, Value>);

impl Annotations {
    /// No notes yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more note.
    pub fn with(mut self, key: impl Into<String>, value: impl IsJson) -> Self {
        self.0.insert(key.into(), value.into_json());
        self
    }

    /// The notes.
    pub fn into_map(self) -> Map<String, Value> {
        self.0
    }
}

/// What one callback decided, or a whole stack of them.
///
/// Nearly every callback decides a priority or nothing, so the rest is apart.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The priority, where the topic asks for one.
    pub priority: Priority,
    more: Option<Box<Decisions>>,
}

/// What handlers decide beside priorities.
#[derive(Debug, Default)]
pub struct Decisions {
    /// Annotations to merge.
    pub annotations: Option<Annotations>,
    /// Resources for the job, past the scheduler.
    pub resources: Option<ResourceSet>,
    /// What is said to a user's update.
    pub update: Option<Update>,
    /// Data for a query.
    pub query: Option<QueryData>,
    /// The answer of a service.
    pub reply: Option<Value>,
    /// The answer to an own topic.
    pub answer: Option<Box<dyn Any>>,
    /// An asynchronous handler will answer later, by [`Command::Verdict`](super::Command::Verdict).
    pub deferred: bool,
}

impl Outcome {
    fn with(change: impl FnOnce(&mut Decisions)) -> Self {
        let mut more = Box::<Decisions>::default();
        change(&mut more);
        Self { priority: Priority::Unchanged, more: Some(more) }
    }

    /// Only this priority.
    pub fn priority(priority: Priority) -> Self {
        Self { priority, more: None }
    }

    /// The answer comes later.
    pub fn deferred() -> Self {
        Self::with(|more| more.deferred = true)
    }

    /// The answer of a service.
    pub fn reply(value: Value) -> Self {
        Self::with(|more| more.reply = Some(value))
    }

    /// The answer to an own topic; for the code that `#[topic]` makes.
    #[doc(hidden)]
    pub fn answer<A: 'static>(answer: A) -> Self {
        Self::with(|more| more.answer = Some(Box::new(answer)))
    }

    /// What was decided beside the priority.
    pub fn decisions(self) -> Decisions {
        self.more.map_or_else(Decisions::default, |more| *more)
    }

    /// Whether nothing was decided.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.priority == Priority::Unchanged && self.more.is_none()
    }

    /// Whether an asynchronous handler will answer later.
    #[inline]
    pub fn is_deferred(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.deferred)
    }

    /// Adds what a later plugin of the stack decided: its word counts where it said one.
    #[inline]
    pub fn merge(&mut self, later: Outcome) {
        if later.priority != Priority::Unchanged {
            self.priority = later.priority;
        }
        if let Some(later) = later.more {
            self.more.get_or_insert_default().merge(*later);
        }
    }
}

impl Decisions {
    fn merge(&mut self, later: Decisions) {
        if let Some(notes) = later.annotations {
            let mine = self.annotations.get_or_insert_with(Annotations::new);
            merge_notes(&mut mine.0, notes.0);
        }
        if let Some(update) = later.update {
            self.update.get_or_insert_default().merge(update);
        }
        // The first resources count: a later plugin sees a job that has them.
        self.resources = self.resources.take().or(later.resources);
        self.query = later.query.or(self.query.take());
        self.reply = later.reply.or(self.reply.take());
        self.answer = later.answer.or(self.answer.take());
        self.deferred |= later.deferred;
    }
}

/// Adds notes to notes. A `null` is kept, since it removes what the job has.
fn merge_notes(mine: &mut Map<String, Value>, later: Map<String, Value>) {
    for (key, note) in later {
        match (mine.get_mut(&key), note) {
            (Some(Value::Object(inner)), Value::Object(more)) => merge_notes(inner, more),
            (_, note) => {
                mine.insert(key, note);
            }
        }
    }
}

/// Types that a handler of topic `T` may return.
#[diagnostic::on_unimplemented(
    message = "a handler of `{T}` can't return `{Self}`",
    label = "not a return type of this topic",
    note = "return `()`, `Priority` where a priority is asked, `Annotations`, `Update` from `job.update.KEY`, `QueryData` from `plugin.query`, the `answer` of a topic of your own, or a `Result` of one of them: with `Reject` in gates (`job.validate`, `job.dependency.SCHEME`), `ConfError` in `conf.update`, `HandlerError` elsewhere"
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
    #[inline]
    fn into_outcome(self) -> Result<Outcome, Failure> {
        Ok(Outcome::priority(self))
    }
}

impl<T: ReturnsAnnotations> IntoOutcome<T> for Annotations {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        Ok(Outcome::with(|more| more.annotations = Some(self)))
    }
}

impl<T: ReturnsPriority + ReturnsAnnotations> IntoOutcome<T> for (Priority, Annotations) {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        let outcome = Outcome::with(|more| more.annotations = Some(self.1));
        Ok(Outcome { priority: self.0, ..outcome })
    }
}

impl<T: ReturnsResources> IntoOutcome<T> for ResourceSet {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        Ok(Outcome::with(|more| more.resources = Some(self)))
    }
}

impl<T: ReturnsUpdate> IntoOutcome<T> for Update {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        Ok(Outcome::with(|more| more.update = Some(self)))
    }
}

impl<T: ReturnsQuery> IntoOutcome<T> for QueryData {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        Ok(Outcome::with(|more| more.query = Some(self)))
    }
}

/// Nothing is decided by `None`.
impl<T: TopicSet, O: IntoOutcome<T>> IntoOutcome<T> for Option<O> {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        self.map_or_else(|| Ok(Outcome::default()), O::into_outcome)
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
    note = "use `Reject` in gates (`job.validate`, `job.dependency.SCHEME`, `job.update.KEY`), `ConfError` in `conf.update`, `HandlerError` elsewhere; `?` converts any other error into them"
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

/// For their compile error: nothing is held for a handler that is not `async`.
impl<T: ReturnsEnd> IntoFailure<T> for PrologFailed {
    fn into_failure(self) -> Failure {
        Failure::Error(self.text().to_owned())
    }
}

/// As for [`PrologFailed`].
impl<T: ReturnsEnd> IntoFailure<T> for EpilogFailed {
    fn into_failure(self) -> Failure {
        Failure::Error(self.text().to_owned())
    }
}

impl IntoFailure<PluginQuery> for HandlerError {
    fn into_failure(self) -> Failure {
        Failure::Error(self.text().to_owned())
    }
}
