//! Resources that plugins retain after their jobs have freed them, as housekeeping does.
//!
//! The schedulers treat them as in use; in every other respect the job is inactive. They are stored, so that after a
//! restart no other job gets them before the plugin has been asked whether it still needs them.

use super::Allocation;
use crate::host::PluginKey;
use crate::job::{JobId, JobIdError};
use crate::jobs::Jobs;
use crate::resource::{Idset, ResourceError, ResourceSet};

/// The prefix of the instance keys under which retained resources are stored: `JOB.PLUGIN` follows, and the value is an
/// R.
pub const RETAINED: &str = "jobtap.kept.";

/// What one plugin retains of one job's resources.
#[derive(Debug)]
pub(crate) struct Retained {
    pub(crate) job: JobId,
    pub(crate) plugin: PluginKey,
    pub(crate) resources: ResourceSet,
    /// The set is from an earlier run, and the plugin has not asked for it again yet.
    pub(crate) unconfirmed: bool,
}

/// Why stored resources can't be retained again.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RetainedError {
    /// Their key names no plugin.
    #[error("there is no plugin in its name")]
    NoPlugin,
    /// Their key names no job.
    #[error("{name}: {error}")]
    NoJob {
        /// What stands in the place of the job.
        name: String,
        /// What is wrong with it.
        error: JobIdError,
    },
    /// The value is no R.
    #[error("{job}: {error}")]
    Resources {
        /// The job.
        job: JobId,
        /// What is wrong with the value.
        error: ResourceError,
    },
}

/// All retained resources.
#[derive(Debug, Default)]
pub(crate) struct RetainedSets {
    sets: Vec<Retained>,
    /// What was retained when the last run ended, by job and the plugin's name.
    stored: Vec<(JobId, String, ResourceSet)>,
}

impl RetainedSets {
    /// All sets. Resources that several plugins retain occur several times.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (JobId, PluginKey, &ResourceSet)> {
        self.sets.iter().map(|set| (set.job, set.plugin, &set.resources))
    }

    /// The nodes with retained resources.
    pub(crate) fn ranks(&self) -> Idset {
        let ranks = self.sets.iter().map(|set| set.resources.ranks());
        ranks.fold(Idset::new(), |all, ranks| all.union(&ranks))
    }

    fn of_job(&self, job: JobId) -> impl Iterator<Item = &Retained> {
        self.sets.iter().filter(move |set| set.job == job)
    }

    /// The resources of a job that any plugin retains.
    pub(crate) fn union_of(&self, job: JobId) -> ResourceSet {
        let mut all = ResourceSet::new();
        self.of_job(job).for_each(|set| all.union_with(&set.resources));
        all
    }

    /// What one plugin retains of one job.
    pub(crate) fn find(&mut self, plugin: PluginKey, job: JobId) -> Option<&mut Retained> {
        self.sets.iter_mut().find(|set| set.job == job && set.plugin == plugin)
    }

    /// Adds a set, which must already be allocated in the pool.
    pub(crate) fn push(&mut self, set: Retained) {
        self.sets.push(set);
    }

    /// Takes ranks from a plugin; returns those of their resources that no other plugin retains.
    pub(crate) fn take(
        &mut self,
        plugin: PluginKey,
        job: JobId,
        ranks: &Idset,
    ) -> Option<ResourceSet> {
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

/// The resources of a job that a plugin can retain: those that it retains already, or those that the job has just freed
/// and the instance still has.
///
/// No other job can have any of that yet: the schedulers run when all callbacks are over.
pub(crate) fn retainable(
    jobs: &Jobs,
    alloc: &Allocation,
    plugin: PluginKey,
    job: JobId,
) -> Option<ResourceSet> {
    if let Some(own) = alloc.retained.of_job(job).find(|set| set.plugin == plugin) {
        return Some(own.resources.clone());
    }
    let record = jobs.get(job)?;
    let allocated = record.unreleased_resources().filter(|_| record.allocation.is_from_pool())?;
    Some(available(alloc, job, allocated)).filter(|resources| !resources.is_empty())
}

/// The part of a set that is free, or retained from the same job.
pub(crate) fn available(alloc: &Allocation, job: JobId, wanted: &ResourceSet) -> ResourceSet {
    let mut available = alloc.pool.unallocated_of(wanted);
    available.union_with(&wanted.intersection(&alloc.retained.union_of(job)));
    available
}

impl RetainedSets {
    /// Takes what was retained when the last run ended, by job and the plugin's name.
    pub(crate) fn take_stored(&mut self) -> Vec<(JobId, String, ResourceSet)> {
        std::mem::take(&mut self.stored)
    }

    /// Restores what was stored under [`RETAINED`] and `key`.
    ///
    /// # Errors
    /// When it cannot be read; then nothing is retained.
    pub(crate) fn restore(&mut self, key: &str, text: &str) -> Result<(), RetainedError> {
        let (job, plugin) = key.split_once('.').ok_or(RetainedError::NoPlugin)?;
        let no_job = |error| RetainedError::NoJob { name: job.to_owned(), error };
        let job = job.parse().map_err(no_job)?;
        let resources = text.parse().map_err(|error| RetainedError::Resources { job, error })?;
        self.stored.push((job, plugin.to_owned(), resources));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(ranks: &str) -> ResourceSet {
        let text = format!(
            r#"{{"version":1,"execution":{{"R_lite":[{{"rank":"{ranks}","children":{{"core":"0"}}}}],
                "nodelist":["n[{ranks}]"],"starttime":0,"expiration":0}}}}"#
        );
        text.parse().unwrap()
    }

    fn retain(sets: &mut RetainedSets, plugin: u64, ranks: &str) {
        let (job, plugin) = (JobId::new(1), PluginKey(plugin));
        sets.push(Retained { job, plugin, resources: nodes(ranks), unconfirmed: false });
    }

    #[test]
    fn what_another_plugin_retains_too_is_not_free() {
        let (mut sets, job) = (RetainedSets::default(), JobId::new(1));
        retain(&mut sets, 1, "0-2");
        retain(&mut sets, 2, "2-3");
        assert_eq!(sets.ranks().to_string(), "0-3");
        let free = sets.take(PluginKey(1), job, &"1-2".parse().unwrap()).unwrap();
        assert_eq!(free.ranks().to_string(), "1");
        let free = sets.take(PluginKey(2), job, &"2-3".parse().unwrap()).unwrap();
        assert_eq!(free.ranks().to_string(), "2-3");
        assert_eq!(sets.ranks().to_string(), "0");
        assert!(sets.find(PluginKey(2), job).is_none(), "it retains nothing any more");
    }

    #[test]
    fn a_stored_key_names_job_and_plugin() {
        let mut sets = RetainedSets::default();
        sets.restore("16777216.housekeeping", &nodes("1").to_json()).unwrap();
        let stored = sets.take_stored();
        assert_eq!((stored[0].0, &*stored[0].1), (JobId::new(16_777_216), "housekeeping"));
        for (key, text) in [("16777216", "{}"), ("x.housekeeping", "{}"), ("1.p", "{}")] {
            assert!(sets.restore(key, text).is_err(), "{key}");
        }
        assert!(sets.take_stored().is_empty());
    }
}
