//! The part of the engine that owns the shadows, and what each keeps for itself. How they are called is in
//! `dispatch/shadow`.
//!
//! | file | what it holds |
//! |---|---|
//! | this one | the shadows, and what each has of its own |
//! | `compare` | where two answers to one call differ |
//! | `findings` | the differences so far, in bounded memory |
//! | `later` | what one side asks for outside of dispatches, until the other asks for it too |
//! | `budget` | how much time a shadow may take |
//! | `watched` | what a dispatch knows about the shadows that it concerns |

pub(super) mod budget;
pub(super) mod calls;
pub(super) mod compare;
pub(super) mod findings;
pub(super) mod later;

use std::rc::Rc;

use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use crate::host::{LoadedPlugin, PluginKey, Stack};
use crate::job::{JobId, Timestamp};
use crate::topic::TopicId;
use budget::Budget;
pub(super) use calls::ShadowCalls;
use findings::Findings;
use later::Later;

/// The shadows, in the order in which they were loaded.
#[derive(Debug, Default)]
pub(crate) struct Shadows {
    all: Vec<Shadow>,
    /// The configuration that was given to live plugins that a promoted shadow has replaced, by name.
    replaced: FxHashMap<String, Option<Value>>,
}

impl Shadows {
    /// Whether there are no shadows. In a manager without shadows, this check is all that they cost.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether a shadow handles the topic.
    #[inline]
    pub(crate) fn handle(&self, topic: TopicId) -> bool {
        self.all.iter().any(|shadow| shadow.stopped.is_none() && shadow.stack.handles(topic))
    }

    /// Whether this is the key of a shadow.
    pub(crate) fn contains(&self, key: PluginKey) -> bool {
        self.get(key).is_some()
    }

    /// Whether a shadow has this name.
    pub(crate) fn contains_name(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Forgets a job whose record is removed.
    pub(crate) fn forget(&mut self, id: JobId) {
        for shadow in &mut self.all {
            shadow.jobs.remove(&id);
            shadow.later.forget(id);
        }
    }

    /// Forgets what a promoted plugin had replaced, when the plugin is removed or reloaded.
    pub(crate) fn forget_replaced(&mut self, name: &str) {
        self.replaced.remove(name);
    }

    pub(crate) fn replaced(&self, name: &str) -> Option<&Option<Value>> {
        self.replaced.get(name)
    }

    pub(crate) fn note_replaced(&mut self, name: &str, conf: Option<Value>) {
        self.replaced.insert(name.to_owned(), conf);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Shadow> {
        self.all.iter()
    }

    pub(crate) fn get(&self, key: PluginKey) -> Option<&Shadow> {
        self.all.iter().find(|shadow| shadow.key() == key)
    }

    pub(crate) fn get_mut(&mut self, key: PluginKey) -> Option<&mut Shadow> {
        self.all.iter_mut().find(|shadow| shadow.key() == key)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Shadow> {
        self.all.iter().find(|shadow| **shadow.plugin.name() == *name)
    }

    pub(crate) fn push(&mut self, shadow: Shadow) {
        self.all.push(shadow);
    }

    pub(crate) fn remove(&mut self, key: PluginKey) -> Option<Shadow> {
        let index = self.all.iter().position(|shadow| shadow.key() == key)?;
        Some(self.all.remove(index))
    }
}

/// One shadow.
#[derive(Debug)]
pub(crate) struct Shadow {
    pub(crate) plugin: Rc<LoadedPlugin>,
    /// A stack with only this plugin.
    pub(crate) stack: Stack,
    pub(crate) loaded_at: Timestamp,
    /// The newest job when the shadow was loaded: its data about this and earlier jobs may be those of a live plugin.
    pub(crate) newest_at_load: Option<JobId>,
    /// What the shadow has about each job. A job without an entry has nothing.
    pub(crate) jobs: FxHashMap<JobId, OnJob>,
    pub(crate) instance_data: Option<Value>,
    pub(crate) findings: Findings,
    pub(crate) later: Later,
    pub(crate) budget: Budget,
    /// The times of its panics within the last period.
    pub(crate) panics: Vec<Timestamp>,
    /// Why it is no longer called.
    pub(crate) stopped: Option<String>,
    /// It is being asked for all priorities.
    pub(crate) is_asked: bool,
}

/// What a shadow has about one job.
#[derive(Debug, Default)]
pub(crate) struct OnJob {
    /// Its data; `None` when it has none.
    pub(crate) data: Option<Value>,
    /// The dependencies that it has added, and whether each is still open.
    pub(crate) dependencies: Vec<(Box<str>, bool)>,
    /// Its changes to the jobspec.
    pub(crate) updates: Map<String, Value>,
    /// It receives the job's events.
    pub(crate) subscribed: bool,
    /// It has refused the submission. A live plugin would not see the job again, so the shadow doesn't either.
    pub(crate) refused: bool,
    /// A difference was recorded.
    pub(crate) differs: bool,
}

impl Shadow {
    pub(crate) fn key(&self) -> PluginKey {
        self.plugin.key()
    }

    /// Whether it has refused the job's submission.
    pub(crate) fn has_refused(&self, id: JobId) -> bool {
        self.jobs.get(&id).is_some_and(|job| job.refused)
    }

    /// What it has about a job, to change it.
    pub(crate) fn on_job(&mut self, id: JobId) -> &mut OnJob {
        self.jobs.entry(id).or_default()
    }
}
