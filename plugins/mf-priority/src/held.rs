//! The jobs of an association that limits hold, and which of them may go on. An end of one of a thousand jobs that are
//! alike looks at one or two of the others, not at all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use jobtap_core::prelude::*;
use serde::{Serialize, Serializer};

use crate::association::Demand;
use crate::limits::{Limit, Released};

/// Why a job is held. Jobs of which this is equal are held alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Held {
    #[serde(flatten)]
    pub(crate) demand: Demand,
    /// In their order. There is at least one.
    #[serde(rename = "deps")]
    pub(crate) limits: Vec<Limit>,
}

/// Held jobs, in the order in which they were submitted.
#[derive(Debug, Default)]
pub(crate) struct HeldJobs {
    jobs: BTreeMap<JobId, Held>,
    /// The same jobs, by why they are held.
    alike: BTreeMap<Held, BTreeSet<JobId>>,
}

impl HeldJobs {
    /// Notes that limits hold a job, in the place of what was noted about it.
    pub(crate) fn insert(&mut self, id: JobId, held: Held) {
        self.remove(id);
        if !held.limits.is_empty() {
            self.alike.entry(held.clone()).or_default().insert(id);
            self.jobs.insert(id, held);
        }
    }

    /// Forgets a job.
    pub(crate) fn remove(&mut self, id: JobId) -> Option<Held> {
        let held = self.jobs.remove(&id)?;
        if let Some(alike) = self.alike.get_mut(&held) {
            alike.remove(&id);
            if alike.is_empty() {
                self.alike.remove(&held);
            }
        }
        Some(held)
    }

    /// Removes the limits that let jobs pass now. Jobs go in their order, and a job that a limit still holds reserves
    /// nothing.
    ///
    /// `passes` says whether a limit lets a job pass besides those that have just been released. The more these are, the
    /// fewer pass: so if one job doesn't, neither do the later ones that are held alike. `remove` is told of each limit that
    /// holds a job no longer, and `is_free` is asked afterwards whether nothing else holds the job.
    pub(crate) fn release(
        &mut self,
        passes: impl Fn(Limit, &Demand, &Released) -> bool,
        mut remove: impl FnMut(JobId, Limit),
        is_free: impl Fn(JobId) -> bool,
    ) {
        let mut released = Released::default();
        let mut next: BTreeSet<JobId> =
            self.alike.values().filter_map(BTreeSet::first).copied().collect();
        while let Some(id) = next.pop_first() {
            let Some(Held { demand, limits }) = self.jobs.get(&id).cloned() else { continue };
            let (gone, kept): (Vec<Limit>, Vec<Limit>) =
                limits.iter().copied().partition(|limit| passes(*limit, &demand, &released));
            if gone.is_empty() {
                continue;
            }
            let alike = self.alike.get(&Held { demand: demand.clone(), limits });
            next.extend(alike.and_then(|ids| ids.range((Excluded(id), Unbounded)).next()));
            gone.iter().for_each(|limit| remove(id, *limit));
            if kept.is_empty() {
                released.add(&demand, &gone, is_free(id));
            }
            self.insert(id, Held { demand, limits: kept });
        }
    }
}

