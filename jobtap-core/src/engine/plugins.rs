//! Loaded plugins: their instances, their handlers by topic, loading and removing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use super::callback::{Callback, Subject};
use super::faulted::Conduct;
use super::{Engine, Level, RequestError, StartError};
use crate::host::{
    Bound, Detail, Failure, Fault, InitArgs, Instance, PluginDescriptor, PluginKey, Registry,
    RemoteHandle, RemoteSink, Stack, Ticks, panic_text,
};
use crate::job::Fsd;
use crate::suggest;
use crate::topic::TopicId;

const EEXIST: i32 = 17;
const ENOENT: i32 = 2;
const EINVAL: i32 = 22;

/// A conf of another kind, in Flux's words.
const NO_OBJECT: &str = "jobptap: plugin conf must be a JSON object";

type Linked = &'static PluginDescriptor;

/// Milliseconds that a handler may take, unless `job-manager.plugin-time-budget` says otherwise.
const BUDGET: u64 = 100;

/// The loaded plugins, and what is needed to load more.
pub(super) struct Plugins {
    pub(super) registry: Registry,
    sink: Arc<dyn RemoteSink>,
    pub(super) stack: Stack,
    pub(super) ticks: Ticks,
    /// See [`BUDGET`].
    pub(super) budget: u64,
    pub(super) conducts: FxHashMap<PluginKey, Conduct>,
    next: u64,
}

/// A loaded plugin, for lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginStatus {
    /// The name by which it was loaded: with `.so` where Flux's configuration writes it so.
    pub name: String,
    /// The crate that it comes from.
    pub crate_name: &'static str,
    /// That crate's version.
    pub version: &'static str,
    /// It panicked too often and is out of service until it is loaded anew.
    pub faulted: bool,
}

impl Plugins {
    pub(super) fn new(registry: Registry, sink: Arc<dyn RemoteSink>, ticks: Ticks) -> Self {
        Self {
            registry,
            sink,
            stack: Stack::default(),
            ticks,
            budget: BUDGET,
            conducts: FxHashMap::default(),
            next: 0,
        }
    }

    pub(super) fn name(&self, key: PluginKey) -> Arc<str> {
        let loaded = self.stack.get(key);
        loaded.map_or_else(|| Arc::from("a removed plugin"), |plugin| Arc::clone(plugin.name()))
    }
}

impl Engine {
    /// The loaded plugins in load order.
    pub fn plugins(&self) -> Vec<PluginStatus> {
        let status = |plugin: &Rc<Instance>| PluginStatus {
            name: plugin.listed_as().to_owned(),
            crate_name: plugin.descriptor().crate_name,
            version: plugin.descriptor().crate_version,
            faulted: plugin.is_faulted(),
        };
        self.plugins.stack.plugins().iter().map(status).collect()
    }

