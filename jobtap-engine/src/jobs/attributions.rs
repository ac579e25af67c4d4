//! What plugins have said about waiting jobs, for `job why`: which one gave no priority yet, and which set an
//! annotation.
//!
//! Few jobs have any of this, so it is not part of their records. A restart loses it.

use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use crate::agenda::Attributions;
use crate::host::PluginKey;
use crate::job::JobId;

/// Who has said what about each job.
#[derive(Debug, Default)]
pub(crate) struct AllAttributions(FxHashMap<JobId, Attributions>);

impl AllAttributions {
    /// Adds what plugins have said in a dispatch.
    pub(crate) fn add(&mut self, id: JobId, new: Attributions) {
        let known = self.0.entry(id).or_default();
        known.withheld_by = new.withheld_by.or(known.withheld_by);
        for (key, plugin) in new.annotated {
            known.annotated.retain(|(known, _)| *known != key);
            known.annotated.push((key, plugin));
        }
    }

    /// Notes which plugin has annotated a job.
    pub(crate) fn annotated(&mut self, id: JobId, plugin: PluginKey, notes: &Map<String, Value>) {
        self.0.entry(id).or_default().note_annotations(plugin, notes);
    }

    /// Forgets which plugin has left a job's priority open, since plugins are asked for the priority anew.
    pub(crate) fn ask_priority(&mut self, id: JobId) {
        if let Some(known) = self.0.get_mut(&id) {
            known.withheld_by = None;
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
