//! The virtual network ids (VNIs), and which job has which.

use std::collections::BTreeMap;

use jobtap_core::prelude::*;
use jobtap_core::resource::Idset;

/// The most ids of a job.
const MOST: i64 = 4;

/// The ids, which are given in turn.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    pub(crate) universe: Idset,
    pub(crate) free: Idset,
    pub(crate) jobs: BTreeMap<JobId, Vec<u32>>,
    /// The last one that was given.
    last: Option<u32>,
}

/// Why a job gets no ids.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoIds {
    Count,
    TooFew { wanted: i64, available: usize },
}

impl std::fmt::Display for NoIds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Count => write!(f, "VNI count must be within 1-{MOST}"),
            Self::TooFew { wanted, available } => {
                let ids = if *wanted == 1 { "VNI" } else { "VNIs" };
                write!(f, "failed to reserve {wanted} {ids} ({available} available)")
            }
        }
    }
}

impl Pool {
    /// Takes other ids. Jobs keep theirs, also those that aren't in the pool any more.
    pub(crate) fn configure(&mut self, universe: Idset) {
        if universe == self.universe {
            return;
        }
        let reserved: Idset = self.jobs.values().flatten().copied().collect();
        self.free = universe.difference(&reserved);
        (self.universe, self.last) = (universe, None);
    }

    /// Reserves exactly `count` ids for a job, or fails.
    pub(crate) fn reserve(&mut self, job: JobId, count: i64) -> Result<Vec<u32>, NoIds> {
        let wanted = usize::try_from(count).ok().filter(|_| (0..=MOST).contains(&count));
        let wanted = wanted.ok_or(NoIds::Count)?;
        let available = self.free.len();
        if available < wanted {
            return Err(NoIds::TooFew { wanted: count, available });
        }
        let next = |pool: &mut Self| {
            let after = pool.last.and_then(|last| pool.free.next_after(last));
            let id = after.or_else(|| pool.free.first())?;
            pool.last = Some(id);
            pool.free.remove(id).then_some(id)
        };
        let ids: Vec<u32> = (0..wanted).filter_map(|_| next(self)).collect();
        self.take(job, ids.clone());
        Ok(ids)
    }

    /// Notes ids that a job has.
    pub(crate) fn take(&mut self, job: JobId, ids: Vec<u32>) {
        if !ids.is_empty() {
            for id in &ids {
                self.free.remove(*id);
            }
            self.jobs.insert(job, ids);
        }
    }

    /// Frees the ids of a job, as far as they are in the pool.
    pub(crate) fn release(&mut self, job: JobId) {
        let ids = self.jobs.remove(&job).unwrap_or_default();
        for id in ids.into_iter().filter(|id| self.universe.contains(*id)) {
            self.free.insert(id);
        }
    }
}
