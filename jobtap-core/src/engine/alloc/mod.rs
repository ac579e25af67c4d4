//! Which job gets which resources, and when.
//!
//! | file | what it holds |
//! |---|---|
//! | `alloc_queues` | the jobs that wait for resources, queue by queue, each queue with its scheduler |
//! | `schedule` | the schedulers' decisions, carried out |
//! | `estimates` | when pending jobs will probably start |
//! | `retained` | resources that plugins retain after the end of their jobs |
//! | `nodes`, `node_events`, `maintenance` | which nodes are drained, offline, excluded or under maintenance |

pub(super) mod alloc_queues;
pub(super) mod estimates;
pub(super) mod maintenance;
pub(super) mod node_events;
pub(super) mod nodes;
pub(super) mod retained;
pub(super) mod schedule;

use std::collections::BTreeSet;

use super::jobs::{Jobs, Record};
use crate::job::JobId;
use crate::queue::Queues;
use crate::resource::ResourceSet;
use crate::sched::{Pool, Running};
use alloc_queues::AllocQueues;
use estimates::Estimates;
use nodes::Nodes;
use retained::RetainedSets;

/// The instance's queues and resources.
pub(super) struct Allocation {
    /// The named queues: which take jobs, and which allocate.
    pub(super) queues: Queues,
    pub(super) alloc_queues: AllocQueues,
    pub(super) pool: Pool,
    pub(super) nodes: Nodes,
    /// The jobs that hold resources of the pool.
    pub(super) holders: BTreeSet<JobId>,
    pub(super) retained: RetainedSets,
    estimates: Estimates,
}

impl Allocation {
    pub(super) fn new(queues: Queues, alloc_queues: AllocQueues, resources: &ResourceSet) -> Self {
        Self {
            queues,
            alloc_queues,
            pool: Pool::new(resources),
            nodes: Nodes::new(resources),
            holders: BTreeSet::new(),
            retained: RetainedSets::default(),
            estimates: Estimates::default(),
        }
    }

    /// Takes the resources of a restored job from the pool; returns whether all of them were there.
    pub(super) fn reclaim(&mut self, record: &Record) -> bool {
        let reclaimed = record.held().is_some_and(|held| self.pool.claim(held));
        if reclaimed {
            self.holders.insert(record.job.id);
        }
        reclaimed
    }

    /// Returns what a job still held to the pool, when it frees its resources.
    pub(super) fn free(&mut self, record: &Record) {
        if record.holding.is_from_pool()
            && let Some(resources) = record.held()
        {
            self.pool.release(resources);
            self.holders.remove(&record.job.id);
        }
    }

    /// What is in use, and until when.
    fn in_use<'a>(&'a self, jobs: &'a Jobs, now: f64) -> Vec<Running<'a>> {
        in_use(jobs, &self.holders, &self.retained, now)
    }
}

/// What jobs hold and plugins retain, and until when.
fn in_use<'a>(
    jobs: &'a Jobs,
    holders: &BTreeSet<JobId>,
    retained: &'a RetainedSets,
    now: f64,
) -> Vec<Running<'a>> {
    let held = holders.iter().filter_map(|id| jobs.get(*id)?.held());
    let held = held.map(|resources| Running { resources, until: resources.expiration() });
    // When a plugin frees what it retains is not known. It is taken for soon: as a rule, that is
    // housekeeping, which is short.
    let retained = retained.iter().map(|(_, _, r)| Running { resources: r, until: Some(now) });
    held.chain(retained).collect()
}
