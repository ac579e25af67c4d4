//! Resources that plugins retain, as they ask for them, free them, and after a restart.

use std::sync::Arc;

use super::frames;
use super::plugins::Plugins;
use crate::engine::agenda::{Cause, Frame, Purpose, Subject, Work};
use crate::engine::alloc::retained::{RETAINED, Retained, RetainedSets, available, retainable};
use crate::engine::api::{Level, Write};
use crate::engine::core::Core;
use crate::engine::events;
use crate::host::PluginKey;
use crate::job::JobId;
use crate::resource::{Idset, ResourceSet};
use crate::topic::TopicId;

/// Has a plugin retain what a job has just freed.
pub(crate) fn retain(core: &mut Core, plugin: PluginKey, job: JobId) {
    if let Some(set) = core.alloc.retained.find(plugin, job) {
        set.unconfirmed = false;
    } else if let Some(resources) = retainable(&core.alloc, &core.jobs, plugin, job) {
        add(core, plugin, job, resources, false);
    }
}

/// Takes resources out of the pool for a plugin, but for those that others retain already.
fn add(core: &mut Core, plugin: PluginKey, job: JobId, resources: ResourceSet, unconfirmed: bool) {
    let alloc = &mut core.alloc;
    let rest = resources.difference(&alloc.retained.union_of(job));
    if !alloc.pool.claim(&rest) {
        let text = format!("{job}: {} can't be retained: in use", rest.summary());
        return core.log(Level::Error, text);
    }
    alloc.retained.push(Retained { job, plugin, resources, unconfirmed });
    store(core, plugin, job);
}

/// Frees ranks that a plugin retains.
pub(crate) fn free(core: &mut Core, plugin: PluginKey, job: JobId, ranks: &Idset) {
    if let Some(free) = core.alloc.retained.take(plugin, job, ranks) {
        core.alloc.pool.release(&free);
        store(core, plugin, job);
    }
}

/// Frees everything that that plugins retain which were removed or faulted.
pub(crate) fn free_all_of(core: &mut Core, closed: &[PluginKey]) {
    let of_closed = core.alloc.retained.iter().filter(|(_, plugin, _)| closed.contains(plugin));
    let all: Vec<_> = of_closed.map(|(job, plugin, set)| (job, plugin, set.ranks())).collect();
    for (job, plugin, ranks) in all {
        free(core, plugin, job, &ranks);
    }
}

fn store(core: &mut Core, plugin: PluginKey, job: JobId) {
    let key = key(job, &core.plugins.name(plugin));
    let write = match core.alloc.retained.find(plugin, job) {
        Some(set) => Write::PutInstance { key, value: set.resources.to_json() },
        None => Write::RemoveInstance { key },
    };
    core.effects.writes.push(write);
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
pub(crate) fn resume(core: &mut Core) {
    for (job, name, stored) in core.alloc.retained.take_stored() {
        let resources = available(&core.alloc, job, &stored);
        let plugin = core.plugins.stack.find(&name).map(|plugin| plugin.key());
        let Some(plugin) = plugin.filter(|_| !resources.is_empty()) else {
            core.log(Level::Error, format!("{name} no longer retains resources of {job}"));
            let key = key(job, &name);
            core.effects.writes.push(Write::RemoveInstance { key });
            continue;
        };
        add(core, plugin, job, resources, true);
        core.agenda.push(Work::FreeUnconfirmed(plugin, job));
        show_free_event(core, plugin, job);
    }
}

fn show_free_event(core: &mut Core, plugin: PluginKey, job: JobId) {
    let entry = Arc::new(events::bare(core.clock.now, "free"));
    let handlers = core.plugins.stack.members(TopicId::JobEvent, &entry.name, |key| key == plugin);
    let subject = Subject::Cause(Cause::Event(entry));
    let frame = Frame::new(TopicId::JobEvent, job, Purpose::Notify);
    frames::push_to(core, Frame { subject, ..frame }, handlers);
}

/// Frees what a plugin retained before the restart and has not asked for again.
pub(crate) fn free_unconfirmed(core: &mut Core, plugin: PluginKey, job: JobId) {
    let unconfirmed = core.alloc.retained.find(plugin, job).filter(|set| set.unconfirmed);
    if let Some(ranks) = unconfirmed.map(|set| set.resources.ranks()) {
        let name = core.plugins.name(plugin);
        core.log(Level::Warning, format!("{name} has not retained the resources of {job} again"));
        free(core, plugin, job, &ranks);
    }
}

fn key(job: JobId, plugin: &str) -> String {
    format!("{RETAINED}{}.{plugin}", job.as_u64())
}
