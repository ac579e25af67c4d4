//! How shadows are loaded and removed, how a shadow becomes live, and how a live plugin becomes a shadow.

use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::call::{Charge, Topic, call, log};
use super::introduction;
use super::report::unknown;
use crate::api::{Effects, Level, RequestError, ShadowRequest};
use crate::core::Core;
use crate::dispatch::introduction::introduce_jobs;
use crate::dispatch::loading::{self, PluginStatus};
use crate::dispatch::removal;
use crate::host::errno::{EEXIST, EINVAL, ENOENT};
use crate::host::{Detail, PluginDescriptor, PluginKey, SetupError, Stack};
use crate::plugins::Plugins;
use crate::shadows::budget::Budget;
use crate::shadows::findings::Findings;
use crate::shadows::later::Later;
use crate::shadows::{OnJob, Shadow};
use crate::timers::Timers;
use crate::topic::TopicId;
use crate::transcript::fault_text;

fn invalid(text: impl Into<String>) -> RequestError {
    RequestError::new(EINVAL, text)
}

fn refused(error: SetupError) -> RequestError {
    invalid(error.to_string())
}

/// The shadows, for lists.
pub(crate) fn list(plugins: &Plugins) -> Vec<PluginStatus> {
    let status = |shadow: &Shadow| PluginStatus {
        faulted: shadow.stopped.is_some(),
        ..loading::status(&shadow.plugin)
    };
    plugins.shadows.iter().map(status).collect()
}

/// Handles a request about shadows.
pub(crate) fn handle(core: &mut Core, request: ShadowRequest) -> Result<Value, RequestError> {
    match request {
        ShadowRequest::Load { name, conf } => load(core, &name, conf),
        ShadowRequest::Remove { name } => remove(core, &name),
        ShadowRequest::Query { name } => query(core, &name),
        ShadowRequest::Promote { name } => promote(core, &name),
        ShadowRequest::Demote { name } => demote(core, &name),
    }
}

/// Loads a linked plugin as a shadow.
fn load(core: &mut Core, name: &str, conf: Option<Value>) -> Result<Value, RequestError> {
    let (listed, bare) = loading::names_of(name);
    let linked = loading::find_linked(&core.plugins, name, conf.as_ref())?;
    if core.plugins.shadows.find(bare).is_some() {
        let text = format!("{listed} already loaded as a shadow; remove that one first");
        return Err(RequestError::new(EEXIST, text));
    }
    let key = add(core, linked, listed, conf).map_err(refused)?;
    introduction::introduce(core, key);
    Ok(json!({}))
}

/// Builds a shadow and shows it the configuration.
fn add(
    core: &mut Core,
    linked: &'static PluginDescriptor,
    listed: &str,
    conf: Option<Value>,
) -> Result<PluginKey, SetupError> {
    let plugin = loading::build(core, linked, listed, conf)?;
    let key = plugin.key();
    let mut stack = Stack::default();
    let plugin = stack.push(plugin);
    let data = introduction::data_of(&core.jobs, linked.name).into_iter();
    let jobs = data.map(|(id, data)| (id, OnJob { data, ..OnJob::default() })).collect();
    core.plugins.shadows.push(Shadow {
        plugin,
        stack,
        loaded_at: core.turn.clock.now,
        newest_at_load: core.jobs.newest_id,
        jobs,
        instance_data: core.plugins.instance_data.get(linked.name).cloned(),
        findings: Findings::default(),
        later: Later::default(),
        budget: Budget::new(core.turn.clock.now),
        panics: Vec::new(),
        stopped: None,
        is_asked: false,
    });
    if let Err(error) = show_config(core, key) {
        drop_shadow(&mut core.turn.effects, &mut core.plugins, &mut core.timers, key);
        return Err(error);
    }
    Ok(key)
}

/// Calls `conf.update` of one shadow with the present configuration. An error is its refusal.
fn show_config(core: &mut Core, key: PluginKey) -> Result<(), SetupError> {
    let Some(shadow) = core.plugins.shadows.get(key) else { return Ok(()) };
    let plugin = Rc::clone(&shadow.plugin);
    let handlers = shadow.stack.handlers(TopicId::ConfUpdate);
    let Some(bound) = handlers.and_then(|list| list.first()).cloned() else { return Ok(()) };
    let name = plugin.name();
    let instance = core.config.clone();
    let own = loading::merged_conf(&instance, name, plugin.given().cloned())?;
    let detail = Detail::Conf { instance: &instance, own: &own, name };
    let topic = Topic { topic: TopicId::ConfUpdate, trial: None, job: None, detail };
    match call(core, &bound, topic, Charge::No).map(|called| called.result) {
        None | Some(Ok(_)) => Ok(()),
        Some(Err(fault)) => Err(SetupError::of_update(name, fault)),
    }
}

/// Shows a new configuration to all shadows. The configuration is in force already: a shadow that refuses it keeps the
/// one that it has, and the log says so.
pub(crate) fn show_config_to_all(core: &mut Core) {
    let keys: Vec<PluginKey> = core.plugins.shadows.iter().map(Shadow::key).collect();
    for key in keys {
        if let Err(error) = show_config(core, key) {
            let text = format!("refuses the new configuration: {error}");
            log(&mut core.turn.effects, &core.plugins.shadows, key, Level::Warning, &text);
        }
    }
}

