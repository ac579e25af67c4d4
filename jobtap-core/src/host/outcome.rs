//! What a callback decided, as its host reads it.

use std::any::Any;

use serde_json::{Map, Value};

use super::update::UpdateDecision;
use crate::job::{PRIORITY_MAX, PRIORITY_MIN};
use crate::resource::ResourceSet;

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
    /// [`Cx::reprioritize`](crate::plugin::Cx::reprioritize).
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
    pub annotations: Option<Map<String, Value>>,
    /// Resources for the job, past the scheduler.
    pub resources: Option<ResourceSet>,
    /// What is said to a user's update.
    pub update: Option<UpdateDecision>,
    /// Data for a query.
    pub query: Option<Map<String, Value>>,
    /// The answer of a service.
    pub reply: Option<Value>,
    /// The answer to an own topic.
    pub answer: Option<Box<dyn Any>>,
    /// An asynchronous handler will answer later, by [`Command::Verdict`](super::Command::Verdict).
    pub deferred: bool,
}

impl Outcome {
    pub(crate) fn with(change: impl FnOnce(&mut Decisions)) -> Self {
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
            let mine = self.annotations.get_or_insert_default();
            merge_notes(mine, notes);
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
