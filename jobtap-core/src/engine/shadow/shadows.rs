//! The part of the engine that owns the shadows, and what each keeps for itself.

use std::rc::Rc;

use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use super::budget::Budget;
use super::later::Later;
use super::record::Record;
use crate::host::{LoadedPlugin, PluginKey, Stack};
use crate::job::{JobId, Timestamp};
use crate::topic::TopicId;

/// The shadows, in the order in which they were loaded.
#[derive(Debug, Default)]
pub(crate) struct Shadows {
    all: Vec<Shadow>,
    /// The configuration that was given to live plugins which a promoted shadow has replaced, by name.
    replaced: FxHashMap<String, Option<Value>>,
}

impl Shadows {
    /// Whether there is any shadow. This is all that the engine asks for in a manager without one.
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

    /// Forgets what a plugin replaced that was removed or reloaded since its promotion.
    pub(crate) fn forget_replaced(&mut self, name: &str) {
        self.replaced.remove(name);
    }

    pub(super) fn replaced(&self, name: &str) -> Option<&Option<Value>> {
        self.replaced.get(name)
    }

    pub(super) fn note_replaced(&mut self, name: &str, conf: Option<Value>) {
        self.replaced.insert(name.to_owned(), conf);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Shadow> {
        self.all.iter()
    }

    pub(super) fn get(&self, key: PluginKey) -> Option<&Shadow> {
        self.all.iter().find(|shadow| shadow.key() == key)
    }

    pub(super) fn get_mut(&mut self, key: PluginKey) -> Option<&mut Shadow> {
        self.all.iter_mut().find(|shadow| shadow.key() == key)
    }

    pub(super) fn find(&self, name: &str) -> Option<&Shadow> {
        self.all.iter().find(|shadow| **shadow.plugin.name() == *name)
    }

    pub(super) fn push(&mut self, shadow: Shadow) {
        self.all.push(shadow);
    }

    pub(super) fn remove(&mut self, key: PluginKey) -> Option<Shadow> {
        let index = self.all.iter().position(|shadow| shadow.key() == key)?;
        Some(self.all.remove(index))
    }
}

/// One shadow.
#[derive(Debug)]
pub(super) struct Shadow {
    pub(super) plugin: Rc<LoadedPlugin>,
    /// The plugin alone.
    pub(super) stack: Stack,
    pub(super) loaded_at: Timestamp,
    /// The newest job when it was loaded: its data on that one and the jobs before may be a live plugin's.
    pub(super) newest_at_load: Option<JobId>,
    /// What it has on jobs. A job without an entry has nothing.
    pub(super) jobs: FxHashMap<JobId, OnJob>,
    pub(super) instance_data: Option<Value>,
    pub(super) record: Record,
    pub(super) later: Later,
    pub(super) budget: Budget,
    /// The times of its panics within the last period.
    pub(super) panics: Vec<Timestamp>,
    /// Why it is not called any more.
    pub(super) stopped: Option<String>,
    /// It is being asked for all priorities.
    pub(super) is_asked: bool,
}

/// What a shadow has on one job.
#[derive(Debug, Default)]
pub(super) struct OnJob {
    /// Its data; `None` when it has none.
    pub(super) data: Option<Value>,
    /// The dependencies that it has added, and whether each is still open.
    pub(super) dependencies: Vec<(Box<str>, bool)>,
    /// Its changes of the jobspec.
    pub(super) updates: Map<String, Value>,
    /// It receives the job's events.
    pub(super) subscribed: bool,
    /// It has refused the submission. Live, it would not see the job again, so that it doesn't here.
    pub(super) refused: bool,
    /// A difference was recorded.
    pub(super) differs: bool,
}

impl Shadow {
    pub(super) fn key(&self) -> PluginKey {
        self.plugin.key()
    }

    /// Whether it has refused the job's submission.
    pub(super) fn has_refused(&self, id: JobId) -> bool {
        self.jobs.get(&id).is_some_and(|job| job.refused)
    }

    /// What it has on a job, to change it.
    pub(super) fn on_job(&mut self, id: JobId) -> &mut OnJob {
        self.jobs.entry(id).or_default()
    }
}
