//! Loaded plugins: their instances, their handlers by topic, loading and removing.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::{Map, Value, json};

use super::faulted::Conduct;
use super::host::FrameHost;
use super::{Engine, Level, ReplyTo, RequestError, StartError};
use crate::plugin::{
    Args, Command, Failure, HandlerFn, InitArgs, LaterCall, PluginDescriptor, PluginKey, Registry,
    RemoteHandle, RemoteSink, panic_text,
};
use crate::topic::{ConfUpdate, JobStatePriority, Topic};

const EEXIST: i32 = 17;
const ENOENT: i32 = 2;
const EINVAL: i32 = 22;

/// The loaded plugins in load order.
pub(super) struct Plugins {
    registry: Registry,
    sink: Arc<dyn RemoteSink>,
    pub(super) loaded: Vec<Loaded>,
    topics: FxHashMap<&'static str, Vec<Bound>>,
    next: u64,
}

/// One loaded plugin.
pub(super) struct Loaded {
    pub(super) key: PluginKey,
    pub(super) name: Arc<str>,
    pub(super) descriptor: &'static PluginDescriptor,
    /// Borrowed while a handler runs: a plugin is never called while it is being called.
    pub(super) instance: RefCell<Box<dyn Any>>,
    pub(super) remote: RemoteHandle,
    pub(super) conduct: Conduct,
}

/// A handler bound to its instance.
#[derive(Debug, Clone)]
pub(super) struct Bound {
    pub(super) plugin: PluginKey,
    pub(super) name: Arc<str>,
    pub(super) key: &'static str,
    pub(super) method: &'static str,
    pub(super) call: HandlerFn,
}

/// A loaded plugin, for lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginStatus {
    /// Its name.
    pub name: String,
    /// The crate that it comes from.
    pub crate_name: &'static str,
    /// That crate's version.
    pub version: &'static str,
    /// It panicked too often and is out of service until it is loaded anew.
    pub faulted: bool,
}

impl Plugins {
    pub(super) fn new(registry: Registry, sink: Arc<dyn RemoteSink>) -> Self {
        Self {
            registry,
            sink,
            loaded: Vec::new(),
            topics: FxHashMap::default(),
            next: 0,
        }
    }

    /// The handlers of a topic in load order.
    pub(super) fn handlers(&self, topic: &str) -> &[Bound] {
        self.topics.get(topic).map_or(&[], Vec::as_slice)
    }

    pub(super) fn get(&self, key: PluginKey) -> Option<&Loaded> {
        self.loaded.iter().find(|plugin| plugin.key == key)
    }

    pub(super) fn name(&self, key: PluginKey) -> Arc<str> {
        self.get(key).map_or_else(
            || Arc::from("a removed plugin"),
            |plugin| Arc::clone(&plugin.name),
        )
    }

    fn find(&self, name: &str) -> Option<&Loaded> {
        self.loaded.iter().find(|plugin| &*plugin.name == name)
    }

    pub(super) fn bind(&mut self) {
        self.topics.clear();
        for plugin in &self.loaded {
            for entry in plugin.descriptor.handlers {
                self.topics.entry(entry.topic).or_default().push(Bound {
                    plugin: plugin.key,
                    name: Arc::clone(&plugin.name),
                    key: entry.key,
                    method: entry.method,
                    call: entry.call,
                });
            }
        }
    }
}

impl Engine {
    /// The loaded plugins in load order.
    pub fn plugins(&self) -> Vec<PluginStatus> {
        let status = |plugin: &Loaded| PluginStatus {
            name: plugin.name.to_string(),
            crate_name: plugin.descriptor.crate_name,
            version: plugin.descriptor.crate_version,
            faulted: plugin.conduct.faulted,
        };
        self.plugins.loaded.iter().map(status).collect()
    }

