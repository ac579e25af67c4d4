//! The jobs that wait for resources, queue by queue, each queue with its scheduler.
//!
//! The jobs of a queue and of its virtual queues wait in one alloc queue. Only its own jobs can block an alloc queue.
//! All alloc queues allocate from one pool, where the constraints of the queues keep them apart.
//!
//! Schedulers come from any crate. One that panics is offline until the configuration is loaded again:
//! its state may be half changed, and a queue that stands still is better than wrong decisions.

use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;

use crate::host::{Registry, panic_text};
use crate::job::JobId;
use crate::jobs::Record;
use crate::kept::Place;
use crate::queue::{Queue, Queues, is_same_queue};
use crate::resource::{Constraint, Idset};
use crate::sched::{AllocQueue, Pool, Scheduler, TableError};
use crate::suggest;

/// The scheduler of a queue whose configuration names none.
const DEFAULT: &str = "easy";

/// All alloc queues.
#[derive(Default)]
pub(crate) struct AllocQueues {
    queues: Vec<Scheduled>,
    /// The [count of node changes](Pool::node_changes) since which jobs have been set aside; `None` before the first
    /// turn.
    nodes: Option<u64>,
    /// Counts the jobs that have come and gone.
    changes: u64,
}

/// One alloc queue with its scheduler.
pub(crate) struct Scheduled {
    /// The queue's name; empty for the anonymous queue.
    name: String,
    /// The nodes that the queue's constraint allows.
    ranks: Idset,
    pending: AllocQueue,
    scheduler: Box<dyn Scheduler>,
    health: Health,
    /// The configuration from which the scheduler was made.
    table: Value,
}

/// Whether a scheduler can be used.
enum Health {
    Online,
    /// It has panicked with this message, which is not logged yet.
    Panicked(String),
    Offline,
}

impl AllocQueues {
    /// Makes an alloc queue for each queue that is not virtual.
    ///
    /// # Errors
    /// When the scheduler of a queue cannot be made.
    pub(crate) fn new(queues: &Queues, registry: &Registry) -> Result<Self, SchedulerError> {
        let real = queues.iter().filter(|queue| queue.parent().is_none());
        let queues =
            real.map(|queue| Scheduled::new(&queue, registry)).collect::<Result<_, _>>()?;
        Ok(Self { queues, nodes: None, changes: 0 })
    }

    /// Replaces all alloc queues with those of a new configuration. A queue that still exists keeps its jobs, and its
    /// scheduler unless that is offline or its configuration has changed.
    pub(crate) fn replace(&mut self, mut new: Self) {
        new.changes = self.changes + 1;
        for old in std::mem::replace(self, new).queues {
            if let Some(queue) = self.queues.iter_mut().find(|queue| queue.name == old.name) {
                queue.pending = old.pending;
                // A new scheduler may let no job pass another.
                queue.pending.call_back();
                if queue.table == old.table && matches!(old.health, Health::Online) {
                    queue.scheduler = old.scheduler;
                }
            }
        }
    }

    /// Puts a job in its place in the alloc queue of `queue`; returns whether it is new there. Removes it from any
    /// other alloc queue: a new configuration may give a virtual queue another parent.
    pub(crate) fn insert(
        &mut self,
        queue: &Queue<'_>,
        job: &mut Record,
        priority: NonZeroU32,
    ) -> bool {
        self.changes += 1;
        let (id, old) = (job.job.id(), job.allocation.queued.replace(priority));
        let mut new = false;
        for scheduled in &mut self.queues {
            if is_same_queue(&scheduled.name, queue.alloc_queue()) {
                // A changed priority only moves the job: the scheduler is not notified.
                new = !old.is_some_and(|old| scheduled.pending.remove(id, old.get()));
                scheduled.pending.insert(id, priority.get());
            } else if let Some(old) = old {
                scheduled.remove(id, old);
            }
        }
        new
    }

    /// Removes a job from its alloc queue.
    pub(crate) fn remove(&mut self, job: &mut Record) {
        if let Some(priority) = job.allocation.queued.take() {
            self.changes += 1;
            for queue in &mut self.queues {
                queue.remove(job.job.id(), priority);
            }
        }
    }

    /// Sets aside a job that its scheduler has passed over for want of nodes.
    pub(crate) fn set_aside(&mut self, job: &Record) {
        if let Some(priority) = job.allocation.queued {
            for queue in &mut self.queues {
                queue.pending.set_aside(job.job.id(), priority.get());
            }
        }
    }

    /// If the nodes have changed, puts the jobs that were passed over back into their places, and determines anew which
    /// nodes each queue can use.
    pub(crate) fn follow_nodes(&mut self, queues: &Queues, pool: &Pool) {
        let changes = Some(pool.node_changes());
        if self.nodes == changes {
            return;
        }
        self.nodes = changes;
        for scheduled in &mut self.queues {
            scheduled.pending.call_back();
            scheduled.ranks = match queues.get(&scheduled.name).and_then(|queue| queue.constraint())
            {
                None => pool.all().ranks(),
                // The constraint was checked when the configuration was read.
                Some(value) => Constraint::from_value(&value)
                    .map(|constraint| pool.all().matching(&constraint).ranks())
                    .unwrap_or_default(),
            };
        }
    }

