//! The annotations of a job.
//!
//! Most jobs get theirs from the scheduler, once, and the events of that moment show the same ones. So a job shares those
//! of the event, and gets a copy when they change.

use std::fmt;
use std::ops::{Deref, DerefMut};

use serde_json::{Map, Value};

use super::unread::{Blank, Unread};
use crate::eventlog::Context;

/// The member of an event's context that has the annotations of its job.
const MEMBER: &str = "annotations";

/// An object, which may be shared with an event.
#[derive(Clone, Default)]
pub(crate) struct Annotations {
    /// Blank while they are shared.
    own: Unread<Map<String, Value>>,
    /// Boxed, since a context is as long as two pointers.
    shared: Option<Box<Context>>,
}

impl Annotations {
    /// Those that `read` makes of `text` on first use.
    pub(crate) fn unread(text: &str, read: fn(&str) -> Map<String, Value>) -> Self {
        Self { own: Unread::new(text, read), shared: None }
    }

    /// The context of an event that shows them; as null if there are none.
    pub(crate) fn show(&mut self) -> Context {
        if let Some(context) = &self.shared {
            return Context::clone(context);
        }
        if self.is_empty() {
            return Context::from([(MEMBER, Value::Null)]);
        }
        let all = std::mem::take(&mut *self.own);
        let context = Context::from([(MEMBER, Value::Object(all))]);
        *self = Self { own: Unread::default(), shared: Some(Box::new(context.clone())) };
        context
    }

    /// Whether they are shared with an event of this context.
    pub(crate) fn are_of(&self, context: &Context) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.is_same(context))
    }
}

impl From<Map<String, Value>> for Annotations {
    fn from(all: Map<String, Value>) -> Self {
        let mut annotations = Self::default();
        if !all.is_empty() {
            *annotations.own = all;
        }
        annotations
    }
}

impl Deref for Annotations {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Map<String, Value> {
        match &self.shared {
            Some(context) => context[MEMBER].as_object().unwrap_or(Map::blank()),
            None => &self.own,
        }
    }
}

impl DerefMut for Annotations {
    fn deref_mut(&mut self) -> &mut Map<String, Value> {
        if self.shared.is_some() {
            *self = Map::clone(self).into();
        }
        &mut self.own
    }
}

impl fmt::Debug for Annotations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn annotations(all: &Value) -> Annotations {
        all.as_object().unwrap().clone().into()
    }

    #[test]
    fn an_event_shows_what_the_job_has_and_later_changes_are_the_jobs_alone() {
        let all = json!({"sched": {"reason": "x"}});
        let mut job = annotations(&all);
        let context = job.show();
        assert!(job.are_of(&context) && job.are_of(&job.clone().show()));
        assert_eq!((&context["annotations"], Value::Object(Map::clone(&job))), (&all, all.clone()));
        job.insert("user".to_owned(), 1.into());
        assert!(!job.are_of(&context));
        assert_eq!(context["annotations"], all);
        assert_eq!(Value::Object(Map::clone(&job)), json!({"sched": {"reason": "x"}, "user": 1}));
        assert_eq!(job.show()["annotations"], json!({"sched": {"reason": "x"}, "user": 1}));
    }

    #[test]
    fn an_event_of_no_annotations_shows_null() {
        let mut job = annotations(&json!({}));
        let context = job.show();
        assert_eq!(context["annotations"], Value::Null);
        assert!(job.is_empty() && !job.are_of(&context));
        // After all of them were removed.
        let mut job = annotations(&json!({"a": 1}));
        job.show();
        job.clear();
        assert_eq!(job.show()["annotations"], Value::Null);
    }

    #[test]
    fn another_event_with_the_same_annotations_is_another_one() {
        let mut job = annotations(&json!({"a": 1}));
        let other = annotations(&json!({"a": 1})).show();
        assert!(!job.are_of(&other));
        assert!(job.show() == other && !job.are_of(&other));
    }
}