    /// Loads what loads by itself, then follows `[job-manager] plugins` in its order, then loads what
    /// the configuration has a table for, and what comes last.
    pub(super) fn load_configured(&mut self) -> Result<(), StartError> {
        self.read_budget().map_err(StartError)?;
        let auto: Vec<_> = self.plugins.registry.auto().collect();
        self.load_unasked(auto)?;
        let configured = self.plugins.registry.configured().filter(|p| asks_for(&self.config, p));
        let mut last: Vec<_> = configured.chain(self.plugins.registry.last()).collect();
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
            self.follow_directive(directive, &mut last)
                .map_err(|text| StartError(format!("[job-manager.plugins][{index}]: {text}")))?;
        }
        last.retain(|plugin| self.plugins.stack.find(plugin.name).is_none());
        self.load_unasked(last)?;
        self.warn_without_priority();
        Ok(())
    }

    fn load_unasked(&mut self, plugins: Vec<Linked>) -> Result<(), StartError> {
        for plugin in plugins {
            self.load(plugin, plugin.name, None).map_err(|text| {
                StartError(format!("plugin {} can't be loaded: {text}", plugin.name))
            })?;
        }
        Ok(())
    }

    /// Loads the plugins for which the configuration has a table now and had none before: others were
    /// taken out by an administrator. All of them, or none.
    pub(super) fn load_newly_configured(
        &mut self,
        before: &Value,
    ) -> Result<Vec<PluginKey>, String> {
        let is_new = |plugin: &Linked| {
            asks_for(&self.config, plugin)
                && !asks_for(before, plugin)
                && self.plugins.stack.find(plugin.name).is_none()
        };
        let new: Vec<Linked> = self.plugins.registry.configured().filter(is_new).collect();
        let mut keys = Vec::new();
        for plugin in new {
            match self.load(plugin, plugin.name, None) {
                Ok(key) => keys.push(key),
                Err(text) => {
                    let loaded = self.plugins.stack.remove(|loaded| keys.contains(&loaded.key()));
                    loaded.into_iter().for_each(|plugin| self.drop_plugin(plugin));
                    return Err(text);
                }
            }
        }
        Ok(keys)
    }

    pub(super) fn warn_without_priority(&mut self) {
        // Some only look on there: a job has left DEPEND.
        let handlers = self.plugins.stack.handlers(TopicId::JobStatePriority);
        if !handlers.is_some_and(|list| list.iter().any(|bound| bound.entry().answers)) {
            let text = "no loaded plugin decides priorities in job.state.priority: jobs will wait in \
                        PRIORITY until one does";
            self.log(Level::Warning, text);
        }
    }

    fn follow_directive(
        &mut self,
        directive: &Value,
        last: &mut Vec<Linked>,
    ) -> Result<(), String> {
        let Value::Object(table) = directive else {
            return Err("entry must be a table".to_owned());
        };
        let text = |key: &str| match table.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("{key} must be a string")),
        };
        if let Some(key) = table.keys().find(|key| !["load", "remove", "conf"].contains(&&***key)) {
            return Err(format!("unknown key {key:?}: use load, remove, conf"));
        }
        if let Some(name) = text("remove")? {
            let count = last.len();
            last.retain(|plugin| !names(&name, plugin.name, plugin.name));
            let removed = self.remove_plugins(&name);
            if count == last.len() {
                removed.map_err(|error| format!("remove {name}: {}", error.text))?;
            }
        }
        if let Some(name) = text("load")? {
            let conf = table.get("conf").cloned();
            self.load_named(&name, conf).map_err(|error| format!("load: {}", error.text))?;
        }
        Ok(())
    }

    /// `job-manager.plugin-time-budget` of the configuration.
    pub(super) fn read_budget(&mut self) -> Result<(), String> {
        let key = "job-manager.plugin-time-budget";
        self.plugins.budget = match self.config.pointer("/job-manager/plugin-time-budget") {
            None => BUDGET,
            Some(value) => {
                let fsd: Fsd =
                    serde_json::from_value(value.clone()).map_err(|e| format!("{key}: {e}"))?;
                // Whole milliseconds; not negative by its type.
                (fsd.as_secs() * 1000.0) as u64
            }
        };
        Ok(())
    }

    pub(super) fn load_named(
        &mut self,
        name: &str,
        conf: Option<Value>,
    ) -> Result<PluginKey, RequestError> {
        if conf.as_ref().is_some_and(|conf| !conf.is_object() && !conf.is_null()) {
            return Err(RequestError { errno: EINVAL, text: NO_OBJECT.to_owned() });
        }
        // Flux names plugins by their files; here a plugin is linked, so path and suffix find nothing.
        let listed = name.rsplit('/').next().unwrap_or(name);
        let bare = listed.strip_suffix(".so").unwrap_or(listed);
        if self.plugins.stack.find(bare).is_some() {
            let text = format!("{listed} already loaded");
            return Err(RequestError { errno: EEXIST, text });
        }
        let descriptor = self
            .plugins
            .registry
            .find(bare)
            .ok_or_else(|| RequestError { errno: ENOENT, text: self.no_such_plugin(name, bare) })?;
        self.load(descriptor, listed, conf).map_err(|text| RequestError { errno: EINVAL, text })
    }

    /// A plugin that isn't linked, with the one that was probably meant.
    fn no_such_plugin(&self, name: &str, bare: &str) -> String {
        let linked = self.plugins.registry.plugins().map(|plugin| plugin.name);
        match suggest::nearest(bare, linked) {
            Some(meant) => format!("{name}: No such plugin found; did you mean {meant}?"),
            None => format!("{name}: No such plugin found"),
        }
    }

    /// Builds an instance, shows it the configuration, and puts it at the end of the list.
    fn load(
        &mut self,
        descriptor: &'static PluginDescriptor,
        listed: &str,
        conf: Option<Value>,
    ) -> Result<PluginKey, String> {
        let instance = self.build(descriptor, listed, conf)?;
        let key = instance.key();
        self.plugins.stack.push(instance);
        if let Err(text) = self.show_config(key, None) {
            let refused = self.plugins.stack.remove(|plugin| plugin.key() == key);
            refused.into_iter().for_each(|plugin| self.drop_plugin(plugin));
            return Err(text);
        }
        for service in descriptor.handlers.iter().filter(|handler| handler.topic == "service") {
            let topic = service_topic(descriptor.name, service.key);
            let text = format!("jobtap plugin {listed} registered method {topic}");
            self.log(Level::Debug, text);
        }
        Ok(key)
    }

    /// Builds an instance.
    pub(super) fn build(
        &mut self,
        descriptor: &'static PluginDescriptor,
        listed: &str,
        conf: Option<Value>,
    ) -> Result<Instance, String> {
        let key = PluginKey(self.plugins.next);
        self.plugins.next += 1;
        let name: Arc<str> = Arc::from(descriptor.name);
        let sink = Arc::clone(&self.plugins.sink);
        let remote = RemoteHandle::new(key, Arc::clone(&name), sink);
        let conf = self.plugin_conf(descriptor.name, conf)?;
        let key_of = |conf: &Value| conf.as_object()?.keys().next().cloned();
        if let Some(stray) = key_of(&conf).filter(|_| (descriptor.schema)().is_none()) {
            return Err(format!(
                "[plugins.{}]: unknown key {stray:?}: this plugin takes no configuration",
                descriptor.name
            ));
        }
        let args = InitArgs {
            name: descriptor.name,
            conf: &conf,
            instance_conf: &self.config,
            remote: remote.clone(),
        };
        let instance = catch_unwind(AssertUnwindSafe(|| (descriptor.new)(&args)))
            .map_err(|panic| format!("#[init] panicked: {}", panic_text(&*panic)))?
            .map_err(|error| error.text().to_owned())?;
        Ok(Instance::new(descriptor, listed, instance, remote))
    }

    /// The conf given at load over `[plugins.NAME]`.
    fn plugin_conf(&self, name: &str, conf: Option<Value>) -> Result<Value, String> {
        let table = self.config.get("plugins").and_then(|plugins| plugins.get(name));
        let mut merged = match table {
            None => Map::new(),
            Some(Value::Object(table)) => table.clone(),
            Some(_) => return Err(format!("[plugins.{name}] must be a table")),
        };
        match conf {
            None | Some(Value::Null) => {}
            Some(Value::Object(conf)) => merged.extend(conf),
            Some(_) => return Err(NO_OBJECT.to_owned()),
        }
        Ok(Value::Object(merged))
    }

    /// `conf.update` for one plugin: with a proposed configuration, or the present one.
    pub(super) fn show_config(
        &mut self,
        key: PluginKey,
        proposed: Option<&Value>,
    ) -> Result<(), String> {
        let handlers = self.plugins.stack.handlers(TopicId::ConfUpdate);
        let own = |bound: &&Bound| bound.plugin() == key;
        let Some(bound) = handlers.and_then(|list| list.iter().find(own)).cloned() else {
            return Ok(());
        };
        let conf = proposed.unwrap_or(&self.config);
        let subject = Subject { topic: TopicId::ConfUpdate, job: None, detail: Detail::Conf(conf) };
        let Callback { result, commands, panicked, milliseconds } = self.callback(&bound, subject);
        if milliseconds > self.plugins.budget {
            self.over_budget(&bound, None, milliseconds);
        }
        self.note_panics(panicked);
        let name = bound.instance().name();
        match result {
            Ok(_) => {
                self.stack_commands(TopicId::ConfUpdate.name(), commands);
                Ok(())
            }
            Err(Fault::Failure(Failure::Reject(text))) if !text.is_empty() => Err(text),
            Err(Fault::Failure(_) | Fault::Busy) => {
                Err(format!("config rejected by {name} jobtap plugin"))
            }
            Err(Fault::Panic(text)) => Err(format!("conf.update panicked: {text}")),
        }
    }
}

