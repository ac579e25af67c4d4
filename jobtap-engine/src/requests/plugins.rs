//! What administrators do with plugins: load, remove, reload, query; and a new configuration, which
//! plugins can refuse.

use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::purge::{self, LimitsError};
use super::queues::stop_at_restart;
use crate::alloc::alloc_queues::AllocQueues;
use crate::alloc::node_events::{self, NodeConfigError};
use crate::alloc::schedule;
use crate::allocation::Tables;
use crate::allocations::tables::{self, TablesError};
use crate::api::{Level, RequestError};
use crate::core::Core;
use crate::dispatch::call::{Called, call_one};
use crate::dispatch::faulted::{self, PanicLimitError};
use crate::dispatch::introduction::introduce_jobs;
use crate::dispatch::loading::{self, BudgetError};
use crate::dispatch::removal;
use crate::dispatch::shadow;
use crate::exec::config::ExecConfig;
use crate::host::errno::{EINVAL, ENOENT};
use crate::host::{BoundHandler, Detail, Fault, HandlerStats, LoadedPlugin, PluginKey, SetupError};
use crate::plugins::Plugins;
use crate::queue::Queues;
use crate::submissions::ingest::Ingest;
use crate::topic::TopicId;

fn invalid(text: impl Into<String>) -> RequestError {
    RequestError::new(EINVAL, text)
}

/// `job-manager.jobtap`: removes, then loads.
pub(super) fn remove_and_load(
    core: &mut Core,
    remove: Option<&str>,
    load: Option<&str>,
    conf: Option<Value>,
) -> Result<Value, RequestError> {
    if let Some(pattern) = remove {
        removal::remove(core, pattern)?;
    }
    if let Some(name) = load {
        // Flux loads a builtin over itself without complaint. Here that is a reload, so that the builtin is not loaded
        // twice.
        if name.starts_with('.') && loading::find_loaded(&core.plugins, name).is_ok() {
            return reload(core, name, conf);
        }
        let key = loading::load_named(core, name, conf)?;
        introduce_jobs(&mut core.turn.agenda, &core.jobs, &core.plugins, key);
    }
    Ok(names(&core.plugins))
}

fn names(plugins: &Plugins) -> Value {
    let names = plugins.stack.plugins().iter().map(|plugin| plugin.listed_as());
    json!({ "plugins": names.collect::<Vec<_>>() })
}

/// Builds a plugin anew, in its place, as an administrator requests.
pub(super) fn reload(
    core: &mut Core,
    name: &str,
    conf: Option<Value>,
) -> Result<Value, RequestError> {
    loading::rebuild(core, name, conf)?;
    core.plugins.shadows.forget_replaced(name.strip_suffix(".so").unwrap_or(name));
    Ok(names(&core.plugins))
}

/// `job-manager.jobtap-query`.
pub(super) fn query(core: &mut Core, name: &str) -> Result<Value, RequestError> {
    let plugin = Rc::clone(loading::find_loaded(&core.plugins, name)?);
    let mut response = Map::new();
    response.insert("name".to_owned(), json!(plugin.listed_as()));
    response.insert("path".to_owned(), json!(path(&plugin)));
    let handlers = core.plugins.stack.handlers(TopicId::PluginQuery);
    let own = |bound: &&BoundHandler| bound.plugin() == plugin.key();
    let Some(bound) = handlers.and_then(|list| list.iter().find(own)).cloned() else {
        return Ok(Value::Object(response));
    };
    let Called { result, commands } = call_one(core, &bound, TopicId::PluginQuery, Detail::None);
    core.turn.agenda.push_commands(TopicId::PluginQuery.name(), commands);
    let problem = match result {
        Ok(outcome) => {
            let data = outcome.decisions().query.unwrap_or_default();
            response.extend(data);
            return Ok(Value::Object(response));
        }
        Err(Fault::Failure(failure)) => failure.text().to_owned(),
        Err(Fault::Panic(text)) => {
            faulted::note_panic(&mut core.turn, &mut core.plugins, plugin.key());
            format!("panicked: {text}")
        }
        Err(Fault::Busy) => "called while it is being called".to_owned(),
    };
    core.turn.effects.log(Level::Error, format!("{name}: plugin.query: {problem}"));
    Err(invalid(format!("plugin.query failed: {problem}")))
}

/// Where a plugin comes from. Flux shows the path of a file here.
fn path(plugin: &LoadedPlugin) -> String {
    if plugin.name().starts_with('.') {
        return "builtin".to_owned();
    }
    let descriptor = plugin.descriptor();
    format!("{} {}", descriptor.crate_name, descriptor.crate_version)
}

