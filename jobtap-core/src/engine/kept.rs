//! Resources that plugins keep from the schedulers after their jobs were done with them. To the
//! schedulers they are in use by somebody who ends soon; to everybody else the job is over.

use std::sync::Arc;

use super::{Engine, Level};
use crate::job::JobId;
use crate::plugin::PluginKey;
use crate::resource::{Idset, ResourceSet};

/// What one plugin keeps of one job's resources.
#[derive(Debug)]
struct Kept {
    job: JobId,
    plugin: PluginKey,
    resources: ResourceSet,
}

/// All that is kept.
#[derive(Debug, Default)]
pub(super) struct AllKept(Vec<Kept>);

impl AllKept {
    /// What is in use by nobody but is not free, by job. What several plugins keep comes several times.
    pub(super) fn iter(&self) -> impl Iterator<Item = (JobId, PluginKey, &ResourceSet)> {
        self.0.iter().map(|kept| (kept.job, kept.plugin, &kept.resources))
    }

    fn is_kept(&self, job: JobId) -> bool {
        self.0.iter().any(|kept| kept.job == job)
    }

    /// Takes ranks from a plugin; what of them no other plugin keeps comes back.
    fn give_back(&mut self, plugin: PluginKey, job: JobId, ranks: &Idset) -> Option<ResourceSet> {
        let own = |kept: &Kept| kept.job == job && kept.plugin == plugin;
        let kept = self.0.iter_mut().find(|kept| own(kept))?;
        let mut back = kept.resources.with_ranks(ranks);
        kept.resources = kept.resources.without_ranks(ranks);
        self.0.retain(|kept| kept.resources.nnodes() > 0);
        for other in self.0.iter().filter(|kept| kept.job == job && kept.plugin != plugin) {
            back.subtract(&other.resources);
        }
        Some(back)
    }
}

impl Engine {
    /// What a job that is about to end holds, or held until just now, of the pool.
    pub(super) fn freed(&self, job: JobId) -> Option<&ResourceSet> {
        let record = self.jobs.get(&job)?;
        record.held().filter(|_| !record.bypass && !record.lost_resources)
    }

    /// Takes back what a job has just freed: nothing of it can be another job's yet, since
    /// schedulers are asked when all callbacks are over.
    pub(super) fn keep(&mut self, plugin: PluginKey, job: JobId) {
        let Some(resources) = self.freed(job).cloned() else {
            return;
        };
        if !self.kept.is_kept(job) && !self.pool.claim(&resources) {
            let text = format!("{job}: its resources are not the instance's any more: none is kept");
            return self.log(Level::Debug, text);
        }
        self.kept.0.push(Kept { job, plugin, resources });
    }

    /// Ranks that a plugin kept can be given to jobs again.
    pub(super) fn give_back(&mut self, plugin: PluginKey, job: JobId, ranks: &Idset) {
        if let Some(back) = self.kept.give_back(plugin, job, ranks) {
            self.pool.release(&back);
        }
    }

    /// Nothing stays kept for plugins that are gone.
    pub(super) fn give_back_all(&mut self, gone: &[PluginKey]) {
        let of_gone = self.kept.iter().filter(|(_, plugin, _)| gone.contains(plugin));
        let all: Vec<_> = of_gone.map(|(job, plugin, r)| (job, plugin, r.ranks())).collect();
        for (job, plugin, ranks) in all {
            self.give_back(plugin, job, &ranks);
        }
    }

    /// Who keeps what, for people.
    pub(super) fn keepers(&self) -> impl Iterator<Item = (JobId, Arc<str>, &ResourceSet)> {
        self.kept.iter().map(|(job, plugin, kept)| (job, self.plugins.name(plugin), kept))
    }
}
