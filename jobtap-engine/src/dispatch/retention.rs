//! Resources that plugins retain: how they retain them, free them, and retain them again after a
//! restart.

use std::sync::Arc;

use super::pushing;
use crate::agenda::{Cause, Frame, Purpose, Subject, Work};
use crate::alloc::Allocation;
use crate::alloc::retained::{RETAINED, Retained, RetainedSets, available, retainable};
use crate::api::{Effects, Level, Write};
use crate::eventlog::Event;
use crate::host::PluginKey;
use crate::job::JobId;
use crate::jobs::Jobs;
use crate::plugins::Plugins;
use crate::resource::{Idset, ResourceSet};
use crate::topic::TopicId;
use crate::turn::Turn;

/// Lets a plugin retain what a job has just freed.
pub(crate) fn retain(
    effects: &mut Effects,
    jobs: &Jobs,
    plugins: &Plugins,
    alloc: &mut Allocation,
    plugin: PluginKey,
    job: JobId,
) {
    if let Some(set) = alloc.retained.find(plugin, job) {
        set.unconfirmed = false;
    } else if let Some(resources) = retainable(jobs, alloc, plugin, job) {
        let set = Retained { job, plugin, resources, unconfirmed: false };
        add(effects, plugins, alloc, set);
    }
}

/// Takes resources out of the pool for a plugin, except those that other plugins retain already.
fn add(effects: &mut Effects, plugins: &Plugins, alloc: &mut Allocation, set: Retained) {
    let (job, plugin) = (set.job, set.plugin);
    let rest = set.resources.difference(&alloc.retained.union_of(job));
    if !alloc.pool.claim(&rest) {
        let text = format!("{job}: {} can't be retained: in use", rest.summary());
        return effects.log(Level::Error, text);
    }
    alloc.retained.push(set);
    store(effects, plugins, alloc, plugin, job);
}

/// Frees ranks that a plugin retains.
pub(crate) fn free(
    effects: &mut Effects,
    plugins: &Plugins,
    alloc: &mut Allocation,
    plugin: PluginKey,
    job: JobId,
    ranks: &Idset,
) {
    if let Some(free) = alloc.retained.take(plugin, job, ranks) {
        alloc.pool.release(&free);
        store(effects, plugins, alloc, plugin, job);
    }
}

/// Frees everything that removed or faulted plugins retain.
pub(crate) fn free_all_of(
    effects: &mut Effects,
    plugins: &Plugins,
    alloc: &mut Allocation,
    closed: &[PluginKey],
) {
    let of_closed = alloc.retained.iter().filter(|(_, plugin, _)| closed.contains(plugin));
    let all: Vec<_> = of_closed.map(|(job, plugin, set)| (job, plugin, set.ranks())).collect();
    for (job, plugin, ranks) in all {
        free(effects, plugins, alloc, plugin, job, &ranks);
    }
}

fn store(
    effects: &mut Effects,
    plugins: &Plugins,
    alloc: &mut Allocation,
    plugin: PluginKey,
    job: JobId,
) {
    let key = key(job, &plugins.name(plugin));
    let write = match alloc.retained.find(plugin, job) {
        Some(set) => Write::PutInstance { key, value: set.resources.to_json() },
        None => Write::RemoveInstance { key },
    };
    effects.writes.push(write);
}

/// What is retained, with the names of the plugins, for messages.
pub(crate) fn by_name<'a>(
    retained: &'a RetainedSets,
    plugins: &'a Plugins,
) -> impl Iterator<Item = (JobId, Arc<str>, &'a ResourceSet)> {
    retained.iter().map(|(job, plugin, set)| (job, plugins.name(plugin), set))
}

/// Retains again what was retained when the last run ended, and shows each plugin the job's `free`
/// event again, so that it can say whether it still needs the resources.
pub(crate) fn resume(turn: &mut Turn, plugins: &Plugins, alloc: &mut Allocation) {
    for (job, name, stored) in alloc.retained.take_stored() {
        let resources = available(alloc, job, &stored);
        let plugin = plugins.stack.find(&name).map(|plugin| plugin.key());
        let Some(plugin) = plugin.filter(|_| !resources.is_empty()) else {
            turn.effects.log(Level::Error, format!("{name} no longer retains resources of {job}"));
            let key = key(job, &name);
            turn.effects.writes.push(Write::RemoveInstance { key });
            continue;
        };
        let set = Retained { job, plugin, resources, unconfirmed: true };
        add(&mut turn.effects, plugins, alloc, set);
        turn.agenda.push(Work::FreeUnconfirmed(plugin, job));
        show_free_event(turn, plugins, plugin, job);
    }
}

fn show_free_event(turn: &mut Turn, plugins: &Plugins, plugin: PluginKey, job: JobId) {
    let entry = Arc::new(Event::Free.at(turn.clock.now));
    let handlers = plugins.stack.members(TopicId::JobEvent, &entry.name, |key| key == plugin);
    let subject = Subject::Cause(Cause::Event(entry));
    let frame = Frame::new(TopicId::JobEvent, job, Purpose::Notify);
    pushing::push_to(&mut turn.agenda, Frame { subject, ..frame }, handlers);
}

/// Frees what a plugin retained before the restart and has not asked for again.
pub(crate) fn free_unconfirmed(
    effects: &mut Effects,
    plugins: &Plugins,
    alloc: &mut Allocation,
    plugin: PluginKey,
    job: JobId,
) {
    let unconfirmed = alloc.retained.find(plugin, job).filter(|set| set.unconfirmed);
    if let Some(ranks) = unconfirmed.map(|set| set.resources.ranks()) {
        let name = plugins.name(plugin);
        effects
            .log(Level::Warning, format!("{name} has not retained the resources of {job} again"));
        free(effects, plugins, alloc, plugin, job, &ranks);
    }
}

fn key(job: JobId, plugin: &str) -> String {
    format!("{RETAINED}{}.{plugin}", job.as_u64())
}
