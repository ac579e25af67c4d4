//! Loads plugins by default, as configured or on request, and rebuilds them in their places.

use std::rc::Rc;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::call::{Called, call_one};
use super::introduction::introduce_jobs;
use super::{faulted, patterns, removal};
use crate::api::{Effects, Level, RequestError, StartError};
use crate::core::Core;
use crate::host::errno::{EEXIST, EINVAL, ENOENT};
use crate::host::{
    BoundHandler, Detail, InitArgs, Load, LoadedPlugin, PluginDescriptor, PluginKey, RemoteHandle,
    SetupError,
};
use crate::job::Fsd;
use crate::json_type;
use crate::plugins::{DEFAULT_BUDGET, Plugins};
use crate::suggest;
use crate::topic::TopicId;

type Linked = &'static PluginDescriptor;

/// A loaded plugin, for lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginStatus {
    /// The name by which it was loaded: with `.so` if the configuration or request wrote it so.
    pub name: String,
    /// The crate that it comes from.
    pub crate_name: &'static str,
    /// The version of that crate.
    pub version: &'static str,
    /// It has panicked too often and is not called until it is loaded anew.
    pub faulted: bool,
}

/// The loaded plugins in stack order.
pub(crate) fn list(plugins: &Plugins) -> Vec<PluginStatus> {
    plugins.stack.plugins().iter().map(|plugin| status(plugin)).collect()
}

/// A plugin's entry in lists.
pub(crate) fn status(plugin: &LoadedPlugin) -> PluginStatus {
    PluginStatus {
        name: plugin.listed_as().to_owned(),
        crate_name: plugin.descriptor().crate_name,
        version: plugin.descriptor().crate_version,
        faulted: plugin.is_faulted(),
    }
}

/// Loads the plugins of a new manager: those with `load = "auto"`, then what `[job-manager] plugins`
/// says in its order, then those that have a table in the configuration, then those that come last.
pub(crate) fn load_configured(core: &mut Core) -> Result<(), StartError> {
    read_budget(&mut core.plugins, &core.config).map_err(StartError::from_error)?;
    faulted::read_limit(&mut core.plugins, &core.config).map_err(StartError::from_error)?;
    let mut auto = configured_order(&core.plugins, &core.config)
        .map_err(|error| StartError(format!("job-manager.plugin-order: {error}")))?;
    if core.allocations.tables.is_empty() {
        auto.retain(|plugin| !plugin.only_plans());
    }
    load_all(core, auto)?;
    let registry = &core.plugins.registry;
    let configured = registry.configured().filter(|plugin| has_table(&core.config, plugin));
    let mut last: Vec<_> = configured.chain(registry.last()).collect();
    let directives = match core.config.pointer("/job-manager/plugins").cloned() {
        None => Vec::new(),
        Some(Value::Array(directives)) => directives,
        Some(_) => {
            let text = "[job-manager.plugins] config must be an array";
            return Err(StartError(text.to_owned()));
        }
    };
    for (index, directive) in directives.iter().enumerate() {
        follow_directive(core, directive, &mut last)
            .map_err(|error| StartError(format!("[job-manager.plugins][{index}]: {error}")))?;
    }
    last.retain(|plugin| core.plugins.stack.find(plugin.name).is_none());
    load_all(core, last)?;
    core.plugins.warn_without_priority(&mut core.turn.effects);
    Ok(())
}

