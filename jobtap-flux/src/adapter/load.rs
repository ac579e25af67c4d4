//! The plugins are built from the configuration, and which topics of Flux they need.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use jobtap_core::host::{
    Detail, Failure, Fault, HostKind, InitArgs, IntroductionOrder, LoadedPlugin, PluginDescriptor,
    PluginKey, Registry, RegistryError, RemoteHandle, RemoteSink, Role, panic_text,
};
use jobtap_core::queue::Queues;
use jobtap_core::topic::TopicId;
use serde_json::{Map, Value};

use super::frame::{Called, Subject};
use super::topics::refused;
use super::{Adapter, Answer};
use crate::flux::{Flux, Lend};

/// Why a file of plugins can't be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The linked plugins don't go together.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A plugin that the file was built for isn't linked.
    #[error(
        "plugin {name:?} is not in this file: its crate must be named in the wrapper crate, as by \
         `use my_plugin as _;`"
    )]
    Missing {
        /// The plugin.
        name: String,
    },
    /// A plugin that needs what Flux doesn't have.
    #[error("plugin {plugin:?} can't run in Flux: {method} handles {topic}: {reason}")]
    Topic {
        /// The plugin.
        plugin: &'static str,
        /// Its method.
        method: &'static str,
        /// The topic.
        topic: String,
        /// What Flux has instead.
        reason: &'static str,
    },
    /// A function of Flux has failed.
    #[error("{0}")]
    Flux(String),
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

/// The plugins of a file, in the order in which they are loaded.
///
/// # Errors
/// [`LoadError::Registry`], [`LoadError::Missing`] or [`LoadError::Topic`].
pub(crate) fn linked(expected: &[&str]) -> Result<Vec<&'static PluginDescriptor>, LoadError> {
    let sequence: Vec<String> = expected.iter().map(|name| (*name).to_owned()).collect();
    let registry = Registry::linked_in(&sequence)?;
    chosen(&registry, expected)
}

/// The plugins of a registry that a file was built for; all, if it doesn't say.
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

/// Checks that Flux serves all topics of a plugin.
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

/// The topics of Flux that the adapter handles itself: those by which it follows the jobs.
const OWN_TOPICS: [&str; 4] = ["conf.update", "job.create", "job.new", "job.destroy"];