/// By their ids, in decimal, as `plugin.query` shows them.
impl Serialize for HeldJobs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.jobs.iter().map(|(id, held)| (id.as_u64().to_string(), held)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::association::Association;
    use crate::size::Size;
    use crate::updates::{Queue, Terms};

    type Queues = BTreeMap<String, Queue>;

    /// An association and a queue with these limits, and what runs and waits in them.
    fn site(limits: &[i64; 8], used: &[i64; 4]) -> (Association, Queues) {
        let terms = json!({
            "userid": 1, "bank": "a", "def_bank": "a", "fairshare": 0.5, "max_running_jobs": limits[0],
            "max_active_jobs": 99, "max_sched_jobs": limits[1], "max_nodes": limits[2],
            "max_cores": limits[3], "queues": "", "active": 1, "projects": "", "def_project": "",
        });
        let queue = json!({
            "queue": "q", "min_nodes_per_job": 0, "max_nodes_per_job": 1, "max_time_per_job": 1,
            "priority": 0, "max_running_jobs": limits[4], "max_nodes_per_assoc": limits[5],
            "max_sched_jobs": limits[6], "max_sched_nodes_per_assoc": limits[7],
            "max_sched_cores_per_assoc": limits[7],
        });
        let terms: Terms = serde_json::from_value(terms).unwrap();
        let queue: Queue = serde_json::from_value(queue).unwrap();
        let mut association = Association::new(terms);
        association.used.run_jobs = used[0];
        association.used.sched_jobs = used[1];
        association.used.nodes = used[2];
        let of_queue = association.by_queue.entry("q".to_owned()).or_default();
        (of_queue.run_jobs, of_queue.sched_jobs, of_queue.sched_nodes) =
            (used[0], used[1], used[3]);
        (association, Queues::from([("q".to_owned(), queue)]))
    }

    fn held() -> impl Strategy<Value = Held> {
        let limits = proptest::sample::subsequence(Limit::ALL.to_vec(), 1..=3);
        (prop_oneof![Just("q"), Just("")], 1..3_i64, limits).prop_map(|(queue, nodes, limits)| {
            let demand = Demand { queue: queue.to_owned(), size: Size { nodes, cores: nodes } };
            Held { demand, limits }
        })
    }

    /// The same, asked of each job: what is removed, and what is held afterwards.
    fn one_by_one(
        jobs: &[Held],
        passes: impl Fn(Limit, &Demand, &Released) -> bool,
        is_free: impl Fn(JobId) -> bool,
    ) -> (Vec<(JobId, Limit)>, BTreeMap<JobId, Held>) {
        let (mut removed, mut left, mut released) = <(Vec<_>, BTreeMap<_, _>, Released)>::default();
        for (id, Held { demand, limits }) in ids(jobs) {
            let (gone, kept): (Vec<Limit>, Vec<Limit>) =
                limits.iter().partition(|limit| passes(**limit, demand, &released));
            removed.extend(gone.iter().map(|limit| (id, *limit)));
            match kept.is_empty() {
                true => released.add(demand, &gone, is_free(id)),
                false => drop(left.insert(id, Held { demand: demand.clone(), limits: kept })),
            }
        }
        (removed, left)
    }

    fn ids(jobs: &[Held]) -> impl Iterator<Item = (JobId, &Held)> {
        (1..).map(JobId::new).zip(jobs)
    }

    proptest! {
        #[test]
        fn jobs_that_are_alike_are_released_as_if_each_were_asked(
            limits in proptest::array::uniform8(0..5_i64),
            used in proptest::array::uniform4(0..3_i64),
            jobs in vec(held(), 1..30),
            others in vec(any::<bool>(), 30),
        ) {
            let (association, queues) = site(&limits, &used);
            let passes = |limit: Limit, demand: &Demand, released: &Released| {
                limit.lets_pass(demand, &association, &queues, released)
            };
            let is_free = |id: JobId| others[usize::try_from(id.as_u64()).unwrap() - 1];
            let mut held = HeldJobs::default();
            ids(&jobs).for_each(|(id, why)| held.insert(id, why.clone()));
            let mut removed = Vec::new();
            held.release(passes, |id, limit| removed.push((id, limit)), is_free);
            let (expected, left) = one_by_one(&jobs, passes, is_free);
            prop_assert_eq!(removed, expected);
            prop_assert_eq!(&held.jobs, &left);
            let alike = held.alike.iter().flat_map(|(why, ids)| ids.iter().map(move |id| (*id, why.clone())));
            prop_assert_eq!(alike.collect::<BTreeMap<_, _>>(), left, "the index has the same jobs");
        }
    }

    #[test]
    fn one_place_is_looked_for_among_alike_jobs_once() {
        let demand = Demand { queue: String::new(), size: Size { nodes: 1, cores: 1 } };
        let why = Held { demand, limits: vec![Limit::RunJobs] };
        let mut held = HeldJobs::default();
        (1..=1000).for_each(|id| held.insert(JobId::new(id), why.clone()));
        let (asked, mut removed) = (std::cell::Cell::new(0), Vec::new());
        let (association, queues) = site(&[1, 9, 9, 9, 9, 9, 9, 9], &[0; 4]);
        let passes = |limit: Limit, demand: &Demand, released: &Released| {
            asked.set(asked.get() + 1);
            limit.lets_pass(demand, &association, &queues, released)
        };
        held.release(passes, |id, _| removed.push(id), |_| true);
        assert_eq!((removed, asked.get()), (vec![JobId::new(1)], 2));
    }
}