/// Why the order in `job-manager.plugin-order` can't be kept.
#[derive(Debug, thiserror::Error)]
enum OrderError {
    #[error("must be an array of names of plugins")]
    NoNames,
    #[error("{0}")]
    NotLinked(#[from] NotLinked),
    #[error("{0} is not loaded by default: it comes after those that are")]
    ComesLater(String),
    #[error("{0} is named twice")]
    Twice(String),
    #[error("{first} must come before {second}, as one of them declares in `before` or `after`")]
    Declared { first: &'static str, second: &'static str },
}

/// The plugins with `load = "auto"`. Those that `job-manager.plugin-order` names come in its order: they share the
/// places that they would have without it, so that the others stay where they are.
fn configured_order(plugins: &Plugins, config: &Value) -> Result<Vec<Linked>, OrderError> {
    let mut auto: Vec<Linked> = plugins.registry.auto().collect();
    let names = match config.pointer("/job-manager/plugin-order") {
        None => return Ok(auto),
        Some(names) => {
            serde_json::from_value::<Vec<String>>(names.clone()).map_err(|_| OrderError::NoNames)?
        }
    };
    let mut wanted: Vec<Linked> = Vec::new();
    for name in &names {
        let plugin = plugins.registry.find(name).ok_or_else(|| not_linked(plugins, name, name))?;
        if plugin.load != Load::Auto {
            return Err(OrderError::ComesLater(name.clone()));
        }
        if wanted.iter().any(|earlier| earlier.name == plugin.name) {
            return Err(OrderError::Twice(name.clone()));
        }
        wanted.push(plugin);
    }
    let is_named = |plugin: &&mut Linked| names.iter().any(|name| name == plugin.name);
    auto.iter_mut().filter(is_named).zip(wanted).for_each(|(place, plugin)| *place = plugin);
    for (index, later) in auto.iter().enumerate() {
        for earlier in auto.iter().take(index) {
            if later.before.contains(&earlier.name) || earlier.after.contains(&later.name) {
                return Err(OrderError::Declared { first: later.name, second: earlier.name });
            }
        }
    }
    Ok(auto)
}

fn load_all(core: &mut Core, plugins: Vec<Linked>) -> Result<(), StartError> {
    for plugin in plugins {
        load(core, plugin, plugin.name, None).map_err(|error| {
            StartError(format!("plugin {} can't be loaded: {error}", plugin.name))
        })?;
    }
    Ok(())
}

/// Loads the plugins that have a table in the configuration now and had none `before`; all of them, or none. A plugin
/// that had a table and is not loaded was removed by an administrator, and stays removed.
pub(crate) fn load_newly_configured(
    core: &mut Core,
    before: &Value,
) -> Result<Vec<PluginKey>, SetupError> {
    let is_new = |plugin: &Linked| {
        has_table(&core.config, plugin)
            && !has_table(before, plugin)
            && core.plugins.stack.find(plugin.name).is_none()
    };
    let new: Vec<Linked> = core.plugins.registry.configured().filter(is_new).collect();
    let mut keys = Vec::new();
    for plugin in new {
        match load(core, plugin, plugin.name, None) {
            Ok(key) => keys.push(key),
            Err(error) => {
                let loaded = core.plugins.stack.remove(|loaded| keys.contains(&loaded.key()));
                loaded
                    .into_iter()
                    .for_each(|plugin| removal::drop_instance(&mut core.turn.effects, plugin));
                return Err(error);
            }
        }
    }
    Ok(keys)
}

/// Why an entry of `[job-manager] plugins` can't be carried out.
#[derive(Debug, thiserror::Error)]
enum DirectiveError {
    #[error("Expected object, got {0}")]
    NoObject(&'static str),
    #[error("Expected string, got {0}")]
    NoString(&'static str),
    #[error("unknown key {0:?}: use load, remove, conf")]
    UnknownKey(String),
    #[error("remove {name}: {}", error.text)]
    Remove { name: String, error: RequestError },
    #[error("load: {}", .0.text)]
    Load(RequestError),
}

/// Carries out one entry of `[job-manager] plugins`. `last` are the plugins that are loaded after all entries; an entry
/// can remove some of them.
fn follow_directive(
    core: &mut Core,
    directive: &Value,
    last: &mut Vec<Linked>,
) -> Result<(), DirectiveError> {
    let Value::Object(table) = directive else {
        return Err(DirectiveError::NoObject(json_type(directive)));
    };
    let text = |key: &str| match table.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(DirectiveError::NoString(json_type(other))),
    };
    if let Some(key) = table.keys().find(|key| !["load", "remove", "conf"].contains(&&***key)) {
        return Err(DirectiveError::UnknownKey(key.clone()));
    }
    if let Some(name) = text("remove")? {
        let count = last.len();
        last.retain(|plugin| !patterns::means(&name, plugin.name, plugin.name));
        let removed = removal::remove(core, &name);
        if count == last.len() {
            removed.map_err(|error| DirectiveError::Remove { name, error })?;
        }
    }
    if let Some(name) = text("load")? {
        let conf = table.get("conf").cloned();
        load_named(core, &name, conf).map_err(DirectiveError::Load)?;
    }
    Ok(())
}

/// The value of `job-manager.plugin-time-budget` is no duration.
#[derive(Debug, thiserror::Error)]
#[error("job-manager.plugin-time-budget: {0}")]
pub(crate) struct BudgetError(serde_json::Error);

/// Applies `job-manager.plugin-time-budget` from the configuration.
pub(crate) fn read_budget(plugins: &mut Plugins, config: &Value) -> Result<(), BudgetError> {
    plugins.budget = match config.pointer("/job-manager/plugin-time-budget") {
        None => DEFAULT_BUDGET,
        Some(value) => {
            let fsd: Fsd = serde_json::from_value(value.clone()).map_err(BudgetError)?;
            // An FSD is not negative; fractions of a millisecond are cut off.
            (fsd.as_secs() * 1000.0) as u64
        }
    };
    Ok(())
}

/// Loads a linked plugin by the name that a client or the configuration gives.
pub(crate) fn load_named(
    core: &mut Core,
    name: &str,
    conf: Option<Value>,
) -> Result<PluginKey, RequestError> {
    let (listed, bare) = names_of(name);
    let linked = find_linked(&core.plugins, name, conf.as_ref());
    if core.plugins.stack.find(bare).is_some() {
        return Err(RequestError::new(EEXIST, format!("{listed} already loaded")));
    }
    load(core, linked?, listed, conf).map_err(refused)
}

fn refused(error: SetupError) -> RequestError {
    RequestError::new(EINVAL, error.to_string())
}

/// The loaded plugin that a client means.
pub(crate) fn find_loaded<'a>(
    plugins: &'a Plugins,
    name: &str,
) -> Result<&'a Rc<LoadedPlugin>, RequestError> {
    let bare = name.strip_suffix(".so").unwrap_or(name);
    if let Some(loaded) = plugins.stack.find(bare) {
        return Ok(loaded);
    }
    let text = match plugins.registry.find(bare) {
        // Not for a plugin that is loaded by default: an administrator has removed it on purpose.
        Some(linked) if matches!(linked.load, Load::ByName | Load::Configured) => {
            format!("{name}: plugin not found: it is linked and not loaded")
        }
        _ => format!("{name}: plugin not found"),
    };
    Err(RequestError::new(ENOENT, text))
}

