//! The jobs that wait for resources, by the queues whose order they are in, each with its scheduler.
//!
//! A queue's jobs and those of its virtual queues are in one lane. What blocks a lane blocks no other;
//! all take from one pool, and the constraints of the queues keep them apart there.
//!
//! Schedulers come from anybody's crates. One that panics is offline until the configuration is loaded
//! again: what it holds may be half done, and its queue is better still than wrong.

use std::cmp::Reverse;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;

use crate::host::{Registry, panic_text};
use crate::job::JobId;
use crate::queue::{Queue, Queues};
use crate::sched::{AllocQueue, Scheduler};
use crate::suggest;

/// The policy where none is configured.
const DEFAULT: &str = "easy";

/// All lanes.
#[derive(Default)]
pub(super) struct Lanes(Vec<Lane>);

/// One lane.
pub(super) struct Lane {
    /// The queue's name; empty for the anonymous one.
    name: String,
    pub(super) waiting: AllocQueue,
    scheduler: Box<dyn Scheduler>,
    health: Health,
    /// The table that the scheduler was made from.
    table: Value,
}

/// How a lane's scheduler is.
enum Health {
    Well,
    /// It has panicked, which nobody knows yet.
    Panicked(String),
    Offline,
}

impl Lanes {
    /// A lane for each queue that is no virtual one.
    ///
    /// # Errors
    /// When a queue's scheduler can't be had.
    pub(super) fn new(queues: &Queues, registry: &Registry) -> Result<Self, String> {
        let real = queues.iter().filter(|queue| queue.parent().is_none());
        Ok(Self(real.map(|queue| Lane::new(&queue, registry)).collect::<Result<_, _>>()?))
    }

    /// The lanes of a new configuration take the place of these. What waits in one that stays waits on,
    /// and its scheduler goes on unless it is offline or the configuration says something else of it.
    pub(super) fn replace(&mut self, new: Self) {
        for old in std::mem::replace(self, new).0 {
            if let Some(lane) = self.0.iter_mut().find(|lane| lane.name == old.name) {
                lane.waiting = old.waiting;
                if lane.table == old.table && matches!(old.health, Health::Well) {
                    lane.scheduler = old.scheduler;
                }
            }
        }
    }

    /// Puts a job in its place in a queue's lane, or moves it there, from another lane too: a new
    /// configuration may give a virtual queue another parent. Says whether it is new there.
    pub(super) fn insert(&mut self, queue: &Queue<'_>, id: JobId, priority: u32) -> bool {
        let mut new = false;
        for lane in &mut self.0 {
            if lane.name == queue.lane() {
                new = !lane.waiting.contains(id);
                lane.waiting.insert(id, priority);
            } else {
                lane.leave(id);
            }
        }
        new
    }

    /// Takes a job out of the lane that it is in.
    pub(super) fn leave(&mut self, id: JobId) {
        for lane in &mut self.0 {
            lane.leave(id);
        }
    }