/// Removes a shadow.
fn remove(core: &mut Core, name: &str) -> Result<Value, RequestError> {
    let key = find(&core.plugins, name)?;
    drop_shadow(&mut core.turn.effects, &mut core.plugins, &mut core.timers, key);
    Ok(json!({}))
}

/// The data that a shadow offers for queries.
fn query(core: &mut Core, name: &str) -> Result<Value, RequestError> {
    let key = find(&core.plugins, name)?;
    let shadow = core.plugins.shadows.get(key);
    let handlers = shadow.and_then(|shadow| shadow.stack.handlers(TopicId::PluginQuery));
    let mut response =
        Map::from_iter([("name".to_owned(), json!(name)), ("shadow".to_owned(), json!(true))]);
    if let Some(bound) = handlers.and_then(|list| list.first()).cloned() {
        let (topic, detail) = (TopicId::PluginQuery, Detail::None);
        let topic = Topic { topic, trial: None, job: None, detail };
        let called = call(core, &bound, topic, Charge::Yes);
        let called = called.ok_or_else(|| invalid(format!("{name} was stopped")))?;
        match called.result {
            Ok(outcome) => response.extend(outcome.decisions().query.unwrap_or_default()),
            Err(fault) => {
                return Err(invalid(format!("plugin.query failed: {}", fault_text(&fault))));
            }
        }
    }
    Ok(Value::Object(response))
}

fn find(plugins: &Plugins, name: &str) -> Result<PluginKey, RequestError> {
    let name = name.strip_suffix(".so").unwrap_or(name);
    let shadow = plugins.shadows.find(name);
    shadow.map(Shadow::key).ok_or_else(|| unknown(plugins, name))
}

fn drop_shadow(effects: &mut Effects, plugins: &mut Plugins, timers: &mut Timers, key: PluginKey) {
    timers.stop_timers_of(&[key]);
    if let Some(Shadow { plugin, stack, .. }) = plugins.shadows.remove(key) {
        drop(stack);
        removal::drop_instance(effects, plugin);
    }
}

/// Makes a shadow live: builds the plugin with the shadow's configuration, in place of the live plugin of its name, as
/// a reload does, or at the end of the stack, as a load does. All this happens in one turn of the engine, so that each
/// job sees only one of the two.
fn promote(core: &mut Core, name: &str) -> Result<Value, RequestError> {
    let key = find(&core.plugins, name)?;
    let Some(shadow) = core.plugins.shadows.get(key) else {
        return Err(unknown(&core.plugins, name));
    };
    if let Some(why) = &shadow.stopped {
        let text = format!("{name} was stopped: {why}; load it as a shadow again");
        return Err(invalid(text));
    }
    let plugin = Rc::clone(&shadow.plugin);
    let (name, conf) = (plugin.name(), plugin.given().cloned());
    let replaced = core.plugins.stack.find(name).map(|live| live.given().cloned());
    match &replaced {
        Some(_) => loading::rebuild(core, name, conf)?,
        None => {
            let key = loading::load_named(core, plugin.listed_as(), conf)?;
            introduce_jobs(&mut core.turn.agenda, &core.jobs, &core.plugins, key);
        }
    }
    let is_reload = replaced.is_some();
    match replaced {
        Some(conf) => core.plugins.shadows.note_replaced(name, conf),
        None => core.plugins.shadows.forget_replaced(name),
    }
    core.turn.effects.log(Level::Info, format!("{name}: promoted from shadow to live"));
    drop(plugin);
    drop_shadow(&mut core.turn.effects, &mut core.plugins, &mut core.timers, key);
    Ok(json!({ "replaced": is_reload }))
}

/// Makes a live plugin a shadow, with the configuration that it has. If its promotion replaced a live plugin, the
/// configuration of that one is live again.
fn demote(core: &mut Core, name: &str) -> Result<Value, RequestError> {
    let bare = name.strip_suffix(".so").unwrap_or(name);
    let Some(live) = core.plugins.stack.find(bare).map(Rc::clone) else {
        let text = match core.plugins.shadows.find(bare) {
            Some(_) => format!("{bare} is a shadow already"),
            None => format!("{bare}: plugin not found"),
        };
        return Err(RequestError::new(ENOENT, text));
    };
    if core.plugins.shadows.find(bare).is_some() {
        let text = format!("{bare} has a shadow already; remove that one first");
        return Err(RequestError::new(EEXIST, text));
    }
    let conf = live.given().cloned();
    let key = add(core, live.descriptor(), live.listed_as(), conf).map_err(refused)?;
    let restored = core.plugins.shadows.replaced(bare).cloned();
    drop(live);
    let done = match &restored {
        Some(conf) => loading::rebuild(core, bare, conf.clone()),
        None => removal::remove(core, bare),
    };
    if let Err(error) = done {
        drop_shadow(&mut core.turn.effects, &mut core.plugins, &mut core.timers, key);
        return Err(error);
    }
    core.plugins.shadows.forget_replaced(bare);
    core.turn.effects.log(Level::Info, format!("{bare}: demoted from live to shadow"));
    introduction::introduce(core, key);
    Ok(json!({ "restored": restored.is_some() }))
}
