//! Removes plugins, and closes what they have open.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use super::call::{Called, call_one};
use super::{async_work, chains, commands, patterns, perilogs, retention};
use crate::agenda::Cause;
use crate::api::{Effects, Level, RequestError};
use crate::core::Core;
use crate::host::errno::ENOENT;
use crate::host::{Detail, Fault, LoadedPlugin, PluginKey, panic_text};
use crate::job::State;
use crate::topic::TopicId;

/// Removes the plugins that a pattern means: an exact name, a shell pattern, or `all`.
pub(crate) fn remove(core: &mut Core, pattern: &str) -> Result<(), RequestError> {
    let means = |plugin: &LoadedPlugin| patterns::means(pattern, plugin.name(), plugin.listed_as());
    let leaving = core.plugins.stack.plugins().iter().filter(|plugin| means(plugin));
    let leaving: Vec<Rc<LoadedPlugin>> = leaving.cloned().collect();
    if leaving.is_empty() && pattern != "all" {
        let text = match core.plugins.shadows.contains_name(pattern) {
            true => "Failed to find plugin to remove: it is a shadow, which --shadow removes",
            false => "Failed to find plugin to remove",
        };
        return Err(RequestError::new(ENOENT, text));
    }
    // `unload` is called while these plugins are on the stack, so that their last commands find them by key.
    // (That of a replaced plugin is called after it has left: see `remove_replaced`.)
    for plugin in &leaving {
        call_unload(core, plugin);
    }
    // So that normally the stack holds the last references, and the instances are dropped below. A frame on
    // the agenda may still list their handlers; then they are dropped with it.
    drop(leaving);
    let removed = core.plugins.stack.remove(means);
    let closed: Vec<_> = removed.iter().map(|p| (p.key(), Arc::clone(p.name()))).collect();
    for plugin in removed {
        core.plugins.panics.remove(&plugin.key());
        core.plugins.shadows.forget_replaced(plugin.name());
        drop_instance(&mut core.turn.effects, plugin);
    }
    close_open(core, &closed, OnJobs::Fail);
    Ok(())
}

/// Removes an instance that is off the stack already, since a new one has taken its place. Its `unload` is
/// called only now, since the new one may refuse its configuration, and the old one stays then.
pub(crate) fn remove_replaced(core: &mut Core, old: Rc<LoadedPlugin>) {
    call_unload(core, &old);
    let closed = [(old.key(), Arc::clone(old.name()))];
    core.plugins.panics.remove(&old.key());
    drop_instance(&mut core.turn.effects, old);
    close_open(core, &closed, OnJobs::LeaveOpen);
}

/// Calls `unload` of one plugin. What the handler asks for is carried out at once and not by the agenda, since the
/// plugin is dropped as soon as this returns.
fn call_unload(core: &mut Core, plugin: &Rc<LoadedPlugin>) {
    let Some(bound) = plugin.unload_handler().filter(|_| !plugin.is_faulted()) else { return };
    let Called { result, commands } = call_one(core, &bound, TopicId::Unload, Detail::None);
    let problem = match result {
        Ok(_) | Err(Fault::Busy) => None,
        Err(Fault::Failure(failure)) => Some(failure.text().to_owned()),
        // Not counted by `faulted`: the plugin leaves in any case.
        Err(Fault::Panic(text)) => Some(format!("panicked: {text}")),
    };
    if let Some(text) = problem {
        core.turn.effects.log(Level::Error, format!("{}: unload: {text}", plugin.name()));
    }
    for queued in commands {
        commands::carry_out(core, TopicId::Unload.name(), queued);
    }
}

/// What happens to the open prologs and epilogs of a plugin that was removed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnJobs {
    /// They have failed.
    Fail,
    /// They stay open for the instance that has taken the plugin's place.
    LeaveOpen,
}

/// Closes what removed plugins have open. Their dependencies stay: these are conditions of the job, and the plugin
/// takes them up again when it is loaded again.
fn close_open(core: &mut Core, closed: &[(PluginKey, Arc<str>)], on_jobs: OnJobs) {
    let Core { turn, jobs, plugins, alloc, timers, started, .. } = core;
    let keys: Vec<PluginKey> = closed.iter().map(|(key, _)| *key).collect();
    timers.stop_timers_of(&keys);
    plugins.refuse_awaited(&mut turn.agenda, closed, "was removed");
    chains::refuse_awaited(&mut turn.agenda, plugins, closed, "was removed");
    plugins.refuse_requests(&mut turn.effects, closed);
    async_work::end_outside(&mut turn.effects, &keys);
    retention::free_all_of(&mut turn.effects, plugins, alloc, &keys);
    for id in jobs.active() {
        async_work::abort_of(jobs, id, &keys);
        let Some(record) = jobs.get_mut(id) else {
            continue;
        };
        record.subscribers.retain(|key| !keys.contains(key));
        let state = record.job.state();
        if on_jobs == OnJobs::LeaveOpen {
            record.perilogs.disown_all(&keys);
            continue;
        }
        perilogs::fail_all_of(turn, jobs, id, &keys);
        if state == State::Priority {
            // The priority that the job waits for may have been this plugin's.
            plugins.notify(&mut turn.agenda, TopicId::JobStatePriority, id, Cause::None);
        }
    }
    if *started {
        plugins.warn_without_priority(&mut turn.effects);
    }
}

/// Closes what a faulted plugin has open, which stays in its place. Its dependencies and priorities stay unsettled.
pub(crate) fn close_faulted(core: &mut Core, key: PluginKey) {
    let Core { turn, jobs, plugins, alloc, timers, .. } = core;
    let closed = [(key, plugins.name(key))];
    timers.stop_timers_of(&[key]);
    plugins.refuse_awaited(&mut turn.agenda, &closed, "failed");
    chains::refuse_awaited(&mut turn.agenda, plugins, &closed, "failed");
    plugins.refuse_requests(&mut turn.effects, &closed);
    async_work::end_outside(&mut turn.effects, &[key]);
    retention::free_all_of(&mut turn.effects, plugins, alloc, &[key]);
    for id in jobs.active() {
        async_work::abort_of(jobs, id, &[key]);
        perilogs::fail_all_of(turn, jobs, id, &[key]);
    }
}

/// Drops an instance. A panic in its `Drop` is caught and logged.
pub(crate) fn drop_instance(effects: &mut Effects, plugin: Rc<LoadedPlugin>) {
    let name = Arc::clone(plugin.name());
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(plugin))) {
        let text = format!("{name}: drop: panicked: {}", panic_text(&*panic));
        effects.log(Level::Error, text);
    }
}
