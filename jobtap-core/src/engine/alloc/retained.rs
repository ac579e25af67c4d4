//! Resources that plugins retain after their jobs have freed them, as housekeeping does.
//!
//! For the schedulers they are in use; for everything else the job is inactive. They are stored, so
//! that after a restart no other job gets them before the plugin was asked whether it still needs
//! them.

use std::sync::Arc;

use super::Allocation;
use crate::engine::agenda::{Cause, Frame, Purpose, Subject, Work};
use crate::engine::api::{Level, Write};
use crate::engine::core::Core;
use crate::engine::dispatch::{Plugins, frames};
use crate::engine::events;
use crate::engine::jobs::Jobs;
use crate::host::PluginKey;
use crate::job::JobId;
use crate::resource::{Idset, ResourceSet};
use crate::topic::TopicId;

/// The instance keys under which retained resources are stored: `JOB.PLUGIN` follows, and the value is
/// an R.
pub const RETAINED: &str = "jobtap.kept.";

/// What one plugin retains of one job's resources.
#[derive(Debug)]
struct Retained {
    job: JobId,
    plugin: PluginKey,
    resources: ResourceSet,
    /// It is from an earlier run, and the plugin has not asked for it again yet.
    unclaimed: bool,
}

/// All retained resources.
#[derive(Debug, Default)]
pub(in crate::engine) struct RetainedSets {
    sets: Vec<Retained>,
    /// What was retained when the last run ended, by job and the plugin's name.
    stored: Vec<(JobId, String, ResourceSet)>,
}

impl RetainedSets {
    /// What is retained, by job. What several plugins retain comes several times.
    pub(in crate::engine) fn iter(&self) -> impl Iterator<Item = (JobId, PluginKey, &ResourceSet)> {
        self.sets.iter().map(|set| (set.job, set.plugin, &set.resources))
    }

    /// The nodes of which something is retained.
    pub(in crate::engine) fn ranks(&self) -> Idset {
        let ranks = self.sets.iter().map(|set| set.resources.ranks());
        ranks.fold(Idset::new(), |all, ranks| all.union(&ranks))
    }

    fn of_job(&self, job: JobId) -> impl Iterator<Item = &Retained> {
        self.sets.iter().filter(move |set| set.job == job)
    }

    /// What is retained of a job by any plugin.
    fn union_of(&self, job: JobId) -> ResourceSet {
        let mut all = ResourceSet::new();
        self.of_job(job).for_each(|set| all.union_with(&set.resources));
        all
    }

    fn find(&mut self, plugin: PluginKey, job: JobId) -> Option<&mut Retained> {
        self.sets.iter_mut().find(|set| set.job == job && set.plugin == plugin)
    }

    /// Takes ranks from a plugin; returns what of them no other plugin retains.
    fn take(&mut self, plugin: PluginKey, job: JobId, ranks: &Idset) -> Option<ResourceSet> {
        let set = self.find(plugin, job)?;
        let mut free = set.resources.with_ranks(ranks);
        set.resources = set.resources.without_ranks(ranks);
        self.sets.retain(|set| set.resources.nnodes() > 0);
        for other in self.of_job(job).filter(|set| set.plugin != plugin) {
            free.subtract(&other.resources);
        }
        Some(free)
    }
}

/// What a plugin can retain of a job's resources: what it retains already, or what the job has just
/// freed of what the instance still has.
///
/// No other job can have any of that yet: the schedulers run when all callbacks are over.
pub(in crate::engine) fn retainable(
    alloc: &Allocation,
    jobs: &Jobs,
    plugin: PluginKey,
    job: JobId,
) -> Option<ResourceSet> {
    if let Some(own) = alloc.retained.of_job(job).find(|set| set.plugin == plugin) {
        return Some(own.resources.clone());
    }
    let record = jobs.get(job)?;
    let held = record.held().filter(|_| record.holding.is_from_pool())?;
    Some(available(alloc, job, held)).filter(|resources| !resources.is_empty())
}

/// What of a set is free, or retained of the same job.
fn available(alloc: &Allocation, job: JobId, wanted: &ResourceSet) -> ResourceSet {
    let mut available = alloc.pool.unheld_of(wanted);
    available.union_with(&wanted.intersection(&alloc.retained.union_of(job)));
    available
}

