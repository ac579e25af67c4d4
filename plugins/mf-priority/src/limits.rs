//! The limits that hold jobs by dependencies, and when they let a job pass.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::association::{Association, Demand};
use crate::updates::Queue;

/// A limit, by the dependency that holds a job because of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(into = "&'static str")]
pub(crate) enum Limit {
    RunJobsOfQueue,
    SchedJobsOfQueue,
    SchedNodesOfQueue,
    SchedCoresOfQueue,
    NodesOfQueue,
    RunJobs,
    SchedJobs,
    Resources,
}

impl Limit {
    /// In the order in which they are checked.
    pub(crate) const ALL: [Self; 8] = [
        Self::RunJobsOfQueue,
        Self::SchedJobsOfQueue,
        Self::SchedNodesOfQueue,
        Self::SchedCoresOfQueue,
        Self::NodesOfQueue,
        Self::RunJobs,
        Self::SchedJobs,
        Self::Resources,
    ];

    /// The dependency.
    pub(crate) const fn dependency(self) -> &'static str {
        match self {
            Self::RunJobsOfQueue => "max-run-jobs-queue",
            Self::SchedJobsOfQueue => "max-sched-jobs-queue-limit",
            Self::SchedNodesOfQueue => "max-sched-nodes-queue-limit",
            Self::SchedCoresOfQueue => "max-sched-cores-queue-limit",
            Self::NodesOfQueue => "max-resources-queue",
            Self::RunJobs => "max-running-jobs-user-limit",
            Self::SchedJobs => "max-sched-jobs-user-limit",
            Self::Resources => "max-resources-user-limit",
        }
    }

    /// Whether a job fits, counting the jobs that have just been released.
    pub(crate) fn lets_pass(
        self,
        demand: &Demand,
        association: &Association,
        queues: &BTreeMap<String, Queue>,
        released: &Released,
    ) -> bool {
        let (name, terms) = (demand.queue.as_str(), &association.terms);
        let used = association.by_queue.get(name).copied().unwrap_or_default();
        let just = released.by_queue.get(name).copied().unwrap_or_default();
        let of_all = &association.used;
        let size = demand.size;
        let queue = queues.get(name);
        match (self, queue) {
            (Self::RunJobs, _) => of_all.run_jobs + released.run_jobs < terms.max_running_jobs,
            (Self::SchedJobs, _) => of_all.sched_jobs + released.sched_jobs < terms.max_sched_jobs,
            (Self::Resources, _) => {
                let fits = |used: i64, more: i64, most: i64| most > 0 && used + more <= most;
                fits(of_all.nodes, size.nodes, terms.max_nodes)
                    && fits(of_all.cores, size.cores, terms.max_cores)
            }
            // A queue that flux-accounting doesn't know has no limits.
            (_, None) => true,
            (Self::RunJobsOfQueue, Some(queue)) => {
                used.run_jobs + just.run_jobs < queue.max_running_jobs
            }
            (Self::SchedJobsOfQueue, Some(queue)) => {
                used.sched_jobs + just.sched_jobs < queue.max_sched_jobs
            }
            (Self::SchedNodesOfQueue, Some(queue)) => {
                used.sched_nodes + just.sched_nodes + size.nodes <= queue.max_sched_nodes_per_assoc
            }
            (Self::SchedCoresOfQueue, Some(queue)) => {
                used.sched_cores + just.sched_cores + size.cores <= queue.max_sched_cores_per_assoc
            }
            (Self::NodesOfQueue, Some(queue)) => {
                used.nodes + used.sched_nodes + just.nodes + size.nodes <= queue.max_nodes_per_assoc
            }
        }
    }
}

impl From<Limit> for &'static str {
    fn from(limit: Limit) -> Self {
        limit.dependency()
    }
}

/// The jobs that have just been released and aren't counted yet, since the manager moves them on after the callback.
#[derive(Debug, Default)]
pub(crate) struct Released {
    run_jobs: i64,
    sched_jobs: i64,
    by_queue: BTreeMap<String, ReleasedOfQueue>,
}

#[derive(Debug, Default, Clone, Copy)]
struct ReleasedOfQueue {
    run_jobs: i64,
    sched_jobs: i64,
    sched_nodes: i64,
    sched_cores: i64,
    /// Nodes of jobs that are in SCHED next.
    nodes: i64,
}

impl Released {
    /// Counts a job from which these limits were removed. A job that other dependencies still hold counts only against
    /// these limits, and only until the next time that there is room.
    pub(crate) fn add(&mut self, demand: &Demand, removed: &[Limit], is_free: bool) {
        let was = |limit| removed.contains(&limit);
        let size = demand.size;
        let of_queue = self.by_queue.entry(demand.queue.clone()).or_default();
        if was(Limit::RunJobs) || was(Limit::RunJobsOfQueue) {
            self.run_jobs += 1;
            of_queue.run_jobs += 1;
        }
        if is_free || was(Limit::SchedJobs) || was(Limit::SchedJobsOfQueue) {
            self.sched_jobs += 1;
            of_queue.sched_jobs += 1;
        }
        if is_free || was(Limit::SchedNodesOfQueue) {
            of_queue.sched_nodes += size.nodes;
        }
        if is_free || was(Limit::SchedCoresOfQueue) {
            of_queue.sched_cores += size.cores;
        }
        if is_free {
            of_queue.nodes += size.nodes;
        }
    }
}