    /// Loads what loads by itself, then follows `[job-manager] plugins` in its order.
    pub(super) fn load_configured(&mut self) -> Result<(), StartError> {
        let auto: Vec<_> = self.plugins.registry.auto().collect();
        for descriptor in auto {
            self.load(descriptor, None).map_err(|text| {
                StartError(format!(
                    "plugin {} can't be loaded: {text}",
                    descriptor.name
                ))
            })?;
        }
        let directives = self.config.pointer("/job-manager/plugins").cloned();
        let directives = match directives {
            None => Vec::new(),
            Some(Value::Array(directives)) => directives,
            Some(_) => {
                let text = "[job-manager.plugins] config must be an array";
                return Err(StartError(text.to_owned()));
            }
        };
        for (index, directive) in directives.iter().enumerate() {
            self.follow_directive(directive)
                .map_err(|text| StartError(format!("[job-manager.plugins][{index}]: {text}")))?;
        }
        self.warn_without_priority();
        Ok(())
    }

    pub(super) fn warn_without_priority(&mut self) {
        if self.plugins.handlers(JobStatePriority::NAME).is_empty() {
            let text = "no loaded plugin handles job.state.priority: jobs will wait in PRIORITY \
                        until one does";
            self.log(Level::Warning, text);
        }
    }