/// All topics of Flux that have to be handled.
///
/// A handler of `job.*` gets no `job.dependency.SCHEME` and no `job.update.KEY` but those that another handler
/// of the file handles: to handle them all would tell Flux that every scheme and every key is supported.
pub(crate) fn topics(linked: &[&'static PluginDescriptor]) -> Vec<String> {
    let mut topics: Vec<String> = OWN_TOPICS.map(str::to_owned).to_vec();
    // By the events the adapter follows the jobs.
    topics.push("job.event.*".to_owned());
    let mut add = |topic: &str| {
        if !topics.iter().any(|known| known == topic) {
            topics.push(topic.to_owned());
        }
    };
    for entry in linked.iter().flat_map(|plugin| plugin.handlers) {
        match entry.id {
            TopicId::Own | TopicId::Unload | TopicId::JobEvent => {}
            TopicId::JobState => STATES.iter().for_each(|state| add(state)),
            TopicId::JobAny => ANY.iter().chain(&STATES).for_each(|topic| add(topic)),
            _ => add(&entry.full_name()),
        }
    }
    // Flux compares a topic with one pattern after the other until one matches, which takes longer than most
    // handlers. So those that are called most often come first. No topic matches two of the patterns, but for
    // members of a family, whose handler is the same.
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

/// The order in which Flux introduces the jobs that exist.
pub(crate) fn load_order(linked: &[&'static PluginDescriptor]) -> Option<&'static str> {
    linked.iter().find_map(|plugin| match plugin.load_order {
        IntroductionOrder::None => None,
        IntroductionOrder::State => Some("state"),
        IntroductionOrder::StateReversed => Some("-state"),
    })
}

/// The queues of a configuration; those of none if it can't be read, which Flux reports itself.
pub(super) fn queues(config: &Value) -> Queues {
    Queues::read(config).unwrap_or_default()
}

impl<F: Flux> Adapter<F> {
    /// Registers the topics of Flux that the plugins need, and the services.
    ///
    /// # Errors
    /// [`LoadError::Flux`].
    pub fn register(&self) -> Result<(), LoadError> {
        for topic in topics(&self.linked) {
            self.flux
                .add_handler(&topic)
                .map_err(|errno| LoadError::Flux(format!("handler of {topic}: {errno}")))?;
        }
        for plugin in &self.linked {
            for service in plugin.handlers.iter().filter(|entry| entry.topic == "service") {
                let guests = service.role == Role::Guest;
                let registered = self.flux.service_register(plugin.name, service.key, guests);
                registered.map_err(|errno| {
                    LoadError::Flux(format!("service {}.{}: {errno}", plugin.name, service.key))
                })?;
            }
        }
        Ok(())
    }

    /// `conf.update`: at the first call the plugins are built, then they see the configuration.
    pub(super) fn update_config(&self, input: Option<&F::Json>) -> Answer {
        let config = input.and_then(|input| input.get("conf")).map(|conf| conf.read::<Value>());
        let config = match config {
            Some(Ok(config)) if config.is_object() => config,
            Some(Err(error)) => return refused(format!("jobtap: configuration: {error}")),
            _ => Value::Object(Map::new()),
        };
        let config = Rc::new(config);
        if !self.is_built.get() {
            if let Err(text) = self.build_all(&config) {
                return refused(text);
            }
            self.is_built.set(true);
        }
        for plugin in &self.linked {
            if let Err(text) = self.show_config(plugin, &config) {
                return refused(text);
            }
        }
        let mut instance = self.instance.borrow_mut();
        instance.queues = Rc::new(queues(&config));
        instance.config = config;
        Answer::default()
    }

    fn build_all(&self, config: &Rc<Value>) -> Result<(), String> {
        {
            // `#[init]` may look at the configuration by way of a closure that runs later.
            let mut instance = self.instance.borrow_mut();
            instance.queues = Rc::new(queues(config));
            instance.config = Rc::clone(config);
        }
        if self.runtime.get().is_none() {
            let runtime =
                self.flux.workers().map_err(|error| format!("jobtap: no thread: {error}"))?;
            // It is not set: only this function does.
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
    ) -> Result<LoadedPlugin, String> {
        let key = PluginKey(self.next_key.get());
        self.next_key.set(key.0 + 1);
        let sink: Arc<dyn RemoteSink> = Arc::<crate::inbox::Inbox>::clone(&self.inbox);
        let remote =
            RemoteHandle::new(key, Arc::from(descriptor.name), sink).metered(self.ticks.clone());
        let conf = self.own_config(descriptor, config)?;
        let first_key = conf.as_object().and_then(|conf| conf.keys().next());
        if let Some(key) = first_key
            && (descriptor.schema)().is_none()
        {
            return Err(format!(
                "[plugins.{}]: unknown key {key:?}: this plugin takes no configuration",
                descriptor.name
            ));
        }
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
        let plugin = catch_unwind(AssertUnwindSafe(|| (descriptor.new)(&args)))
            .map_err(|panic| {
                format!("{}: #[init] panicked: {}", descriptor.name, panic_text(&*panic))
            })?
            .map_err(|error| error.text().to_owned())?;
        Ok(LoadedPlugin::new(descriptor, descriptor.name, plugin, remote))
    }

    /// A plugin's own table: what was given when the file was loaded, over `[plugins.NAME]`. In a file of several
    /// plugins, what was given has a table for each.
    fn own_config(&self, plugin: &PluginDescriptor, config: &Value) -> Result<Value, String> {
        let name = plugin.name;
        let table = config.get("plugins").and_then(|plugins| plugins.get(name));
        let mut own = match table {
            None => Map::new(),
            Some(Value::Object(table)) => table.clone(),
            Some(_) => return Err(format!("[plugins.{name}] must be a table")),
        };
        let Some(given) = self.flux.given() else { return Ok(Value::Object(own)) };
        let given = match self.linked.len() {
            1 => Some(&given),
            _ => {
                let unknown = given.as_object().and_then(|given| {
                    given.keys().find(|key| self.linked.iter().all(|linked| linked.name != **key))
                });
                if let Some(key) = unknown {
                    let names: Vec<&str> = self.linked.iter().map(|linked| linked.name).collect();
                    return Err(format!(
                        "conf: {key:?} is not a plugin of this file, which has {}: conf has a table for each",
                        names.join(", ")
                    ));
                }
                given.get(name)
            }
        };
        match given {
            None | Some(Value::Null) => {}
            Some(Value::Object(given)) => own.extend(given.clone()),
            Some(_) => return Err(format!("conf of {name} must be a table")),
        }
        Ok(Value::Object(own))
    }

    /// Calls `conf.update` of one plugin. An error is its refusal.
    fn show_config(&self, plugin: &'static PluginDescriptor, config: &Value) -> Result<(), String> {
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
            Err(Fault::Failure(Failure::Reject(text))) if !text.is_empty() => Err(text),
            Err(Fault::Failure(_) | Fault::Busy) => {
                Err(format!("config rejected by {name} jobtap plugin"))
            }
            // Not counted: the configuration is refused, so an administrator reads of it at once.
            Err(Fault::Panic(text)) => Err(format!("{name}: conf.update panicked: {text}")),
        }
    }
}
