//! An association: a user in a bank, with the limits that flux-accounting gives it and what its jobs use of them.
//! `plugin.query` shows it as it is serialized.

use std::collections::BTreeMap;

use jobtap_core::prelude::*;
use serde::Serialize;

use crate::held::HeldJobs;
use crate::size::Size;
use crate::updates::{Queue, Terms};

/// A user in a bank.
#[derive(Debug, Serialize)]
pub(crate) struct Association {
    #[serde(flatten)]
    pub(crate) terms: Terms,
    /// The priority of the queue of the last job whose priority was computed.
    pub(crate) queue_factor: i64,
    #[serde(flatten)]
    pub(crate) used: Used,
    #[serde(rename = "queue_usage")]
    pub(crate) by_queue: BTreeMap<String, UsedOfQueue>,
    #[serde(rename = "held_jobs")]
    pub(crate) held: HeldJobs,
}

/// What the jobs of an association use.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Used {
    #[serde(rename = "cur_active_jobs")]
    pub(crate) active_jobs: i64,
    #[serde(rename = "cur_run_jobs")]
    pub(crate) run_jobs: i64,
    #[serde(rename = "cur_sched_jobs")]
    pub(crate) sched_jobs: i64,
    #[serde(rename = "cur_nodes")]
    pub(crate) nodes: i64,
    #[serde(rename = "cur_cores")]
    pub(crate) cores: i64,
}

/// What the jobs of an association use of a queue.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub(crate) struct UsedOfQueue {
    #[serde(rename = "cur_run_jobs")]
    pub(crate) run_jobs: i64,
    #[serde(rename = "cur_nodes")]
    pub(crate) nodes: i64,
    #[serde(rename = "cur_sched_jobs")]
    pub(crate) sched_jobs: i64,
    #[serde(rename = "cur_sched_nodes")]
    pub(crate) sched_nodes: i64,
    #[serde(rename = "cur_sched_cores")]
    pub(crate) sched_cores: i64,
}

/// How far a job has come, as far as it is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It has no priority yet.
    #[default]
    Waiting,
    /// It waits for resources.
    Sched,
    /// It has resources.
    Running,
}

/// The part of a job that is counted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Demand {
    /// Empty without one.
    pub(crate) queue: String,
    #[serde(flatten)]
    pub(crate) size: Size,
}

impl Association {
    pub(crate) fn new(terms: Terms) -> Self {
        let (queue_factor, used, by_queue, held) = Default::default();
        Self { terms, queue_factor, used, by_queue, held }
    }

    /// Whether it has as many active jobs as it may.
    pub(crate) fn is_full(&self) -> bool {
        let most = self.terms.max_active_jobs;
        most > 0 && self.used.active_jobs >= most
    }

    /// Adds (`by` is 1) or removes (-1) a job at a stage.
    pub(crate) fn count(&mut self, stage: Stage, demand: &Demand, by: i64) {
        let (of_queue, used) = (self.by_queue.entry(demand.queue.clone()), &mut self.used);
        let Size { nodes, cores } = demand.size;
        match stage {
            Stage::Waiting => {}
            Stage::Sched => {
                let of_queue = of_queue.or_default();
                used.sched_jobs += by;
                of_queue.sched_jobs += by;
                of_queue.sched_nodes += by * nodes;
                of_queue.sched_cores += by * cores;
            }
            Stage::Running => {
                let of_queue = of_queue.or_default();
                used.run_jobs += by;
                used.nodes += by * nodes;
                used.cores += by * cores;
                of_queue.run_jobs += by;
                of_queue.nodes += by * nodes;
            }
        }
    }
    /// Removes the dependencies of held jobs for which there is room now.
    pub(crate) fn release<T: TopicSet>(
        &mut self,
        queues: &BTreeMap<String, Queue>,
        cx: &Cx<'_, T>,
    ) {
        let mut held = std::mem::take(&mut self.held);
        held.release(
            |limit, demand, released| limit.lets_pass(demand, self, queues, released),
            |id, limit| {
                cx.dependency_remove_of(id, limit.dependency());
            },
            |id| cx.job(id).is_ok_and(|job| job.dependencies().next().is_none()),
        );
        self.held = held;
    }
}