    /// Finds, in the order of their first jobs, the first queue that shares nodes with a later one. Returns it with the
    /// place of that other queue's first job. Ignores queues in `blocked`; `None` if no two of the rest share nodes.
    pub(crate) fn first_of_sharing(&self, blocked: &[usize]) -> Option<(usize, Place)> {
        if self.queues.len() < 2 {
            return None;
        }
        let left = self.heads().filter(|(_, index)| !blocked.contains(index));
        let mut left: Vec<(Place, usize)> = left.collect();
        left.sort_unstable();
        let ranks = |index: usize| self.queues.get(index).map(|queue| &queue.ranks);
        left.iter().enumerate().find_map(|(number, (_, queue))| {
            let shares = |(_, other): &&(Place, usize)| {
                ranks(*queue).zip(ranks(*other)).is_some_and(|(own, other)| own.intersects(other))
            };
            left.iter().skip(number + 1).find(shares).map(|(place, _)| (*queue, *place))
        })
    }

    /// The index of an alloc queue and the place of its first job, if its scheduler starts the jobs in order and no queue
    /// that shares nodes has a job before this one.
    pub(crate) fn next_of(&self, queue: &Queue<'_>) -> Option<(usize, Place)> {
        let is_own = |own: &Scheduled| is_same_queue(&own.name, queue.alloc_queue());
        let index = self.queues.iter().position(is_own)?;
        let own = self.queues.get(index)?;
        let place = own.pending.head()?;
        let is_next = matches!(own.health, Health::Online) && own.scheduler.starts_in_order();
        (is_next && !self.is_overtaken(index, place)).then_some((index, place))
    }

    /// Whether a queue has a job that goes before this place in the alloc queue `index`: it is the same queue, or shares
    /// nodes with it.
    pub(crate) fn is_overtaken(&self, index: usize, place: Place) -> bool {
        let shares = |other: usize| {
            let ranks = |index: usize| self.queues.get(index).map(|queue| &queue.ranks);
            other == index
                || ranks(index).zip(ranks(other)).is_some_and(|(own, other)| own.intersects(other))
        };
        self.heads().any(|(head, other)| head < place && shares(other))
    }

    /// Whether a queue still has a job before this place.
    pub(crate) fn starts_before(&self, queue: usize, place: Place) -> bool {
        let head = self.queues.get(queue).and_then(|queue| queue.pending.head());
        head.is_some_and(|head| head < place)
    }

    /// The first job of each queue that has jobs and whose scheduler is online.
    fn heads(&self) -> impl Iterator<Item = (Place, usize)> {
        let online = |queue: &Scheduled| matches!(queue.health, Health::Online);
        let queues = self.queues.iter().enumerate().filter(move |(_, queue)| online(queue));
        queues.filter_map(|(index, queue)| Some((queue.pending.head()?, index)))
    }

    /// Whether a job was passed over for want of nodes.
    pub(crate) fn is_passed_over(&self, job: &Record) -> bool {
        let Some(priority) = job.allocation.queued else { return false };
        self.queues.iter().any(|queue| queue.pending.is_aside(job.job.id(), priority.get()))
    }

    /// The jobs of each queue whose scheduler is online.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &AllocQueue> {
        let online = self.queues.iter().filter(|queue| matches!(queue.health, Health::Online));
        online.map(|queue| &queue.pending)
    }

    /// A counter that increases when a job comes, moves or goes.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether no job waits for resources.
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.iter().all(|queue| queue.pending.is_empty())
    }

    /// The number of jobs that wait for resources.
    pub(crate) fn len(&self) -> usize {
        self.queues.iter().map(|queue| queue.pending.len()).sum()
    }

    /// Takes the messages about schedulers that have panicked since the last call.
    pub(crate) fn take_panics(&mut self) -> Vec<String> {
        self.queues.iter_mut().filter_map(Scheduled::take_panic).collect()
    }

    /// Whether the scheduler of a queue is offline.
    pub(crate) fn is_offline(&self, queue: &Queue<'_>) -> bool {
        self.find(queue).is_some_and(|queue| !matches!(queue.health, Health::Online))
    }

    /// The indices of the alloc queues that have jobs, in the order of their first jobs: where queues
    /// share nodes, the higher priority goes first.
    pub(crate) fn in_turn(&self) -> Vec<usize> {
        let mut heads: Vec<(Place, usize)> = self.heads().collect();
        heads.sort_unstable();
        heads.into_iter().map(|(_, index)| index).collect()
    }

    /// An alloc queue, by its index from [`in_turn`](Self::in_turn).
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut Scheduled> {
        self.queues.get_mut(index)
    }

    /// The jobs before this one in its alloc queue. A job that was passed over waits for none of them.
    pub(crate) fn ahead_of(&self, job: &Record) -> Vec<JobId> {
        if self.is_passed_over(job) {
            return Vec::new();
        }
        let id = job.job.id();
        let has_job = |queue: &&Scheduled| {
            job.allocation.queued.is_some_and(|priority| queue.pending.contains(id, priority.get()))
        };
        let queue = self.queues.iter().find(has_job);
        let pending = queue.into_iter().flat_map(|queue| queue.pending.iter());
        pending.take_while(|other| *other != id).collect()
    }

    /// Whether any job is before this one in its alloc queue, as [`ahead_of`](Self::ahead_of) lists them.
    pub(crate) fn has_before(&self, job: &Record) -> bool {
        let (id, Some(priority)) = (job.job.id(), job.allocation.queued) else { return false };
        let is_behind = |queue: &Scheduled| {
            let queue = &queue.pending;
            queue.first() != Some(id)
                && queue.contains(id, priority.get())
                && !queue.is_aside(id, priority.get())
        };
        self.queues.iter().any(is_behind)
    }

    /// The name of a queue's scheduler.
    pub(crate) fn scheduler_of(&self, queue: &Queue<'_>) -> Option<&'static str> {
        Some(self.find(queue)?.scheduler.name())
    }

    fn find(&self, queue: &Queue<'_>) -> Option<&Scheduled> {
        self.queues.iter().find(|scheduled| is_same_queue(&scheduled.name, queue.alloc_queue()))
    }
}