    /// The jobs that wait in each lane that is at work.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &AllocQueue> {
        let well = self.0.iter().filter(|lane| matches!(lane.health, Health::Well));
        well.map(|lane| &lane.waiting)
    }

    /// Whether no job waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|lane| lane.waiting.is_empty())
    }

    /// How many jobs wait.
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|lane| lane.waiting.len()).sum()
    }

    /// What is to be logged of schedulers that went offline since it was asked last.
    pub(super) fn news(&mut self) -> Vec<String> {
        self.0.iter_mut().filter_map(Lane::news).collect()
    }

    /// Whether a queue's scheduler is offline.
    pub(super) fn is_offline(&self, queue: &Queue<'_>) -> bool {
        let lane = self.0.iter().find(|lane| lane.name == queue.lane());
        lane.is_some_and(|lane| !matches!(lane.health, Health::Well))
    }

    /// The lanes in which jobs wait, in the order of the first ones: where queues share nodes the
    /// higher priority still goes first.
    pub(super) fn in_turn(&self) -> Vec<usize> {
        let well = |lane: &Lane| matches!(lane.health, Health::Well);
        let head = |(index, lane): (usize, &Lane)| Some((lane.waiting.head()?, index));
        let mut heads: Vec<((Reverse<u32>, JobId), usize)> =
            self.0.iter().enumerate().filter(|(_, lane)| well(lane)).filter_map(head).collect();
        heads.sort_unstable();
        heads.into_iter().map(|(_, index)| index).collect()
    }

    /// A lane of [`in_turn`](Self::in_turn).
    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Lane> {
        self.0.get_mut(index)
    }

    /// The jobs that go before one in its lane.
    pub(super) fn ahead_of(&self, id: JobId) -> Vec<JobId> {
        let lane = self.0.iter().find(|lane| lane.waiting.contains(id));
        let waiting = lane.into_iter().flat_map(|lane| lane.waiting.iter());
        waiting.take_while(|other| *other != id).collect()
    }

    /// The name of a queue's scheduler.
    pub(super) fn scheduler_of(&self, queue: &Queue<'_>) -> Option<&'static str> {
        let lane = self.0.iter().find(|lane| lane.name == queue.lane())?;
        Some(lane.scheduler.name())
    }
}

impl Lane {
    fn new(queue: &Queue<'_>, registry: &Registry) -> Result<Self, String> {
        let table = queue.scheduler();
        let name = queue.name().unwrap_or_default().to_owned();
        let place = if name.is_empty() { String::new() } else { format!("queues.{name}.") };
        let place = format!("{place}policy.scheduler");
        let scheduler = scheduler(&place, &table, registry)?;
        let (waiting, health) = (AllocQueue::default(), Health::Well);
        Ok(Self { name, waiting, scheduler, health, table })
    }

    /// Lets the scheduler do something with the jobs that wait.
    pub(super) fn with_scheduler<'a>(
        &'a mut self,
        call: impl FnOnce(&mut dyn Scheduler, &'a AllocQueue),
    ) {
        let Self { scheduler, waiting, health, .. } = self;
        let called = catch_unwind(AssertUnwindSafe(|| call(&mut **scheduler, waiting)));
        if let Err(panic) = called {
            *health = Health::Panicked(panic_text(&*panic));
        }
    }

    fn leave(&mut self, id: JobId) {
        if self.waiting.remove(id) && matches!(self.health, Health::Well) {
            self.with_scheduler(|scheduler, _| scheduler.left(id));
        }
    }

    fn news(&mut self) -> Option<String> {
        let Health::Panicked(text) = &self.health else { return None };
        let of = match &*self.name {
            "" => String::new(),
            name => format!(" of queue {name}"),
        };
        let news = format!(
            "scheduler {}{of} panicked: {text}; it is offline until the configuration is loaded again",
            self.scheduler.name()
        );
        self.health = Health::Offline;
        Some(news)
    }
}

/// The scheduler that a table names under `queue-policy`.
fn scheduler(
    place: &str,
    table: &Value,
    registry: &Registry,
) -> Result<Box<dyn Scheduler>, String> {
    let name = match table.get("queue-policy") {
        None => DEFAULT,
        Some(Value::String(name)) => name,
        Some(_) => return Err(format!("{place}.queue-policy must be a string")),
    };
    let Some(descriptor) = registry.find_scheduler(name) else {
        let known: Vec<&str> = registry.schedulers().map(|scheduler| scheduler.name).collect();
        let meant = suggest::nearest(name, known.iter().copied());
        let meant = meant.map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default();
        let known = known.join(", ");
        return Err(format!(
            "{place}.queue-policy: there is no scheduler {name:?}{meant} (one of {known})"
        ));
    };
    let made = catch_unwind(AssertUnwindSafe(|| (descriptor.new)(table)));
    let made = made.unwrap_or_else(|panic| Err(format!("panicked: {}", panic_text(&*panic))));
    made.map_err(|text| format!("{place}: {text}"))
}
