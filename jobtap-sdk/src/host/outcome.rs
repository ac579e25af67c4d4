//! The outcome of a callback, as its host reads it.

use std::any::Any;

use serde_json::{Map, Value};

use super::values::allocation::Plan;
use super::values::update::UpdateDecision;
use crate::job::{PRIORITY_MAX, PRIORITY_MIN};
use crate::resource::ResourceSet;

/// The priority of a job, as handlers of `job.state.priority` and `job.priority.get` return it.
///
/// All plugins are called in stack order, and the last one that returns anything other than
/// [`Unchanged`](Self::Unchanged) decides. Urgency 0 (hold) and 31 (expedite) override every plugin.
///
/// ```
/// use jobtap_core::plugin::Priority;
///
/// assert_eq!(Priority::clamped(-5.0), Priority::HELD);
/// assert_eq!(Priority::clamped(1e12), Priority::new(u32::MAX));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Priority {
    /// A priority: 0 holds the job, 4294967295 puts it before all others.
    Set(u32),
    /// Not known yet: the job stays in PRIORITY until
    /// [`Cx::reprioritize`](crate::plugin::Cx::reprioritize) sets it.
    Unavailable,
    /// No decision: it is left to the other plugins.
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

    /// The priority of this value, a `u32`. For a number that may be out of that range, such as the result of a
    /// subtraction, use [`clamped`](Self::clamped).
    pub fn new(value: impl IsPriorityValue) -> Self {
        Priority::Set(value.value())
    }

    /// The priority nearest to a computed score, which may be any number: a negative score and NaN are 0, a
    /// score above the maximum is the maximum, and fractions are cut off.
    ///
    /// ```
    /// use jobtap_core::plugin::Priority;
    ///
    /// let nice: i64 = 1200;
    /// assert_eq!(Priority::clamped(1000 - nice), Priority::HELD);
    /// assert_eq!(Priority::clamped(1.5e3), Priority::new(1500));
    /// ```
    pub fn clamped(score: impl IsScore) -> Self {
        // `as` saturates and maps NaN to 0, which is the rule here.
        Priority::Set(score.score().clamp(f64::from(PRIORITY_MIN), f64::from(PRIORITY_MAX)) as u32)
    }
}

/// The value of a priority: a `u32`.
#[diagnostic::on_unimplemented(
    message = "a priority is a `u32`, and this is `{Self}`",
    label = "not a `u32`",
    note = "`Priority::clamped(..)` takes any number: a negative one is 0, which holds the job; `u32::from(..)` makes a `u32` of a smaller unsigned number"
)]
pub trait IsPriorityValue {
    /// The value.
    fn value(self) -> u32;
}

impl IsPriorityValue for u32 {
    fn value(self) -> u32 {
        self
    }
}

/// A number from which a priority is computed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a number",
    label = "not a number",
    note = "a score is an integer or a floating-point number; of a duration it is `.as_secs()`"
)]
pub trait IsScore {
    /// The number.
    fn score(self) -> f64;
}

macro_rules! scores {
    ($($number:ident)*) => { $(
        impl IsScore for $number {
            fn score(self) -> f64 {
                self as f64
            }
        }
    )* };
}
scores!(f64 f32 i8 i16 i32 i64 isize u8 u16 u32 u64 usize);

impl From<u32> for Priority {
    fn from(value: u32) -> Self {
        Priority::Set(value)
    }
}

/// What one callback decided, or all callbacks of a dispatch.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The priority, at topics that ask for one.
    pub priority: Priority,
    // Boxed, since nearly every callback decides about a priority or nothing, and outcomes are returned
    // by value on the fastest path.
    more: Option<Box<Decisions>>,
}

/// Decisions other than priorities.
#[derive(Debug, Default)]
pub struct Decisions {
    /// Annotations to merge.
    pub annotations: Option<Map<String, Value>>,
    /// Resources for a job that the scheduler doesn't serve (`alloc-bypass`).
    pub resources: Option<ResourceSet>,
    /// The decision about a user's update of a jobspec.
    pub update: Option<UpdateDecision>,
    /// Which allocations are asked for and given back.
    pub plan: Option<Plan>,
    /// What the plugin reports for a query.
    pub query: Option<Map<String, Value>>,
    /// The response of a service.
    pub reply: Option<Value>,
    /// The answer at an author's own topic.
    pub answer: Option<Box<dyn Any>>,
    /// An asynchronous handler decides later, by [`Command::Verdict`](super::Command::Verdict).
    pub deferred: bool,
}

impl Outcome {
    pub(crate) fn with(change: impl FnOnce(&mut Decisions)) -> Self {
        let mut more = Box::<Decisions>::default();
        change(&mut more);
        Self { priority: Priority::Unchanged, more: Some(more) }
    }

    /// An outcome with a priority only.
    pub fn priority(priority: Priority) -> Self {
        Self { priority, more: None }
    }

    /// The outcome of an asynchronous handler that decides later.
    pub fn deferred() -> Self {
        Self::with(|more| more.deferred = true)
    }

    /// The outcome of a service.
    pub fn reply(value: Value) -> Self {
        Self::with(|more| more.reply = Some(value))
    }

    /// The outcome at an author's own topic; called by the code that `#[topic]` generates.
    #[doc(hidden)]
    pub fn answer<A: 'static>(answer: A) -> Self {
        Self::with(|more| more.answer = Some(Box::new(answer)))
    }

    /// The decisions other than the priority.
    pub fn decisions(self) -> Decisions {
        self.more.map_or_else(Decisions::default, |more| *more)
    }

    /// The decisions other than the priority, if there are any.
    pub fn peek(&self) -> Option<&Decisions> {
        self.more.as_deref()
    }

    /// Whether nothing was decided.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.priority == Priority::Unchanged && self.more.is_none()
    }

    /// Whether there are other decisions than a priority, or the priority is unavailable.
    #[doc(hidden)]
    #[inline]
    pub fn has_more_than_priority(&self) -> bool {
        self.priority == Priority::Unavailable || self.more.is_some()
    }

    /// Whether an asynchronous handler decides later.
    #[inline]
    pub fn is_deferred(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.deferred)
    }

    /// Adds the outcome of a later plugin of the stack, whose decisions take precedence.
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
            let mine = self.annotations.get_or_insert_default();
            merge_notes(mine, notes);
        }
        if let Some(update) = later.update {
            self.update.get_or_insert_default().merge(update);
        }
        // Here the first plugin decides: the later ones are called for a job that has resources.
        self.resources = self.resources.take().or(later.resources);
        self.plan = later.plan.or(self.plan.take());
        self.query = later.query.or(self.query.take());
        self.reply = later.reply.or(self.reply.take());
        self.answer = later.answer.or(self.answer.take());
        self.deferred |= later.deferred;
    }
}

/// Merges annotations. A `null` stays in the result, since it removes a key from the job.
fn merge_notes(mine: &mut Map<String, Value>, later: Map<String, Value>) {
    for (key, note) in later {
        match (mine.get_mut(&key), note) {
            // Objects merge key by key, so that two plugins can annotate one of them.
            (Some(Value::Object(inner)), Value::Object(more)) => merge_notes(inner, more),
            (_, note) => {
                mine.insert(key, note);
            }
        }
    }
}