/// Builds a plugin anew, in its place. If it refuses its configuration, the old instance stays.
pub(crate) fn rebuild(
    core: &mut Core,
    name: &str,
    conf: Option<Value>,
) -> Result<(), RequestError> {
    let old = Rc::clone(find_loaded(&core.plugins, name)?);
    let new = build(core, old.descriptor(), old.listed_as(), conf).map_err(refused)?;
    let key = new.key();
    let old = core.plugins.stack.replace(&old, new);
    if let Err(error) = show_config(core, key) {
        if let Some(refused) = old.and_then(|old| core.plugins.stack.put_back(key, old)) {
            removal::drop_instance(&mut core.turn.effects, refused);
        }
        return Err(refused(error));
    }
    if let Some(old) = old {
        removal::remove_replaced(core, old);
    }
    introduce_jobs(&mut core.turn.agenda, &core.jobs, &core.plugins, key);
    Ok(())
}

/// The name by which a plugin is listed, and the plugin's own. Flux names a plugin by its file; here plugins are
/// linked, so that a path and `.so` mean nothing.
pub(crate) fn names_of(name: &str) -> (&str, &str) {
    let listed = name.rsplit('/').next().unwrap_or(name);
    (listed, listed.strip_suffix(".so").unwrap_or(listed))
}

/// The linked plugin that a client or the configuration means. Refuses a `conf` that is not an object.
pub(crate) fn find_linked(
    plugins: &Plugins,
    name: &str,
    conf: Option<&Value>,
) -> Result<Linked, RequestError> {
    if conf.is_some_and(|conf| !conf.is_object() && !conf.is_null()) {
        return Err(refused(SetupError::NoObject));
    }
    let (_, bare) = names_of(name);
    let linked = plugins.registry.find(bare);
    linked.ok_or_else(|| RequestError::new(ENOENT, not_linked(plugins, name, bare).to_string()))
}

/// No plugin of this name is linked; the name that was probably meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name}: No such plugin found{hint}",
    hint = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default()
)]
struct NotLinked {
    name: String,
    meant: Option<&'static str>,
}

/// The error for a plugin that is not linked.
fn not_linked(plugins: &Plugins, name: &str, bare: &str) -> NotLinked {
    let linked = plugins.registry.plugins().map(|plugin| plugin.name);
    NotLinked { name: name.to_owned(), meant: suggest::nearest(bare, linked) }
}

/// Builds an instance, shows it the configuration, and puts it at the end of the stack.
fn load(
    core: &mut Core,
    descriptor: Linked,
    listed: &str,
    conf: Option<Value>,
) -> Result<PluginKey, SetupError> {
    let instance = build(core, descriptor, listed, conf)?;
    let key = instance.key();
    // On the stack before `conf.update`: the handler is found there, and what it asks for is carried out by
    // the plugin's key.
    core.plugins.stack.push(instance);
    if let Err(error) = show_config(core, key) {
        let refused = core.plugins.stack.remove(|plugin| plugin.key() == key);
        refused
            .into_iter()
            .for_each(|plugin| removal::drop_instance(&mut core.turn.effects, plugin));
        return Err(error);
    }
    for service in descriptor.handlers.iter().filter(|handler| handler.topic == "service") {
        let topic = service_topic(descriptor.name, service.key);
        let text = format!("jobtap plugin {listed} registered method {topic}");
        core.turn.effects.log(Level::Debug, text);
    }
    Ok(key)
}

