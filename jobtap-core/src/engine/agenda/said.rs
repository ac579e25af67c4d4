//! What the plugins of one dispatch have said of its job that a user wants to know while the job waits.

use serde_json::{Map, Value};

use crate::host::{Outcome, PluginKey, Priority};

/// What the plugins of one dispatch have said.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// The last plugin that has left the priority open.
    pub(crate) withheld_by: Option<PluginKey>,
    /// Who has set an annotation, by its key.
    pub(crate) annotated: Vec<(Box<str>, PluginKey)>,
}

impl Said {
    /// Notes what a handler has returned.
    pub(crate) fn note(&mut self, plugin: PluginKey, outcome: &Outcome) {
        if outcome.priority == Priority::Unavailable {
            self.withheld_by = Some(plugin);
        }
        if let Some(notes) = outcome.peek().and_then(|more| more.annotations.as_ref()) {
            self.note_annotations(plugin, notes);
        }
    }

    /// Notes who has set these annotations.
    pub(crate) fn note_annotations(&mut self, plugin: PluginKey, notes: &Map<String, Value>) {
        for key in notes.keys() {
            self.annotated.retain(|(known, _)| **known != **key);
            self.annotated.push((key.as_str().into(), plugin));
        }
    }
}
