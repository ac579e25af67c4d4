//! Which plugin has said what about a job in one dispatch, as far as a user wants to know it while the job waits.

use serde_json::{Map, Value};

use crate::host::{Outcome, PluginKey};
use crate::plugin::Priority;

/// Which plugin has said what in one dispatch.
#[derive(Debug, Default)]
pub(crate) struct Attributions {
    /// The last plugin that returned [`Priority::Unavailable`].
    pub(crate) withheld_by: Option<PluginKey>,
    /// The plugin that set each annotation, by key.
    pub(crate) annotated: Vec<(Box<str>, PluginKey)>,
}

impl Attributions {
    /// Notes what a handler has returned.
    pub(crate) fn note(&mut self, plugin: PluginKey, outcome: &Outcome) {
        if outcome.priority == Priority::Unavailable {
            self.withheld_by = Some(plugin);
        }
        if let Some(notes) = outcome.peek().and_then(|more| more.annotations.as_ref()) {
            self.note_annotations(plugin, notes);
        }
    }

    /// Notes that the plugin has set these annotations.
    pub(crate) fn note_annotations(&mut self, plugin: PluginKey, notes: &Map<String, Value>) {
        for key in notes.keys() {
            self.annotated.retain(|(known, _)| **known != **key);
            self.annotated.push((key.as_str().into(), plugin));
        }
    }
}
