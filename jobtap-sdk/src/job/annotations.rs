//! The annotations of a job.
//!
//! Most jobs get their annotations once, from the scheduler, and the events `annotations` and `alloc` that are posted
//! then show the same ones. So a job and these events share one object, and the job copies it when its annotations
//! change.

use std::fmt;
use std::ops::{Deref, DerefMut};

use serde_json::{Map, Value};

use super::unread::{Blank, Unread};
use crate::eventlog::Context;

/// The key of the annotations in an event's context.
const MEMBER: &str = "annotations";

/// The annotations of one job, possibly shared with an event. Boxed, since most pending jobs have none and then need
/// only a pointer.
#[derive(Clone, Default)]
pub struct Annotations(Option<Box<Kept>>);

#[derive(Clone, Default)]
struct Kept {
    /// The job's own annotations; blank while it shares those of an event.
    own: Unread<Map<String, Value>>,
    shared: Option<Context>,
}

/// Returns the annotations in an event's context.
fn shown(context: &Context) -> &Map<String, Value> {
    context[MEMBER].as_object().unwrap_or(Map::blank())
}

impl Annotations {
    /// Annotations that `read` parses from `text` on first use.
    pub fn unread(text: &str, read: fn(&str) -> Map<String, Value>) -> Self {
        let own = Unread::new(text, read);
        Self(Some(Box::new(Kept { own, shared: None })))
    }

    /// Returns the context of an event that shows the annotations, and shares them with it. If there are none, it
    /// shows null.
    pub fn show(&mut self) -> Context {
        let Some(kept) = self.0.as_mut().filter(|kept| !kept.all().is_empty()) else {
            return Context::from([(MEMBER, Value::Null)]);
        };
        let own = &mut kept.own;
        let context = kept.shared.get_or_insert_with(|| {
            let all = std::mem::take(&mut **own);
            *own = Unread::default();
            Context::from([(MEMBER, Value::Object(all))])
        });
        context.clone()
    }

    /// Whether the job shares its annotations with the event that has this context.
    pub fn is_shared_with(&self, context: &Context) -> bool {
        let shared = self.0.as_ref().and_then(|kept| kept.shared.as_ref());
        shared.is_some_and(|shared| shared.is_same(context))
    }
}

impl Kept {
    fn all(&self) -> &Map<String, Value> {
        self.shared.as_ref().map_or(&*self.own, shown)
    }
}

impl From<Map<String, Value>> for Annotations {
    fn from(all: Map<String, Value>) -> Self {
        let mut annotations = Self::default();
        if !all.is_empty() {
            *annotations = all;
        }
        annotations
    }
}

impl Deref for Annotations {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Map<String, Value> {
        self.0.as_ref().map_or(Map::blank(), |kept| kept.all())
    }
}

impl DerefMut for Annotations {
    fn deref_mut(&mut self) -> &mut Map<String, Value> {
        let kept = self.0.get_or_insert_default();
        if let Some(context) = kept.shared.take() {
            *kept.own = shown(&context).clone();
        }
        &mut kept.own
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
        assert!(job.is_shared_with(&context) && job.is_shared_with(&job.clone().show()));
        assert_eq!((&context["annotations"], Value::Object(Map::clone(&job))), (&all, all.clone()));
        job.insert("user".to_owned(), 1.into());
        assert!(!job.is_shared_with(&context));
        assert_eq!(context["annotations"], all);
        assert_eq!(Value::Object(Map::clone(&job)), json!({"sched": {"reason": "x"}, "user": 1}));
        assert_eq!(job.show()["annotations"], json!({"sched": {"reason": "x"}, "user": 1}));
    }

    #[test]
    fn an_event_of_no_annotations_shows_null() {
        let mut job = annotations(&json!({}));
        let context = job.show();
        assert_eq!(context["annotations"], Value::Null);
        assert!(job.is_empty() && !job.is_shared_with(&context));
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
        assert!(!job.is_shared_with(&other));
        assert!(job.show() == other && !job.is_shared_with(&other));
    }
}
