//! Builds the plugins from the configuration and registers the topics of Flux that they need.

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use jobtap_core::host::{
    Detail, HostKind, InitArgs, IntroductionOrder, LoadedPlugin, PluginDescriptor, PluginKey,
    Registry, RegistryError, RemoteHandle, RemoteSink, Role, SetupError,
};
use jobtap_core::queue::Queues;
use jobtap_core::topic::TopicId;
use serde_json::{Map, Value};

use super::frame::{Called, Subject};
use super::topics::refused;
use super::{Adapter, Answer};
use crate::flux::{Errno, Flux, Lend};

/// Why a file of plugins can't be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The linked plugins can't be combined.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A plugin that the file was built for isn't linked.
    #[error(
        "plugin {name:?} is not in this file: its crate must be named in the wrapper crate, as by \
         `use my_plugin as _;`"
    )]
    Missing {
        /// The name of the plugin.
        name: String,
    },
    /// A plugin handles a topic that Flux doesn't support.
    #[error("plugin {plugin:?} can't run in Flux: {method} handles {topic}: {reason}")]
    Topic {
        /// The plugin.
        plugin: &'static str,
        /// The handler.
        method: &'static str,
        /// The topic.
        topic: String,
        /// Why Flux doesn't support it, and what it has instead.
        reason: &'static str,
    },
    /// Flux refuses the handler of a topic.
    #[error("handler of {topic}: {errno}")]
    Handler {
        /// The topic.
        topic: String,
        /// The error of Flux's function.
        errno: Errno,
    },
    /// Flux refuses a service.
    #[error("service {plugin}.{method}: {errno}")]
    Service {
        /// The plugin.
        plugin: &'static str,
        /// The method.
        method: &'static str,
        /// The error of Flux's function.
        errno: Errno,
    },
    /// The file was replaced since it was first loaded into this broker.
    #[error(
        "{path}: it was loaded into this broker before, and was replaced since. What is in memory is the old \
         code, and would run again: give each build a file name of its own, such as one with its version"
    )]
    Replaced {
        /// The file.
        path: String,
    },
}