/// Builds an instance of a plugin, which is not on the stack yet.
pub(crate) fn build(
    core: &mut Core,
    descriptor: Linked,
    listed: &str,
    conf: Option<Value>,
) -> Result<LoadedPlugin, SetupError> {
    let key = PluginKey(core.plugins.next_key);
    // Used up even if the plugin is refused below. Keys are never used twice, so that late work of a refused
    // instance finds no plugin.
    core.plugins.next_key += 1;
    let name: Arc<str> = Arc::from(descriptor.name);
    let sink = Arc::clone(&core.plugins.sink);
    let remote =
        RemoteHandle::new(key, Arc::clone(&name), sink).metered(core.plugins.ticks.clone());
    let given = conf.clone();
    let conf = merged_conf(&core.config, descriptor.name, conf)?;
    let args = InitArgs {
        name: descriptor.name,
        conf: &conf,
        instance_conf: &core.config,
        conf_directory: core.config_directory.as_deref(),
        remote: remote.clone(),
    };
    let instance = descriptor.build(&args)?;
    Ok(LoadedPlugin::new(descriptor, listed, instance, remote).with_given(given))
}

/// A plugin's configuration: the `conf` that was given at load over `[plugins.NAME]`.
pub(crate) fn merged_conf(
    config: &Value,
    name: &str,
    conf: Option<Value>,
) -> Result<Value, SetupError> {
    let table = config.get("plugins").and_then(|plugins| plugins.get(name));
    let mut merged = match table {
        None => Map::new(),
        Some(Value::Object(table)) => table.clone(),
        Some(_) => return Err(SetupError::NoTable(name.to_owned())),
    };
    match conf {
        None | Some(Value::Null) => {}
        Some(Value::Object(conf)) => merged.extend(conf),
        Some(_) => return Err(SetupError::NoObject),
    }
    Ok(Value::Object(merged))
}

/// Calls `conf.update` of one plugin with the present configuration. An error is its refusal.
pub(crate) fn show_config(core: &mut Core, key: PluginKey) -> Result<(), SetupError> {
    let handlers = core.plugins.stack.handlers(TopicId::ConfUpdate);
    let own = |bound: &&BoundHandler| bound.plugin() == key && !bound.instance().is_faulted();
    let Some(bound) = handlers.and_then(|list| list.iter().find(own)).cloned() else {
        return Ok(());
    };
    let name = bound.instance().name();
    let instance = core.config.clone();
    let own = merged_conf(&instance, name, bound.instance().given().cloned())?;
    let detail = Detail::Conf { instance: &instance, own: &own, name };
    let Called { result, commands } = call_one(core, &bound, TopicId::ConfUpdate, detail);
    match result {
        Ok(_) => {
            core.turn.agenda.push_commands(TopicId::ConfUpdate.name(), commands);
            Ok(())
        }
        // A panic isn't counted by `faulted`: the configuration is refused, so an administrator learns of it at once.
        Err(fault) => Err(SetupError::of_update(name, fault)),
    }
}

/// Logs which plugins have a new table, and whether they follow it: a plugin that doesn't handle `conf.update`
/// keeps its settings until it is reloaded. Returns the lines about those that don't.
pub(crate) fn log_changed_tables(
    effects: &mut Effects,
    plugins: &Plugins,
    config: &Value,
    before: &Value,
) -> Vec<String> {
    let table = |config: &Value, name: &str| -> Option<Value> {
        config.get("plugins").and_then(|plugins| plugins.get(name)).cloned()
    };
    let (mut following, mut waiting) = (Vec::new(), Vec::new());
    for plugin in plugins.stack.plugins() {
        let name = plugin.name();
        if table(before, name) == table(config, name) {
            continue;
        }
        let mut entries = plugin.descriptor().handlers.iter();
        if entries.any(|entry| entry.id == TopicId::ConfUpdate) {
            following.push(format!("{name}: conf.update has accepted the new [plugins.{name}]"));
        } else {
            waiting.push(format!(
                "{name}: [plugins.{name}] has changed, and takes effect with `jobtap plugin reload {name}`"
            ));
        }
    }
    for line in following.iter().chain(&waiting) {
        effects.log(Level::Info, line.clone());
    }
    waiting
}

/// The service name under which clients reach a method of a plugin.
fn service_topic(plugin: &str, method: &str) -> String {
    let plugin = plugin.strip_prefix('.').unwrap_or(plugin);
    let dot = if method.is_empty() { "" } else { "." };
    format!("job-manager.{plugin}{dot}{method}")
}

/// Whether the configuration has a table for a plugin with `load = "configured"`.
fn has_table(config: &Value, plugin: &PluginDescriptor) -> bool {
    let has = |of: &str| config.get(of).is_some_and(|of| of.get(plugin.name).is_some());
    has("plugins") || has("job-manager")
}
