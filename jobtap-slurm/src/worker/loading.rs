//! Builds the plugins and passes a new configuration to them.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use jobtap_core::host::{
    Detail, HostKind, InitArgs, LoadedPlugin, PluginDescriptor, PluginKey, RemoteHandle,
    RemoteSink, SetupError,
};
use jobtap_core::plugin::Level;
use jobtap_core::topic::TopicId;

use super::core::{Core, text_of};
use crate::config::{Config, ConfigError, FILE};

/// Why the plugins of a file can't be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The configuration can't be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A plugin has a handler that this kind of Slurm plugin never calls.
    #[error(
        "plugin {plugin} can't be loaded: {kind} doesn't serve {topic} (method {method}): {reason}"
    )]
    Topic {
        /// The plugin.
        plugin: &'static str,
        /// The kind of Slurm plugin.
        kind: HostKind,
        /// The topic.
        topic: String,
        /// The handler.
        method: &'static str,
        /// Why this kind doesn't serve it.
        reason: &'static str,
    },
    /// A plugin refuses its configuration, or can't be built.
    #[error("plugin {plugin} can't be loaded: {reason}")]
    Setup {
        /// The plugin.
        plugin: &'static str,
        /// Why.
        reason: SetupError,
    },
    /// The plugins' thread can't be started.
    #[error("no thread for the plugins: {0}")]
    Thread(io::Error),
    /// The plugins' thread has ended before they were loaded.
    #[error("no thread for the plugins: it ended at once")]
    ThreadEnded,
    /// The double of the daemon, in tests, can't be made.
    #[error(transparent)]
    Double(io::Error),
}

impl Core {
    /// Reads the configuration and loads the plugins in order.
    pub(super) fn load(&mut self, plugins: &[&'static PluginDescriptor]) -> Result<(), LoadError> {
        self.config = Config::read(&self.daemon.config_file(FILE))?;
        self.take_timeout();
        for plugin in plugins {
            let refused = |reason| LoadError::Setup { plugin: plugin.name, reason };
            check(self.kind, plugin)?;
            let key = self.build(plugin).map_err(refused)?;
            self.show_config(key).map_err(refused)?;
        }
        Ok(())
    }

    fn take_timeout(&self) {
        let milliseconds = u64::try_from(self.config.request_timeout.as_millis());
        self.request_timeout.store(milliseconds.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Builds a plugin and appends it to the stack.
    fn build(&mut self, descriptor: &'static PluginDescriptor) -> Result<PluginKey, SetupError> {
        let key = PluginKey(self.next_key);
        self.next_key += 1;
        let name: Arc<str> = Arc::from(descriptor.name);
        let sink: Arc<dyn RemoteSink> = Arc::new(self.inbox.clone());
        let remote = RemoteHandle::new(key, Arc::clone(&name), sink).metered(self.ticks.clone());
        let conf = self.config.plugin(&name)?;
        let args = InitArgs {
            name: &name,
            conf: &conf,
            instance_conf: &self.config.whole,
            conf_directory: Some(&self.config.directory),
            remote: remote.clone(),
        };
        let built = descriptor.build(&args)?;
        self.stack.push(LoadedPlugin::new(descriptor, descriptor.name, built, remote));
        Ok(key)
    }

    /// Calls the plugins' handlers of `unload`, since the daemon is ending.
    pub(super) fn unload(&mut self) {
        for plugin in self.stack.plugins().to_vec() {
            if let Some(bound) = plugin.unload_handler() {
                let called = self.call(&bound, TopicId::Unload, None, Detail::None);
                if let Err(fault) = self.settle(called) {
                    self.log(&plugin, Level::Error, &format!("unload: {}", text_of(&fault)));
                }
            }
        }
    }

    /// Passes the current configuration to a plugin, if it handles `conf.update`.
    fn show_config(&mut self, key: PluginKey) -> Result<(), SetupError> {
        let handlers = self.stack.handlers(TopicId::ConfUpdate).map(Rc::clone);
        let mut handlers = handlers.iter().flat_map(|list| list.iter());
        let Some(bound) = handlers.find(|bound| bound.plugin() == key).cloned() else {
            return Ok(());
        };
        let name = bound.instance().name();
        let own = self.config.plugin(name)?;
        let detail = Detail::Conf { instance: &self.config.whole, own: &own, name };
        let called = self.call(&bound, TopicId::ConfUpdate, None, detail);
        self.settle(called).map(drop).map_err(|fault| SetupError::of_update(name, *fault))
    }

    /// Takes over a new configuration, or nothing of it if a plugin refuses it.
    pub(super) fn configure(&mut self) {
        let config = match Config::read(&self.daemon.config_file(FILE)) {
            Ok(config) => config,
            Err(error) => {
                let text = format!("jobtap: {error}; the configuration stays as it was");
                return self.daemon.log(Level::Error, &text);
            }
        };
        let before = std::mem::replace(&mut self.config, config);
        let plugins: Vec<_> = self.stack.plugins().to_vec();
        for (index, plugin) in plugins.iter().enumerate() {
            let Err(refused) = self.show_config(plugin.key()) else { continue };
            self.config = before;
            // The plugins before this one have taken over the new configuration: give them the old one back.
            for plugin in plugins.iter().take(index) {
                let _ = self.show_config(plugin.key());
            }
            let text = format!("{refused}; the configuration stays as it was");
            return self.log(plugin, Level::Error, &text);
        }
        self.take_timeout();
        for plugin in &plugins {
            self.log_changed(plugin, &before);
        }
    }

    /// Logs whether a plugin has taken over its changed table. A plugin without `conf.update` keeps its settings.
    fn log_changed(&self, plugin: &LoadedPlugin, before: &Config) {
        let name = plugin.name();
        if before.plugin(name) == self.config.plugin(name) {
            return;
        }
        let mut entries = plugin.descriptor().handlers.iter();
        let text = match entries.any(|entry| entry.id == TopicId::ConfUpdate) {
            true => format!("conf.update has accepted the new [plugins.{name}]"),
            false => format!(
                "[plugins.{name}] has changed, and takes effect with the next start of the daemon"
            ),
        };
        self.log(plugin, Level::Info, &text);
    }
}

/// Refuses a plugin with a handler that this kind of Slurm plugin never calls.
fn check(kind: HostKind, plugin: &PluginDescriptor) -> Result<(), LoadError> {
    for entry in plugin.handlers {
        if let Some(reason) = kind.handler(entry).gap() {
            let (topic, method) = (entry.full_name(), entry.method);
            return Err(LoadError::Topic { plugin: plugin.name, kind, topic, method, reason });
        }
    }
    Ok(())
}