/// What clients ask for to reach a service.
fn service_topic(plugin: &str, method: &str) -> String {
    let plugin = plugin.strip_prefix('.').unwrap_or(plugin);
    let dot = if method.is_empty() { "" } else { "." };
    format!("job-manager.{plugin}{dot}{method}")
}

/// Whether a configuration has a table for a plugin that is loaded by that.
fn asks_for(config: &Value, plugin: &PluginDescriptor) -> bool {
    let has = |of: &str| config.get(of).is_some_and(|of| of.get(plugin.name).is_some());
    has("plugins") || has("job-manager")
}

/// Whether a pattern, by which plugins are removed, means this one: an exact name, a glob, or `all`
/// (every one without a leading dot).
pub(super) fn names(pattern: &str, name: &str, listed_as: &str) -> bool {
    match pattern {
        "all" => !name.starts_with('.'),
        pattern => {
            let bare = pattern.strip_suffix(".so").unwrap_or(pattern);
            glob(bare, name) || glob(pattern, listed_as)
        }
    }
}

/// Shell patterns for names: `*`, `?`, `[a-z]`, `[!a-z]`; a leading dot must be written.
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
        (Some(('*', rest)), _) => (0..=name.len())
            .any(|skip| name.get(skip..).is_some_and(|tail| matches_from(rest, tail))),
        (Some(('?', rest)), Some((_, tail))) => matches_from(rest, tail),
        (Some(('[', rest)), Some((n, tail))) => match rest.iter().position(|c| *c == ']') {
            Some(end) => {
                let (set, after) = rest.split_at(end);
                in_set(set, *n) && matches_from(after.get(1..).unwrap_or_default(), tail)
            }
            None => *n == '[' && matches_from(rest, tail),
        },
        (Some((c, rest)), Some((n, tail))) => c == n && matches_from(rest, tail),
        _ => false,
    }
}

/// Whether a character is in the set between brackets.
fn in_set(set: &[char], c: char) -> bool {
    let (negated, set) = match set.split_first() {
        Some(('!' | '^', rest)) => (true, rest),
        _ => (false, set),
    };
    let mut found = false;
    let mut left = set;
    while let Some((first, rest)) = left.split_first() {
        left = match rest {
            ['-', last, rest @ ..] => {
                found |= (*first..=*last).contains(&c);
                rest
            }
            rest => {
                found |= *first == c;
                rest
            }
        };
    }
    found != negated
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
        assert!(glob("[a-m]imits", "limits"));
        assert!(!glob("[!k-m]imits", "limits"));
        assert!(!glob("[xyz]*", "limits"));
        assert!(glob("a[", "a["));
    }
}