impl Scheduled {
    fn new(queue: &Queue<'_>, registry: &Registry) -> Result<Self, SchedulerError> {
        let table = queue.scheduler();
        let name = queue.name().unwrap_or_default().to_owned();
        let path = if name.is_empty() { String::new() } else { format!("queues.{name}.") };
        let path = format!("{path}policy.scheduler");
        let scheduler =
            make_scheduler(&table, registry).map_err(|fault| SchedulerError { path, fault })?;
        let (pending, health) = (AllocQueue::default(), Health::Online);
        Ok(Self { name, ranks: Idset::new(), pending, scheduler, health, table })
    }

    /// Calls the scheduler with the jobs of the queue. A panic takes it offline.
    pub(crate) fn with_scheduler<'a>(
        &'a mut self,
        call: impl FnOnce(&mut dyn Scheduler, &'a AllocQueue),
    ) {
        let Self { scheduler, pending, health, .. } = self;
        // A scheduler that has panicked is not called again, so that its broken state is never seen.
        let called = catch_unwind(AssertUnwindSafe(|| call(&mut **scheduler, pending)));
        if let Err(panic) = called {
            *health = Health::Panicked(panic_text(&*panic));
        }
    }

    fn remove(&mut self, id: JobId, priority: NonZeroU32) {
        if self.pending.remove(id, priority.get()) && matches!(self.health, Health::Online) {
            self.with_scheduler(|scheduler, _| scheduler.job_left(id));
        }
    }

    fn take_panic(&mut self) -> Option<String> {
        let Health::Panicked(text) = &self.health else { return None };
        let of = match &*self.name {
            "" => String::new(),
            name => format!(" of queue {name}"),
        };
        let text = format!(
            "scheduler {}{of} panicked: {text}; it is offline until the configuration is loaded again",
            self.scheduler.name()
        );
        self.health = Health::Offline;
        Some(text)
    }
}

/// Why a queue can't have the scheduler that its table asks for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}{fault}")]
pub(crate) struct SchedulerError {
    /// The path of the table in the configuration.
    path: String,
    fault: SchedulerFault,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum SchedulerFault {
    #[error(".queue-policy must be a string")]
    NoString,
    #[error(".queue-policy: there is no scheduler {name:?}{} (one of {})", did_you_mean(meant), known.join(", "))]
    Unknown { name: String, meant: Option<&'static str>, known: Vec<&'static str> },
    /// The scheduler's own words.
    #[error(": {0}")]
    Refused(TableError),
    #[error(": panicked: {0}")]
    Panicked(String),
}

fn did_you_mean(meant: &Option<&'static str>) -> String {
    meant.map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default()
}

/// Makes the scheduler that a table names under `queue-policy`.
fn make_scheduler(
    table: &Value,
    registry: &Registry,
) -> Result<Box<dyn Scheduler>, SchedulerFault> {
    let name = match table.get("queue-policy") {
        None => DEFAULT,
        Some(Value::String(name)) => name,
        Some(_) => return Err(SchedulerFault::NoString),
    };
    let Some(descriptor) = registry.find_scheduler(name) else {
        let known: Vec<&'static str> =
            registry.schedulers().map(|scheduler| scheduler.name).collect();
        let meant = suggest::nearest(name, known.iter().copied());
        return Err(SchedulerFault::Unknown { name: name.to_owned(), meant, known });
    };
    match catch_unwind(AssertUnwindSafe(|| (descriptor.new)(table))) {
        Ok(made) => made.map_err(SchedulerFault::Refused),
        Err(panic) => Err(SchedulerFault::Panicked(panic_text(&*panic))),
    }
}
