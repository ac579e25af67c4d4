//! One turn of a scheduler: what waits, what runs, what is free, and what it decides.

use super::pool::{Answer, Pool};
use super::queue::AllocQueue;
use crate::job::JobId;
use crate::jobspec::Jobspec;
use crate::resource::ResourceSet;

/// Decides which waiting jobs of a queue get resources, and when. One that a site chooses by
/// `policy.scheduler.queue-policy`; a crate adds its own by [`scheduler!`](crate::scheduler!).
///
/// Each queue has one, a virtual queue that of its parent, and all of them take from one pool. It is
/// called whenever a job joined or left a queue or gave back resources. What it allocates is the
/// job's at once; what it doesn't is asked for again at the next turn. One that panics is offline, and
/// the jobs of its queue wait, until the configuration is loaded again.
pub trait Scheduler {
    /// Its name in the configuration.
    fn name(&self) -> &'static str;

    /// Allocates what can start now.
    fn turn(&mut self, turn: &mut Turn<'_>);

    /// A job left the queue, and may come back with another jobspec: what is known of it is void.
    fn left(&mut self, id: JobId);
}

/// A job that runs, as a scheduler sees it.
#[derive(Debug, Clone, Copy)]
pub struct Running<'a> {
    /// What it holds.
    pub resources: &'a ResourceSet,
    /// When it ends at the latest, UNIX seconds; `None` when nothing ends it.
    pub until: Option<f64>,
}

/// What a scheduler sees and does in one turn.
pub struct Turn<'a> {
    pub(crate) now: f64,
    pub(crate) pool: &'a mut Pool,
    pub(crate) queue: &'a AllocQueue,
    /// The jobspec of a waiting job.
    pub(crate) jobspec: &'a dyn Fn(JobId) -> Option<&'a Jobspec>,
    /// The jobs that run.
    pub(crate) running: &'a dyn Fn() -> Vec<Running<'a>>,
    /// It stays what it is if the scheduler panics: the pool has given the resources.
    pub(crate) decided: &'a mut Vec<(JobId, Decision)>,
}

/// What a scheduler decided about a job.
#[derive(Debug, Clone)]
pub enum Decision {
    /// It has these resources.
    Granted(ResourceSet),
    /// It can never run, for this reason.
    Never(String),
}

impl<'a> Turn<'a> {
    /// The time, UNIX seconds.
    pub fn now(&self) -> f64 {
        self.now
    }

    /// The jobs that wait, in the order of their priorities, ties by submission. Those that were
    /// decided in this turn are still among them.
    pub fn waiting(&self) -> impl Iterator<Item = JobId> + use<'a> {
        self.queue.iter()
    }

    /// What a waiting job asks for.
    pub fn jobspec(&self, id: JobId) -> Option<&'a Jobspec> {
        (self.jobspec)(id)
    }

    /// The jobs that run.
    pub fn running(&self) -> Vec<Running<'a>> {
        (self.running)()
    }

    /// The resources, of which nothing can be taken but by [`allocate`](Self::allocate).
    pub fn pool(&self) -> &Pool {
        self.pool
    }

    /// Whether it is worth asking for resources for a job: there is enough free now, for whomever it
    /// may be reserved, or the job has to be told that there never is.
    pub fn fits(&mut self, jobspec: &Jobspec) -> bool {
        self.pool.fits(jobspec, self.now)
    }

    /// Gives a job resources if there are enough that are free and not among `but`. Says whether it
    /// is decided: it has them, or it can never run. Else it waits.
    pub fn allocate(&mut self, id: JobId, but: Option<&ResourceSet>) -> bool {
        let Some(jobspec) = self.jobspec(id) else { return true };
        let decision = match self.pool.allocate_but(jobspec, self.now, but) {
            Answer::Busy => return false,
            Answer::Granted(resources) => Decision::Granted(resources),
            Answer::Never(reason) => Decision::Never(reason),
        };
        self.decided.push((id, decision));
        true
    }
}
