//! Resources that plugins keep from the schedulers after their jobs were done with them. To the
//! schedulers they are in use by somebody who ends soon; to everybody else the job is over.
//!
//! What is kept is stored, so that nobody else gets it after a restart before the plugin was asked again.

use std::sync::Arc;

use super::frames::{Frame, Given, Then};
use super::notices::Cause;
use super::work::Work;
use super::{Engine, Level, Write, events};
use crate::host::{Handlers, PluginKey};
use crate::job::JobId;
use crate::resource::{Idset, ResourceSet};
use crate::topic::TopicId;

/// Instance keys below which it is stored what is kept: `JOB.PLUGIN` behind it, the value an R.
pub const KEPT: &str = "jobtap.kept.";

/// What one plugin keeps of one job's resources.
#[derive(Debug)]
struct Kept {
    job: JobId,
    plugin: PluginKey,
    resources: ResourceSet,
    /// The plugin has not said yet since the restart whether it still wants them.
    doubtful: bool,
}

/// All that is kept.
#[derive(Debug, Default)]
pub(super) struct AllKept {
    all: Vec<Kept>,
    /// What an earlier run kept, by job and the plugin's name.
    earlier: Vec<(JobId, String, ResourceSet)>,
}

impl AllKept {
    /// What is in use by no job but is not free, by job. What several plugins keep comes several times.
    pub(super) fn iter(&self) -> impl Iterator<Item = (JobId, PluginKey, &ResourceSet)> {
        self.all.iter().map(|kept| (kept.job, kept.plugin, &kept.resources))
    }

    fn of_job(&self, job: JobId) -> impl Iterator<Item = &Kept> {
        self.all.iter().filter(move |kept| kept.job == job)
    }

    /// What is kept of a job by any plugin.
    fn together(&self, job: JobId) -> ResourceSet {
        let mut all = ResourceSet::new();
        self.of_job(job).for_each(|kept| all.union_with(&kept.resources));
        all
    }

    fn find(&mut self, plugin: PluginKey, job: JobId) -> Option<&mut Kept> {
        self.all.iter_mut().find(|kept| kept.job == job && kept.plugin == plugin)
    }

    /// Takes ranks from a plugin; what of them no other plugin keeps comes back.
    fn give_back(&mut self, plugin: PluginKey, job: JobId, ranks: &Idset) -> Option<ResourceSet> {
        let kept = self.find(plugin, job)?;
        let mut back = kept.resources.with_ranks(ranks);
        kept.resources = kept.resources.without_ranks(ranks);
        self.all.retain(|kept| kept.resources.nnodes() > 0);
        for other in self.of_job(job).filter(|kept| kept.plugin != plugin) {
            back.subtract(&other.resources);
        }
        Some(back)
    }
}

impl Engine {
    /// What of a job's resources a plugin can keep: what it keeps already; else what the job held until
    /// just now of what the instance still has. Nothing of it can be another job's yet, since schedulers
    /// are asked when all callbacks are over.
    pub(super) fn keepable(&self, plugin: PluginKey, job: JobId) -> Option<ResourceSet> {
        if let Some(own) = self.kept.of_job(job).find(|kept| kept.plugin == plugin) {
            return Some(own.resources.clone());
        }
        let record = self.jobs.get(&job)?;
        let held = record.held().filter(|_| !record.bypass && !record.lost_resources)?;
        Some(self.claimable(job, held)).filter(|resources| !resources.is_empty())
    }

    /// What of a set is free, or kept of the same job already.
    fn claimable(&self, job: JobId, wanted: &ResourceSet) -> ResourceSet {
        let mut can = self.pool.unheld_of(wanted);
        can.union_with(&wanted.intersection(&self.kept.together(job)));
        can
    }

    /// From now on a plugin keeps this of a job's resources: what of it others don't keep is taken.
    fn take(&mut self, plugin: PluginKey, job: JobId, resources: ResourceSet, doubtful: bool) {
        let rest = resources.difference(&self.kept.together(job));
        if !self.pool.claim(&rest) {
            let text = format!("{job}: {} can't be kept: in use", rest.summary());
            return self.log(Level::Error, text);
        }
        self.kept.all.push(Kept { job, plugin, resources, doubtful });
        self.store_kept(plugin, job);
    }

