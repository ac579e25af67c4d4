//! How the plugins are built, and follow a new configuration.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use jobtap_core::host::{
    Detail, Failure, Fault, HostKind, InitArgs, LoadedPlugin, PluginDescriptor, PluginKey,
    RemoteHandle, RemoteSink, panic_text,
};
use jobtap_core::plugin::Level;
use jobtap_core::topic::TopicId;

use super::core::{Core, text_of};
use crate::config::{Config, FILE};

/// Why the plugins of a file can't be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The configuration can't be read.
    #[error("{0}")]
    Config(String),
    /// A plugin refuses its configuration, or can't be built.
    #[error("plugin {plugin} can't be loaded: {text}")]
    Plugin {
        /// The plugin.
        plugin: &'static str,
        /// Why.
        text: String,
    },
    /// The thread of the plugins can't be started.
    #[error("no thread for the plugins: {0}")]
    Thread(String),
}

impl Core {
    /// Reads the configuration, and loads the plugins in their order.
    pub(super) fn load(&mut self, plugins: &[&'static PluginDescriptor]) -> Result<(), LoadError> {
        self.config = Config::read(&self.daemon.config_file(FILE)).map_err(LoadError::Config)?;
        self.take_timeout();
        for plugin in plugins {
            let refused = |text| LoadError::Plugin { plugin: plugin.name, text };
            check(self.kind, plugin).map_err(refused)?;
            let key = self.build(plugin).map_err(refused)?;
            self.show_config(key).map_err(refused)?;
        }
        Ok(())
    }

    fn take_timeout(&self) {
        let milliseconds = u64::try_from(self.config.request_timeout.as_millis());
        self.request_timeout.store(milliseconds.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Builds a plugin, and puts it at the end of the stack.
    fn build(&mut self, descriptor: &'static PluginDescriptor) -> Result<PluginKey, String> {
        let key = PluginKey(self.next_key);
        self.next_key += 1;
        let name: Arc<str> = Arc::from(descriptor.name);
        let sink: Arc<dyn RemoteSink> = Arc::new(self.inbox.clone());
        let remote = RemoteHandle::new(key, Arc::clone(&name), sink).metered(self.ticks.clone());
        let conf = self.config.plugin(&name)?;
        let first = conf.as_object().and_then(|table| table.keys().next());
        if let Some(key) = first.filter(|_| (descriptor.schema)().is_none()) {
            return Err(format!(
                "[plugins.{name}]: unknown key {key:?}: this plugin takes no configuration"
            ));
        }
        let args = InitArgs {
            name: &name,
            conf: &conf,
            instance_conf: &self.config.whole,
            conf_directory: Some(&self.config.directory),
            remote: remote.clone(),
        };
        let built = catch_unwind(AssertUnwindSafe(|| (descriptor.new)(&args)));
        let built = built
            .map_err(|panic| format!("#[init] panicked: {}", panic_text(&*panic)))?
            .map_err(|error| error.text().to_owned())?;
        self.stack.push(LoadedPlugin::new(descriptor, descriptor.name, built, remote));
        Ok(key)
    }

    /// Tells the plugins that the daemon ends.
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

    /// Shows a plugin the present configuration, if it handles `conf.update`.
    fn show_config(&mut self, key: PluginKey) -> Result<(), String> {
        let handlers = self.stack.handlers(TopicId::ConfUpdate).map(Rc::clone);
        let mut handlers = handlers.iter().flat_map(|list| list.iter());
        let Some(bound) = handlers.find(|bound| bound.plugin() == key).cloned() else {
            return Ok(());
        };
        let name = bound.instance().name();
        let own = self.config.plugin(name)?;
        let detail = Detail::Conf { instance: &self.config.whole, own: &own, name };
        let called = self.call(&bound, TopicId::ConfUpdate, None, detail);
        let result = self.settle(called);
        match result.map_err(|fault| *fault) {
            Ok(_) => Ok(()),
            Err(Fault::Failure(Failure::Reject(text))) if !text.is_empty() => Err(text),
            Err(Fault::Failure(_) | Fault::Busy) => {
                Err(format!("config rejected by {name} jobtap plugin"))
            }
            Err(Fault::Panic(text)) => Err(format!("conf.update panicked: {text}")),
        }
    }

    /// Follows a new configuration: all of it or, if a plugin refuses it, nothing.
    pub(super) fn configure(&mut self) {
        let config = match Config::read(&self.daemon.config_file(FILE)) {
            Ok(config) => config,
            Err(text) => {
                let text = format!("jobtap: {text}; the configuration stays as it was");
                return self.daemon.log(Level::Error, &text);
            }
        };
        let before = std::mem::replace(&mut self.config, config);
        let plugins: Vec<_> = self.stack.plugins().to_vec();
        for (index, plugin) in plugins.iter().enumerate() {
            let Err(text) = self.show_config(plugin.key()) else { continue };
            self.config = before;
            // Those before it have seen the new one.
            for plugin in plugins.iter().take(index) {
                let _ = self.show_config(plugin.key());
            }
            let text = format!("{text}; the configuration stays as it was");
            return self.log(plugin, Level::Error, &text);
        }
        self.take_timeout();
        for plugin in &plugins {
            self.log_changed(plugin, &before);
        }
    }

    /// Says whether a plugin follows its changed table. One without `conf.update` keeps its settings.
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

/// Refuses a plugin with a handler that this kind of file never calls.
fn check(kind: HostKind, plugin: &PluginDescriptor) -> Result<(), String> {
    for entry in plugin.handlers {
        if let Some(reason) = kind.handler(entry).gap() {
            let (topic, method) = (entry.full_name(), entry.method);
            return Err(format!("{kind} doesn't serve {topic} (method {method}): {reason}"));
        }
    }
    Ok(())
}