/// Applies a new configuration, unless a part of the manager or a plugin refuses it.
///
/// It is shown to the plugins in stack order. The first refusal ends that, and the configuration stays as it was;
/// plugins before the one that refused have seen the new configuration.
///
/// Returns a line for each plugin that has a new table and follows it only when it is reloaded.
pub(super) fn configure(core: &mut Core, config: Value) -> Result<Vec<String>, RequestError> {
    // Everything that can be refused without a plugin is read first, so that plugins see a configuration
    // that the manager itself accepts.
    let queues = Queues::read(&config).map_err(|error| invalid(error.to_string()))?;
    let alloc_queues = AllocQueues::new(&queues, &core.plugins.registry);
    let alloc_queues = alloc_queues.map_err(|error| invalid(error.to_string()))?;
    stop_at_restart(&config).map_err(|error| invalid(error.0))?;
    let exec = ExecConfig::read(&config).map_err(|error| invalid(error.to_string()))?;
    let ingest = Ingest::read(&config).map_err(|error| invalid(error.to_string()))?;
    Tables::read(&config).map_err(|error| invalid(error.to_string()))?;
    let before = std::mem::replace(&mut core.config, config);
    let loaded = match read_and_show(core, &before) {
        Ok(loaded) => loaded,
        Err(error) => {
            core.config = before;
            // The former configuration was accepted before, so this cannot fail.
            let _ = read(core);
            return Err(invalid(error.to_string()));
        }
    };
    let waiting =
        loading::log_changed_tables(&mut core.turn.effects, &core.plugins, &core.config, &before);
    shadow::manage::show_config_to_all(core);
    core.submissions.ingest = ingest;
    core.alloc.queues.reconfigure(queues);
    core.alloc.alloc_queues.replace(alloc_queues);
    core.exec = exec;
    schedule::place_all_in_queues(&mut core.turn, &mut core.jobs, &mut core.alloc);
    purge::arm_heartbeat(&mut core.turn, &mut core.jobs, &mut core.timers);
    for key in loaded {
        introduce_jobs(&mut core.turn.agenda, &core.jobs, &core.plugins, key);
    }
    Ok(waiting)
}

/// Why a configuration can't come into force.
#[derive(Debug, thiserror::Error)]
enum NotInForce {
    #[error("{0}")]
    Budget(#[from] BudgetError),
    #[error("{0}")]
    PanicLimit(#[from] PanicLimitError),
    #[error("{0}")]
    Limits(#[from] LimitsError),
    #[error("{0}")]
    Nodes(#[from] NodeConfigError),
    #[error("{0}")]
    Allocations(#[from] TablesError),
    /// A plugin refuses it, or can't be built with it.
    #[error("{0}")]
    Plugin(#[from] SetupError),
}

/// Applies those parts of the configuration that are read in place.
fn read(core: &mut Core) -> Result<(), NotInForce> {
    let Core { turn, jobs, plugins, alloc, allocations, timers, config, started, .. } = core;
    loading::read_budget(plugins, config)?;
    faulted::read_limit(plugins, config)?;
    purge::read_limits(jobs, config)?;
    tables::reconfigure(turn, alloc, timers, allocations, config)?;
    Ok(node_events::read_config(turn, alloc, timers, config, *started)?)
}

/// Applies the configuration, shows it to the plugins, and loads those for which it has a new table.
fn read_and_show(core: &mut Core, before: &Value) -> Result<Vec<PluginKey>, NotInForce> {
    read(core)?;
    let keys: Vec<_> = core.plugins.stack.plugins().iter().map(|plugin| plugin.key()).collect();
    for key in keys {
        loading::show_config(core, key)?;
    }
    Ok(loading::load_newly_configured(core, before)?)
}

/// Statistics about the handlers of all plugins, or of one.
pub(crate) fn stats(
    plugins: &Plugins,
    name: Option<&str>,
) -> Result<Vec<(String, Vec<HandlerStats>)>, RequestError> {
    let stats = |plugin: &Rc<LoadedPlugin>| (plugin.name().to_string(), plugin.stats());
    match name {
        Some(name) => Ok(vec![stats(loading::find_loaded(plugins, name)?)]),
        None => Ok(plugins.stack.plugins().iter().map(stats).collect()),
    }
}

/// The JSON Schema of a linked plugin's own configuration; null when it takes none.
pub(crate) fn schema(plugins: &Plugins, name: &str) -> Result<Value, RequestError> {
    let name = name.strip_suffix(".so").unwrap_or(name);
    let linked = plugins.registry.find(name).ok_or_else(|| {
        let text = format!("{name}: no plugin of this name is linked into this manager");
        RequestError::new(ENOENT, text)
    })?;
    Ok((linked.schema)().unwrap_or_default())
}
