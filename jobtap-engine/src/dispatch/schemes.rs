//! The dependency schemes that plugins support.

use crate::host::{Load, PluginDescriptor};
use crate::plugins::Plugins;
use crate::suggest;
use crate::topic::TopicId;

/// The refusal of a dependency whose scheme no plugin handles: Flux's text, with the scheme that was probably
/// meant, or the plugin to load.
pub(crate) fn unsupported(plugins: &Plugins, scheme: &str) -> String {
    let text = format!("dependency scheme \"{scheme}\" not supported");
    let schemes = |plugin: &PluginDescriptor| {
        let entries = plugin.handlers.iter();
        entries.filter(|entry| entry.id == TopicId::JobDependency).map(|entry| entry.key)
    };
    // Not those that are loaded by default: an administrator has removed such a plugin on purpose.
    let waits = |plugin: &&PluginDescriptor| matches!(plugin.load, Load::ByName | Load::Configured);
    let mut waiting = plugins.registry.plugins().filter(waits);
    if let Some(plugin) = waiting.find(|plugin| schemes(plugin).any(|known| known == scheme)) {
        return format!("{text}: plugin {}, which supports it, is not loaded", plugin.name);
    }
    let loaded = plugins.stack.plugins().iter().flat_map(|plugin| schemes(plugin.descriptor()));
    match suggest::nearest(scheme, loaded.filter(|known| *known != "*")) {
        Some(meant) => format!("{text}; did you mean \"{meant}\"?"),
        None => text,
    }
}
