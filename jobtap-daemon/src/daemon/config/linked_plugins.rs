//! What has to be known about the linked plugins to judge a configuration: the keys that they read, and which are
//! loaded.

use jobtap_core::host::{Load, PluginDescriptor, Registry};
use serde_json::Value;

use super::keys::{PluginState, Plugins};

/// The linked plugins, and which of them a manager with a certain configuration loads.
pub(in crate::daemon) struct LinkedPlugins {
    linked: Vec<&'static PluginDescriptor>,
    /// Whether a crate adds a scheduler, which may read any key of `policy.scheduler`.
    schedulers: bool,
    /// The plugins that are loaded by name.
    named: Vec<String>,
}

impl LinkedPlugins {
    /// The plugins of the registry, loaded as `config` says.
    pub(in crate::daemon) fn new(registry: &Registry, config: &Value) -> Self {
        let directives = config.pointer("/job-manager/plugins").and_then(Value::as_array);
        let load = |directive: &Value| directive.get("load").and_then(Value::as_str).map(bare);
        let named = directives.into_iter().flatten().filter_map(load).collect();
        let own = |crate_name: &str| crate_name == crate::linked::SDK;
        let schedulers = registry.schedulers().any(|scheduler| !own(scheduler.crate_name));
        Self { linked: registry.plugins().collect(), schedulers, named }
    }

    /// Adds the plugins that a running manager has loaded.
    pub(in crate::daemon) fn with_loaded(mut self, names: &[String]) -> Self {
        self.named.extend(names.iter().map(|name| bare(name)));
        self
    }

    /// The names of all linked plugins.
    pub(in crate::daemon) fn names(&self) -> Vec<&'static str> {
        self.linked.iter().map(|plugin| plugin.name).collect()
    }
}

/// Strips the directory and `.so` from a name: as in Flux, a plugin may be loaded by the name of a file.
fn bare(name: &str) -> String {
    let name = name.rsplit('/').next().unwrap_or(name);
    name.strip_suffix(".so").unwrap_or(name).to_owned()
}

impl Plugins for LinkedPlugins {
    fn read(&self, key: &[&str]) -> bool {
        let has_table = |plugin: &PluginDescriptor| {
            plugin.load == Load::Configured && key.starts_with(&["job-manager", plugin.name])
        };
        let of_scheduler =
            matches!(key, ["policy", "scheduler", _] | ["queues", _, "policy", "scheduler", _]);
        (of_scheduler && self.schedulers)
            || self.linked.iter().any(|plugin| has_table(plugin) || (plugin.reads)(key))
    }

    fn state(&self, name: &str) -> PluginState {
        let named = || self.named.iter().any(|named| named == name);
        match self.linked.iter().find(|plugin| plugin.name == name) {
            None => PluginState::NotLinked,
            Some(plugin) if plugin.load != Load::ByName || named() => PluginState::Loaded,
            Some(_) => PluginState::NotLoaded,
        }
    }
}