/// Why the plugins don't accept a configuration.
#[derive(Debug, thiserror::Error)]
enum ConfigureError {
    #[error("jobtap: no thread: {0}")]
    Thread(io::Error),
    #[error("conf: {key:?} is not a plugin of this file, which has {}: conf has a table for each", has.join(", "))]
    UnknownPlugin { key: String, has: Vec<&'static str> },
    #[error("conf of {0} must be a table")]
    NoTable(&'static str),
    #[error(transparent)]
    Setup(SetupError),
    #[error("{plugin}: {panic}")]
    Panicked { plugin: &'static str, panic: SetupError },
}

impl ConfigureError {
    /// The error of a plugin. The text of a panic doesn't name it.
    fn from_setup(plugin: &'static str, error: SetupError) -> Self {
        match error {
            SetupError::InitPanicked(_) | SetupError::UpdatePanicked(_) => {
                Self::Panicked { plugin, panic: error }
            }
            error => Self::Setup(error),
        }
    }
}

/// Returns the plugins of a file, in the order in which they are loaded.
///
/// # Errors
/// [`LoadError::Registry`], [`LoadError::Missing`] or [`LoadError::Topic`].
pub(crate) fn linked(expected: &[&str]) -> Result<Vec<&'static PluginDescriptor>, LoadError> {
    let sequence: Vec<String> = expected.iter().map(|name| (*name).to_owned()).collect();
    let registry = Registry::linked_in(&sequence)?;
    chosen(&registry, expected)
}

/// Returns the plugins of a registry that a file was built for; all of them if `expected` is empty.
///
/// # Errors
/// [`LoadError::Missing`] or [`LoadError::Topic`].
pub(crate) fn chosen(
    registry: &Registry,
    expected: &[&str],
) -> Result<Vec<&'static PluginDescriptor>, LoadError> {
    if let Some(name) = expected.iter().find(|name| registry.find(name).is_none()) {
        return Err(LoadError::Missing { name: (*name).to_owned() });
    }
    let chosen: Vec<_> = registry
        .plugins()
        .filter(|plugin| expected.is_empty() || expected.contains(&plugin.name))
        .collect();
    chosen.iter().try_for_each(|plugin| check_topics(plugin))?;
    Ok(chosen)
}

/// Checks that Flux supports all topics of a plugin.
///
/// # Errors
/// [`LoadError::Topic`].
pub fn check_topics(plugin: &'static PluginDescriptor) -> Result<(), LoadError> {
    for entry in plugin.handlers {
        if let Some(reason) = HostKind::Flux.handler(entry).gap() {
            return Err(LoadError::Topic {
                plugin: plugin.name,
                method: entry.method,
                topic: entry.full_name(),
                reason,
            });
        }
    }
    Ok(())
}

/// The topics of Flux that the adapter handles itself, to update the mirror and the configuration.
const OWN_TOPICS: [&str; 4] = ["conf.update", "job.create", "job.new", "job.destroy"];

/// Returns all topics of Flux for which a handler must be registered.
///
/// A handler of `job.*` gets `job.dependency.SCHEME` and `job.update.KEY` only if another handler of the file
/// handles that scheme or key. Registering all of them would tell Flux that every scheme and every key is supported.
pub(crate) fn topics(linked: &[&'static PluginDescriptor]) -> Vec<String> {
    let mut topics: Vec<String> = OWN_TOPICS.map(str::to_owned).to_vec();
    // The adapter updates the mirror from the events.
    topics.push("job.event.*".to_owned());
    let mut add = |topic: &str| {
        if !topics.iter().any(|known| known == topic) {
            topics.push(topic.to_owned());
        }
    };
    for entry in linked.iter().flat_map(|plugin| plugin.handlers) {
        match entry.id {
            TopicId::Unlisted | TopicId::Unload | TopicId::JobEvent => {}
            TopicId::JobState => STATES.iter().for_each(|state| add(state)),
            TopicId::JobAny => ANY.iter().chain(&STATES).for_each(|topic| add(topic)),
            _ => add(&entry.full_name()),
        }
    }
    // Flux compares a topic with the patterns one after the other until one matches, which takes longer than most
    // handlers. So the topics that are called most often come first. The order doesn't matter otherwise: if a topic
    // matches two patterns of one family, the handler is the same.
    topics.sort_by_key(|topic| match topic.as_str() {
        "job.priority.get" => 0,
        "job.state.priority" => 1,
        "job.event.*" => 2,
        topic if topic.starts_with("job.") => 3,
        _ => 4,
    });
    topics
}

/// The topics of `job.state.*`.
const STATES: [&str; 6] = [
    "job.state.depend",
    "job.state.priority",
    "job.state.sched",
    "job.state.run",
    "job.state.cleanup",
    "job.state.inactive",
];

/// The other topics of `job.*`.
const ANY: [&str; 8] = [
    "job.create",
    "job.validate",
    "job.new",
    "job.update",
    "job.priority.get",
    "job.inactive-add",
    "job.destroy",
    "job.inactive-remove",
];

/// Returns the order in which Flux introduces the existing jobs to the plugins.
pub(crate) fn load_order(linked: &[&'static PluginDescriptor]) -> Option<&'static str> {
    linked.iter().find_map(|plugin| match plugin.load_order {
        IntroductionOrder::ById => None,
        IntroductionOrder::State => Some("state"),
        IntroductionOrder::StateReversed => Some("-state"),
    })
}

/// Returns the queues of a configuration, or the default if they can't be read, which Flux reports itself.
pub(super) fn queues(config: &Value) -> Queues {
    Queues::read(config).unwrap_or_default()
}

impl<F: Flux> Adapter<F> {
    /// Registers the services, and handlers for the topics of Flux that the plugins need.
    ///
    /// # Errors
    /// [`LoadError::Handler`] or [`LoadError::Service`].
    pub fn register(&self) -> Result<(), LoadError> {
        for topic in topics(&self.linked) {
            let registered = self.flux.add_handler(&topic);
            registered.map_err(|errno| LoadError::Handler { topic, errno })?;
        }
        for plugin in &self.linked {
            for service in plugin.handlers.iter().filter(|entry| entry.topic == "service") {
                let guests = service.role == Role::Guest;
                let registered = self.flux.service_register(plugin.name, service.key, guests);
                let (plugin, method) = (plugin.name, service.key);
                registered.map_err(|errno| LoadError::Service { plugin, method, errno })?;
            }
        }
        Ok(())
    }

    /// Handles `conf.update`: builds the plugins at the first call, then passes the configuration to them.
    pub(super) fn update_config(&self, input: Option<&F::Json>) -> Answer {
        let config = input.and_then(|input| input.get("conf")).map(|conf| conf.read::<Value>());
        let config = match config {
            Some(Ok(config)) if config.is_object() => config,
            Some(Err(error)) => return refused(format!("jobtap: configuration: {error}")),
            _ => Value::Object(Map::new()),
        };
        let config = Rc::new(config);
        if !self.is_built.get() {
            if let Err(error) = self.build_all(&config) {
                return refused(error.to_string());
            }
            self.is_built.set(true);
        }
        for plugin in &self.linked {
            if let Err(error) = self.show_config(plugin, &config) {
                return refused(error.to_string());
            }
        }
        let mut instance = self.instance.borrow_mut();
        instance.queues = Rc::new(queues(&config));
        instance.config = config;
        Answer::default()
    }

    fn build_all(&self, config: &Rc<Value>) -> Result<(), ConfigureError> {
        {
            // A closure that `#[init]` has scheduled may read the configuration later.
            let mut instance = self.instance.borrow_mut();
            instance.queues = Rc::new(queues(config));
            instance.config = Rc::clone(config);
        }
        if self.runtime.get().is_none() {
            let runtime = self.flux.workers().map_err(ConfigureError::Thread)?;
            // This can't fail: only this function sets the runtime, and it wasn't set above.
            let _ = self.runtime.set(runtime);
        }
        for descriptor in &self.linked {
            let plugin = self.build(descriptor, config)?;
            self.stack.borrow_mut().push(plugin);
        }
        Ok(())
    }

    fn build(
        &self,
        descriptor: &'static PluginDescriptor,
        config: &Value,
    ) -> Result<LoadedPlugin, ConfigureError> {
        let key = PluginKey(self.next_key.get());
        self.next_key.set(key.0 + 1);
        let sink: Arc<dyn RemoteSink> = Arc::<crate::inbox::Inbox>::clone(&self.inbox);
        let remote =
            RemoteHandle::new(key, Arc::from(descriptor.name), sink).metered(self.ticks.clone());
        let conf = self.own_config(descriptor, config)?;
        let directory = self.flux.attribute("config.path").map(PathBuf::from);
        let directory = directory.as_deref().and_then(|path| match path.is_dir() {
            true => Some(path),
            false => path.parent(),
        });
        let args = InitArgs {
            name: descriptor.name,
            conf: &conf,
            instance_conf: config,
            conf_directory: directory.filter(|path| *path != Path::new("")),
            remote: remote.clone(),
        };
        let plugin = descriptor.build(&args);
        let plugin = plugin.map_err(|error| ConfigureError::from_setup(descriptor.name, error))?;
        Ok(LoadedPlugin::new(descriptor, descriptor.name, plugin, remote))
    }

    /// Returns a plugin's own table: `[plugins.NAME]`, overridden by the configuration that was given when the file was
    /// loaded. For a file with several plugins, the given configuration has a table for each.
    fn own_config(
        &self,
        plugin: &'static PluginDescriptor,
        config: &Value,
    ) -> Result<Value, ConfigureError> {
        let name = plugin.name;
        let table = config.get("plugins").and_then(|plugins| plugins.get(name));
        let mut own = match table {
            None => Map::new(),
            Some(Value::Object(table)) => table.clone(),
            Some(_) => return Err(ConfigureError::Setup(SetupError::NoTable(name.to_owned()))),
        };
        let Some(given) = self.flux.given() else { return Ok(Value::Object(own)) };
        let given = match self.linked.len() {
            1 => Some(&given),
            _ => {
                let unknown = given.as_object().and_then(|given| {
                    given.keys().find(|key| self.linked.iter().all(|linked| linked.name != **key))
                });
                if let Some(key) = unknown {
                    let has = self.linked.iter().map(|linked| linked.name).collect();
                    return Err(ConfigureError::UnknownPlugin { key: key.clone(), has });
                }
                given.get(name)
            }
        };
        match given {
            None | Some(Value::Null) => {}
            Some(Value::Object(given)) => own.extend(given.clone()),
            Some(_) => return Err(ConfigureError::NoTable(name)),
        }
        Ok(Value::Object(own))
    }

    /// Calls `conf.update` of one plugin. The error is its refusal.
    fn show_config(
        &self,
        plugin: &'static PluginDescriptor,
        config: &Value,
    ) -> Result<(), ConfigureError> {
        let bound = self.handler_of(TopicId::ConfUpdate, plugin.name);
        let Some(bound) = bound.filter(|bound| !bound.is_out_of_service()) else { return Ok(()) };
        let own = self.own_config(plugin, config)?;
        let name = plugin.name;
        let detail = Detail::Conf { instance: config, own: &own, name };
        let Called { result, commands, .. } =
            self.call_one(&bound, TopicId::ConfUpdate, Subject::None, detail);
        match result {
            Ok(_) => {
                self.carry_out(TopicId::ConfUpdate.name(), commands);
                Ok(())
            }
            // A panic isn't counted: the configuration is refused, so the administrator sees the text at once.
            Err(fault) => Err(ConfigureError::from_setup(name, SetupError::of_update(name, fault))),
        }
    }
}