/// Has a plugin retain what a job has just freed.
pub(in crate::engine) fn retain(core: &mut Core, plugin: PluginKey, job: JobId) {
    if let Some(set) = core.alloc.retained.find(plugin, job) {
        set.unclaimed = false;
    } else if let Some(resources) = retainable(&core.alloc, &core.jobs, plugin, job) {
        add(core, plugin, job, resources, false);
    }
}

/// Takes resources out of the pool for a plugin, but for those that others retain already.
fn add(core: &mut Core, plugin: PluginKey, job: JobId, resources: ResourceSet, unclaimed: bool) {
    let alloc = &mut core.alloc;
    let rest = resources.difference(&alloc.retained.union_of(job));
    if !alloc.pool.claim(&rest) {
        let text = format!("{job}: {} can't be kept: in use", rest.summary());
        return core.log(Level::Error, text);
    }
    alloc.retained.sets.push(Retained { job, plugin, resources, unclaimed });
    store(core, plugin, job);
}

/// Frees ranks that a plugin retains.
pub(in crate::engine) fn free(core: &mut Core, plugin: PluginKey, job: JobId, ranks: &Idset) {
    if let Some(free) = core.alloc.retained.take(plugin, job, ranks) {
        core.alloc.pool.release(&free);
        store(core, plugin, job);
    }
}

/// Frees everything that plugins retain that are gone.
pub(in crate::engine) fn free_all_of(core: &mut Core, gone: &[PluginKey]) {
    let of_gone = core.alloc.retained.iter().filter(|(_, plugin, _)| gone.contains(plugin));
    let all: Vec<_> = of_gone.map(|(job, plugin, set)| (job, plugin, set.ranks())).collect();
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
pub(in crate::engine) fn by_name<'a>(
    retained: &'a RetainedSets,
    plugins: &'a Plugins,
) -> impl Iterator<Item = (JobId, Arc<str>, &'a ResourceSet)> {
    retained.iter().map(|(job, plugin, set)| (job, plugins.name(plugin), set))
}

impl RetainedSets {
    /// Takes over what was stored under [`RETAINED`] and `key`.
    ///
    /// # Errors
    /// When it cannot be read; then nothing is retained.
    pub(in crate::engine) fn restore(&mut self, key: &str, text: &str) -> Result<(), String> {
        let (job, plugin) = key.split_once('.').ok_or("there is no plugin in its name")?;
        let job = job.parse().map_err(|error| format!("{job}: {error}"))?;
        let resources = text.parse().map_err(|error| format!("{job}: {error}"))?;
        self.stored.push((job, plugin.to_owned(), resources));
        Ok(())
    }
}

/// Retains again what was retained when the last run ended, and shows each plugin the job's `free`
/// event again, so that it can say whether it still needs the resources.
pub(in crate::engine) fn resume(core: &mut Core) {
    for (job, name, stored) in std::mem::take(&mut core.alloc.retained.stored) {
        let resources = available(&core.alloc, job, &stored);
        let plugin = core.plugins.stack.find(&name).map(|plugin| plugin.key());
        let Some(plugin) = plugin.filter(|_| !resources.is_empty()) else {
            core.log(Level::Error, format!("{name} keeps nothing of {job} any more"));
            let key = key(job, &name);
            core.effects.writes.push(Write::RemoveInstance { key });
            continue;
        };
        add(core, plugin, job, resources, true);
        core.agenda.push(Work::FreeUnclaimed(plugin, job));
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
pub(in crate::engine) fn free_unclaimed(core: &mut Core, plugin: PluginKey, job: JobId) {
    let unclaimed = core.alloc.retained.find(plugin, job).filter(|set| set.unclaimed);
    if let Some(ranks) = unclaimed.map(|set| set.resources.ranks()) {
        let name = core.plugins.name(plugin);
        core.log(Level::Warning, format!("{name} has not kept {job}'s resources on"));
        free(core, plugin, job, &ranks);
    }
}

fn key(job: JobId, plugin: &str) -> String {
    format!("{RETAINED}{}.{plugin}", job.as_u64())
}
