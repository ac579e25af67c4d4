//! The interface between the manager and a scheduler: one turn, in which a scheduler sees pending jobs,
//! running jobs and free resources, and allocates.

use super::pool::{Answer, Pool};
use super::queue::{AllocQueue, Place};
use crate::job::JobId;
use crate::jobspec::Jobspec;
use crate::resource::ResourceSet;

/// Decides which pending jobs of a queue get resources, and when.
///
/// A site chooses a scheduler by `policy.scheduler.queue-policy`; a crate registers its own with
/// [`scheduler!`](crate::scheduler!). Each queue has a scheduler of its own, except for virtual queues,
/// which use their parent's. All schedulers allocate from one pool.
///
/// A scheduler is called when a job has entered or left a queue and when resources have been freed. A job
/// gets allocated resources at once; jobs without an allocation are offered again in the next turn. A
/// scheduler that panics is not called again, and the jobs of its queue stay pending, until the
/// configuration is reloaded.
pub trait Scheduler {
    /// The name in the configuration.
    fn name(&self) -> &'static str;

    /// Allocates resources to the jobs that can start now.
    fn turn(&mut self, turn: &mut Turn<'_>);

    /// Whether the first pending job starts before all others as soon as what it needs is free. Then the manager may hand a
    /// short job to the node before the job whose place it takes has ended, so that the node isn't idle between them.
    fn starts_in_order(&self) -> bool {
        false
    }

    /// Called when a job has left the queue. The scheduler must drop what it knows about the job, which may
    /// come back with another jobspec.
    fn job_left(&mut self, id: JobId);
}

/// A running job, as a scheduler sees it.
#[derive(Debug, Clone, Copy)]
pub struct Running<'a> {
    /// The resources that are allocated to it.
    pub resources: &'a ResourceSet,
    /// When its time limit is reached, in UNIX seconds; `None` without a time limit.
    pub until: Option<f64>,
}

/// One turn of a scheduler: the state that it sees, and [`allocate`](Self::allocate).
pub struct Turn<'a>(TurnParts<'a>);

/// What a [`Turn`] is made of.
#[doc(hidden)]
pub struct TurnParts<'a> {
    pub now: f64,
    pub pool: &'a mut Pool,
    pub queue: &'a AllocQueue,
    /// The place of the first job in another queue. Jobs of this queue behind it take no part in the turn.
    pub until: Option<Place>,
    /// The jobspec of a pending job.
    pub jobspec: &'a dyn Fn(JobId) -> Option<&'a Jobspec>,
    /// The running jobs.
    pub running: &'a dyn Fn() -> Vec<Running<'a>>,
    /// The decisions so far. They are valid even if the scheduler panics, since the pool has already allocated the
    /// resources.
    pub decided: &'a mut Vec<(JobId, Decision)>,
    /// Jobs that lack nodes.
    pub passed_over: &'a mut Vec<JobId>,
    /// When, in UNIX seconds, a maintenance comes too near for a job that isn't passed over; infinite if that happens to
    /// none.
    pub too_near: &'a mut f64,
}

/// What a scheduler decided about a job.
#[derive(Debug, Clone)]
pub enum Decision {
    /// The job gets these resources.
    Granted(ResourceSet),
    /// The job can never run, for this reason.
    Never(String),
}

impl<'a> Turn<'a> {
    /// The turn that has these parts.
    #[doc(hidden)]
    pub fn from_parts(parts: TurnParts<'a>) -> Self {
        Self(parts)
    }

    /// The current time, in UNIX seconds.
    pub fn now(&self) -> f64 {
        self.0.now
    }

    /// The pending jobs of the queue by descending priority, then by submission. Jobs that were decided
    /// or [passed over](Self::pass_over) in this turn are still among them, those that were passed over before are not.
    ///
    /// Where queues share nodes, some turns lack the jobs behind the first job of another queue, which goes first. The
    /// last turn has all jobs.
    pub fn pending(&self) -> impl Iterator<Item = JobId> + use<'a> {
        self.0.queue.before(self.0.until)
    }

    /// The jobspec of a pending job.
    pub fn jobspec(&self, id: JobId) -> Option<&'a Jobspec> {
        (self.0.jobspec)(id)
    }

    /// The running jobs, including those that got their resources in this turn.
    pub fn running(&self) -> Vec<Running<'_>> {
        let mut running = (self.0.running)();
        running.extend(self.0.decided.iter().filter_map(|(_, decision)| match decision {
            Decision::Granted(resources) => {
                Some(Running { resources, until: resources.expiration() })
            }
            Decision::Never(_) => None,
        }));
        running
    }

    /// The pool of resources. Only [`allocate`](Self::allocate) can change it.
    pub fn pool(&self) -> &Pool {
        self.0.pool
    }

    /// Whether [`allocate`](Self::allocate) is worth a call for a job: there are enough free resources,
    /// disregarding reservations, or it is not known yet whether the job can ever run.
    pub fn fits(&mut self, jobspec: &Jobspec) -> bool {
        self.0.pool.fits(jobspec, self.0.now)
    }

    /// Passes over a job that lacks nodes: even if all other jobs ended, too few of the nodes that it could use would
    /// be up, since others are drained, offline, or under a maintenance without an end. It isn't known when these
    /// return, so nothing should be reserved for the job, and no other job should wait for it.
    ///
    /// Returns whether the job lacks nodes. If so, it isn't offered again until the nodes have changed. `jobtap job
    /// why` then says which nodes it waits for. If not, there is another turn when a maintenance comes too near for the
    /// job to end before it. A scheduler that doesn't call this keeps its order instead.
    pub fn pass_over(&mut self, id: JobId) -> bool {
        let Some(jobspec) = self.jobspec(id) else { return false };
        let lacks_nodes = self.0.pool.lacks_nodes(jobspec, self.0.now);
        if lacks_nodes {
            self.0.passed_over.push(id);
        } else if let Some(at) = self.0.pool.comes_too_near(jobspec, self.0.now) {
            *self.0.too_near = self.0.too_near.min(at);
        }
        lacks_nodes
    }

    /// Allocates resources to a job from those that are free and not in `except`.
    ///
    /// Returns true if the job is decided: it has its resources, or it can never run and is refused.
    /// Returns false if it stays pending.
    pub fn allocate(&mut self, id: JobId, except: Option<&ResourceSet>) -> bool {
        let Some(jobspec) = self.jobspec(id) else { return true };
        let decision = match self.0.pool.allocate_except(jobspec, self.0.now, except) {
            Answer::Busy => return false,
            Answer::Granted(resources) => Decision::Granted(resources),
            Answer::Never(why) => Decision::Never(why.to_string()),
        };
        self.0.decided.push((id, decision));
        true
    }
}