    /// A plugin keeps what a job has just freed.
    pub(super) fn keep(&mut self, plugin: PluginKey, job: JobId) {
        if let Some(kept) = self.kept.find(plugin, job) {
            kept.doubtful = false;
        } else if let Some(resources) = self.keepable(plugin, job) {
            self.take(plugin, job, resources, false);
        }
    }

    /// Ranks that a plugin kept can be given to jobs again.
    pub(super) fn give_back(&mut self, plugin: PluginKey, job: JobId, ranks: &Idset) {
        if let Some(back) = self.kept.give_back(plugin, job, ranks) {
            self.pool.release(&back);
            self.store_kept(plugin, job);
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

    fn store_kept(&mut self, plugin: PluginKey, job: JobId) {
        let key = kept_key(job, &self.plugins.name(plugin));
        let write = match self.kept.find(plugin, job) {
            Some(kept) => Write::PutInstance { key, value: kept.resources.to_json() },
            None => Write::RemoveInstance { key },
        };
        self.effects.writes.push(write);
    }

    /// Who keeps what, for people.
    pub(super) fn keepers(&self) -> impl Iterator<Item = (JobId, Arc<str>, &ResourceSet)> {
        self.kept.iter().map(|(job, plugin, kept)| (job, self.plugins.name(plugin), kept))
    }

    /// The nodes of which something is kept.
    pub(super) fn kept_ranks(&self) -> Idset {
        let ranks = self.kept.iter().map(|(_, _, kept)| kept.ranks());
        ranks.fold(Idset::new(), |all, ranks| all.union(&ranks))
    }

    /// Takes over what a plugin kept when the manager ended: what is stored under [`KEPT`] and this.
    /// Before [`start`](Self::start).
    ///
    /// # Errors
    /// When it can't be read; then nothing is kept.
    pub fn restore_kept(&mut self, key: &str, text: &str) -> Result<(), String> {
        let (job, plugin) = key.split_once('.').ok_or("there is no plugin in its name")?;
        let job = job.parse().map_err(|error| format!("{job}: {error}"))?;
        let resources = text.parse().map_err(|error| format!("{job}: {error}"))?;
        self.kept.earlier.push((job, plugin.to_owned(), resources));
        Ok(())
    }

    /// What was kept is kept on, and its plugins are asked whether they still want it.
    pub(super) fn resume_kept(&mut self) {
        for (job, name, stored) in std::mem::take(&mut self.kept.earlier) {
            let resources = self.claimable(job, &stored);
            let plugin = self.plugins.stack.find(&name).map(|plugin| plugin.key());
            let Some(plugin) = plugin.filter(|_| !resources.is_empty()) else {
                self.log(Level::Error, format!("{name} keeps nothing of {job} any more"));
                let key = kept_key(job, &name);
                self.effects.writes.push(Write::RemoveInstance { key });
                continue;
            };
            self.take(plugin, job, resources, true);
            self.work.push(Work::Unwanted(plugin, job));
            self.show_freed(plugin, job);
        }
    }

    /// Shows a job's `free` again to a plugin that has kept what it freed.
    fn show_freed(&mut self, plugin: PluginKey, job: JobId) {
        let entry = Arc::new(events::bare(self.now, "free"));
        let own = |key: PluginKey| key == plugin;
        let handlers: Handlers = self.plugins.stack.members(TopicId::JobEvent, &entry.name, own);
        let given = Given::Cause(Cause::Event(entry));
        self.stack_frame_of(
            Frame { given, ..Frame::new(TopicId::JobEvent, job, Then::Notify) },
            handlers,
        );
    }

    /// Gives back what its plugin has not asked to keep any longer.
    pub(super) fn unwanted(&mut self, plugin: PluginKey, job: JobId) {
        let doubtful = self.kept.find(plugin, job).filter(|kept| kept.doubtful);
        if let Some(ranks) = doubtful.map(|kept| kept.resources.ranks()) {
            let name = self.plugins.name(plugin);
            self.log(Level::Warning, format!("{name} has not kept {job}'s resources on"));
            self.give_back(plugin, job, &ranks);
        }
    }
}

fn kept_key(job: JobId, plugin: &str) -> String {
    format!("{KEPT}{}.{plugin}", job.as_u64())
}
