//! Which job gets which resources, and when.
//!
//! | file | what it holds |
//! |---|---|
//! | `alloc_queues` | the jobs that wait for resources, queue by queue, each queue with its scheduler |
//! | `schedule` | the schedulers' decisions, carried out |
//! | `estimates`, `start_times` | when pending jobs will probably start |
//! | `retained` | resources that plugins retain after the end of their jobs |
//! | `nodes`, `node_events`, `journal` | which nodes are drained, offline or excluded; the events of nodes |
//! | `maintenance` | the planned maintenance of nodes |

pub(super) mod alloc_queues;
pub(super) mod estimates;
pub(super) mod journal;
pub(super) mod maintenance;
pub(super) mod node_events;
pub(super) mod nodes;
pub(super) mod retained;
pub(super) mod schedule;
mod start_times;

use std::collections::BTreeSet;

use super::jobs::{Jobs, Record};
use super::prefill::Prefill;
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
    /// The named queues: which are enabled, and which are started.
    pub(super) queues: Queues,
    pub(super) alloc_queues: AllocQueues,
    pub(super) pool: Pool,
    pub(super) nodes: Nodes,
    /// The jobs that have resources of the pool, from the grant (before `alloc` is applied) to `free`.
    pub(super) allocated_jobs: BTreeSet<JobId>,
    pub(super) retained: RetainedSets,
    /// The jobs that were handed to the executor ahead of their turn.
    pub(super) prefill: Prefill,
    estimates: Estimates,
}

impl Allocation {
    pub(super) fn new(queues: Queues, alloc_queues: AllocQueues, resources: &ResourceSet) -> Self {
        Self {
            queues,
            alloc_queues,
            pool: Pool::new(resources),
            nodes: Nodes::new(resources),
            allocated_jobs: BTreeSet::new(),
            retained: RetainedSets::default(),
            prefill: Prefill::default(),
            estimates: Estimates::default(),
        }
    }

    /// Takes the resources of a restored job from the pool; returns whether all of them were free.
    pub(super) fn reclaim(&mut self, record: &Record) -> bool {
        let reclaimed =
            record.unreleased_resources().is_some_and(|allocated| self.pool.claim(allocated));
        if reclaimed {
            self.allocated_jobs.insert(record.job.id());
        }
        reclaimed
    }

    /// Returns to the pool the resources that a job has not released before, after `free` has been applied, unless they
    /// are for a job that was handed over ahead of its turn.
    pub(super) fn free(&mut self, record: &Record) {
        if record.allocation.is_from_pool()
            && let Some(resources) = record.unreleased_resources()
        {
            let id = record.job.id();
            if !self.prefill.keeps(id, resources) {
                self.pool.release(resources);
            }
            self.allocated_jobs.remove(&id);
        }
    }

    /// What is in use, and until when.
    fn in_use<'a>(&'a self, jobs: &'a Jobs, now: f64) -> Vec<Running<'a>> {
        in_use(jobs, &self.allocated_jobs, &self.retained, now)
    }
}

/// What is allocated to jobs and retained by plugins, and until when.
fn in_use<'a>(
    jobs: &'a Jobs,
    allocated_jobs: &BTreeSet<JobId>,
    retained: &'a RetainedSets,
    now: f64,
) -> Vec<Running<'a>> {
    let allocated = allocated_jobs.iter().filter_map(|id| jobs.get(*id)?.unreleased_resources());
    let allocated = allocated.map(|resources| Running { resources, until: resources.expiration() });
    // It is unknown when a plugin frees what it retains. The estimate is "now", since resources are usually retained
    // for housekeeping, which is short.
    let retained = retained.iter().map(|(_, _, r)| Running { resources: r, until: Some(now) });
    allocated.chain(retained).collect()
}
