//! Which plugin has said what of a job that waits, for `job why`: that it has no priority yet, and its annotations.
//!
//! Few jobs have any of this, so it is kept beside the jobs. It is of the present run.

use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use crate::engine::agenda::Said;
use crate::host::PluginKey;
use crate::job::JobId;

/// What was said of each job.
#[derive(Debug, Default)]
pub(crate) struct AllSaid(FxHashMap<JobId, Said>);

impl AllSaid {
    /// Takes over what the plugins of a dispatch have said.
    pub(crate) fn add(&mut self, id: JobId, said: Said) {
        let known = self.0.entry(id).or_default();
        known.withheld_by = said.withheld_by.or(known.withheld_by);
        for (key, plugin) in said.annotated {
            known.annotated.retain(|(known, _)| *known != key);
            known.annotated.push((key, plugin));
        }
    }

    /// Notes which plugin has annotated a job.
    pub(crate) fn annotated(&mut self, id: JobId, plugin: PluginKey, notes: &Map<String, Value>) {
        self.0.entry(id).or_default().note_annotations(plugin, notes);
    }

    /// Forgets who has left a job's priority open, since it is asked for anew.
    pub(crate) fn ask_priority(&mut self, id: JobId) {
        if let Some(said) = self.0.get_mut(&id) {
            said.withheld_by = None;
        }
    }

    /// Forgets a job.
    pub(crate) fn remove(&mut self, id: JobId) {
        self.0.remove(&id);
    }

    /// The plugin that has left a job's priority open.
    pub(crate) fn withheld_by(&self, id: JobId) -> Option<PluginKey> {
        self.0.get(&id)?.withheld_by
    }

    /// The plugin that has set an annotation.
    pub(crate) fn annotator(&self, id: JobId, key: &str) -> Option<PluginKey> {
        let mut annotated = self.0.get(&id)?.annotated.iter();
        annotated.find(|(known, _)| **known == *key).map(|(_, plugin)| *plugin)
    }
}