    fn follow_directive(&mut self, directive: &Value) -> Result<(), String> {
        let Value::Object(table) = directive else {
            return Err("entry must be a table".to_owned());
        };
        let text = |key: &str| match table.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("{key} must be a string")),
        };
        if let Some(key) = table
            .keys()
            .find(|key| !["load", "remove", "conf"].contains(&&***key))
        {
            return Err(format!("unknown key {key:?}: use load, remove, conf"));
        }
        if let Some(name) = text("remove")? {
            self.remove_plugins(&name)
                .map_err(|error| format!("remove {name}: {}", error.text))?;
        }
        if let Some(name) = text("load")? {
            let conf = table.get("conf").cloned();
            self.load_named(&name, conf)
                .map_err(|error| format!("load: {}", error.text))?;
        }
        Ok(())
    }

    /// `job-manager.jobtap`: remove, then load.
    pub(super) fn plugins_request(
        &mut self,
        reply: ReplyTo,
        remove: Option<&str>,
        load: Option<&str>,
        conf: Option<Value>,
    ) {
        let mut result = remove.map_or(Ok(()), |pattern| self.remove_plugins(pattern));
        if let (Ok(()), Some(name)) = (&result, load) {
            result = self
                .load_named(name, conf)
                .map(|key| self.introduce_jobs(key));
        }
        let names: Vec<String> = self
            .plugins()
            .into_iter()
            .map(|plugin| plugin.name)
            .collect();
        self.reply(reply, result.map(|()| json!({ "plugins": names })));
    }

    fn load_named(&mut self, name: &str, conf: Option<Value>) -> Result<PluginKey, RequestError> {
        // Flux names plugins by their files; here a plugin is linked, so the suffix says nothing.
        let name = name.strip_suffix(".so").unwrap_or(name);
        if self.plugins.find(name).is_some() {
            let text = format!("{name} already loaded");
            return Err(RequestError {
                errno: EEXIST,
                text,
            });
        }
        let descriptor = self
            .plugins
            .registry
            .find(name)
            .ok_or_else(|| RequestError {
                errno: ENOENT,
                text: format!("{name}: No such plugin found"),
            })?;
        if conf.as_ref().is_some_and(|conf| !conf.is_object()) {
            let text = "plugin conf must be an object".to_owned();
            return Err(RequestError {
                errno: EINVAL,
                text,
            });
        }
        self.load(descriptor, conf).map_err(|text| RequestError {
            errno: EINVAL,
            text,
        })
    }

    /// Builds an instance, shows it the configuration, and puts it at the end of the list.
    fn load(
        &mut self,
        descriptor: &'static PluginDescriptor,
        conf: Option<Value>,
    ) -> Result<PluginKey, String> {
        let key = PluginKey(self.plugins.next);
        self.plugins.next += 1;
        let name: Arc<str> = Arc::from(descriptor.name);
        let sink = Arc::clone(&self.plugins.sink);
        let remote = RemoteHandle::new(key, Arc::clone(&name), sink);
        let conf = self.plugin_conf(descriptor.name, conf)?;
        let args = InitArgs {
            name: descriptor.name,
            conf: &conf,
            instance_conf: &self.config,
            remote: remote.clone(),
        };
        let instance = catch_unwind(AssertUnwindSafe(|| (descriptor.new)(&args)))
            .map_err(|panic| format!("#[init] panicked: {}", panic_text(&*panic)))?
            .map_err(|error| error.text().to_owned())?;
        let instance = RefCell::new(instance);
        self.plugins.loaded.push(Loaded {
            key,
            name,
            descriptor,
            instance,
            remote,
            conduct: Conduct::default(),
        });
        if let Err(text) = self.show_config(key) {
            let refused = self.plugins.loaded.pop();
            refused
                .into_iter()
                .for_each(|plugin| self.drop_plugin(plugin));
            return Err(text);
        }
        self.plugins.bind();
        Ok(key)
    }

    /// The conf given at load over `[plugins.NAME]`.
    fn plugin_conf(&self, name: &str, conf: Option<Value>) -> Result<Value, String> {
        let table = self
            .config
            .get("plugins")
            .and_then(|plugins| plugins.get(name));
        let mut merged = match table {
            None => Map::new(),
            Some(Value::Object(table)) => table.clone(),
            Some(_) => return Err(format!("[plugins.{name}] must be a table")),
        };
        if let Some(Value::Object(conf)) = conf {
            merged.extend(conf);
        }
        Ok(Value::Object(merged))
    }

    /// `conf.update` for one plugin.
    fn show_config(&mut self, key: PluginKey) -> Result<(), String> {
        let Some(plugin) = self.plugins.get(key) else {
            return Ok(());
        };
        let entry = plugin
            .descriptor
            .handlers
            .iter()
            .find(|h| h.topic == ConfUpdate::NAME);
        let Some(entry) = entry else { return Ok(()) };
        let host = FrameHost {
            engine: self,
            plugin,
            current: None,
            commands: RefCell::default(),
        };
        let args = Args {
            conf: Some(&self.config),
            ..Args::new(&host)
        };
        let Ok(mut instance) = plugin.instance.try_borrow_mut() else {
            return Ok(());
        };
        let result = catch_unwind(AssertUnwindSafe(|| (entry.call)(&mut **instance, args)));
        drop(instance);
        let commands = host.commands.into_inner();
        let name = &plugin.name;
        match result {
            Ok(Ok(_)) => {
                let later = crate::plugin::Work::Commands(commands);
                self.plugin_work(key, later);
                Ok(())
            }
            Ok(Err(Failure::Reject(text))) if !text.is_empty() => Err(text),
            Ok(Err(_)) => Err(format!("config rejected by {name} jobtap plugin")),
            Err(panic) => Err(format!("conf.update panicked: {}", panic_text(&*panic))),
        }
    }

    /// Calls into a plugin outside of any topic: a timer, or work that came back.
    pub(super) fn call_later(&mut self, key: PluginKey, call: LaterCall) -> Vec<Command> {
        let Some(plugin) = self
            .plugins
            .get(key)
            .filter(|plugin| !plugin.conduct.faulted)
        else {
            return Vec::new();
        };
        let host = FrameHost {
            engine: self,
            plugin,
            current: None,
            commands: RefCell::default(),
        };
        let Ok(mut instance) = plugin.instance.try_borrow_mut() else {
            return Vec::new();
        };
        let args = Args::new(&host);
        let result = catch_unwind(AssertUnwindSafe(|| call(&mut **instance, args)));
        drop(instance);
        let commands = host.commands.into_inner();
        match result {
            Ok(()) => commands,
            Err(panic) => {
                let text = format!("{}: later: panicked: {}", plugin.name, panic_text(&*panic));
                self.log(Level::Error, text);
                self.note_panic(key);
                Vec::new()
            }
        }
    }
}

/// Shell patterns for names: `*`, `?`; a leading dot must be written.
pub(super) fn glob(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    matches_from(&pattern, &name)
}

fn matches_from(pattern: &[char], name: &[char]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some(('*', rest)), _) => (0..=name.len()).any(|skip| {
            name.get(skip..)
                .is_some_and(|tail| matches_from(rest, tail))
        }),
        (Some(('?', rest)), Some((_, tail))) => matches_from(rest, tail),
        (Some((c, rest)), Some((n, tail))) => c == n && matches_from(rest, tail),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_file_names_do() {
        assert!(glob("*", "limits"));
        assert!(!glob("*", ".limits"));
        assert!(glob(".l*", ".limits"));
        assert!(glob("l?mits", "limits"));
        assert!(!glob("limit", "limits"));
    }
}
