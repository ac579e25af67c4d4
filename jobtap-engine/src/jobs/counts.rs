//! Jobs counted by state and result, for the whole instance and for each queue.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use serde_json::{Map, Value};

use super::record::{CountedQueue, Record};
use crate::job::{JobResult, State};
use crate::queue::Queues;

/// Jobs by state and result.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    states: [u64; 7],
    results: [u64; 4],
    purged: u64,
}

/// The states with the names that `job-list.job-stats` has for them.
const STATES: [(State, &str); 7] = [
    (State::New, "new"),
    (State::Depend, "depend"),
    (State::Priority, "priority"),
    (State::Sched, "sched"),
    (State::Run, "run"),
    (State::Cleanup, "cleanup"),
    (State::Inactive, "inactive"),
];

/// The results with the names that `job-list.job-stats` has for them.
const RESULTS: [(JobResult, &str); 4] = [
    (JobResult::Completed, "successful"),
    (JobResult::Failed, "failed"),
    (JobResult::Canceled, "canceled"),
    (JobResult::Timeout, "timeout"),
];

impl Counts {
    fn state(&mut self, state: State) -> Option<&mut u64> {
        let index = STATES.iter().position(|(s, _)| *s == state)?;
        self.states.get_mut(index)
    }

    fn result(&mut self, record: &Record) -> Option<&mut u64> {
        let result = record.result()?;
        let index = RESULTS.iter().position(|(r, _)| *r == result)?;
        self.results.get_mut(index)
    }

    /// Counts a job in its present state, and its result if it has one.
    fn add(&mut self, record: &Record) {
        if let Some(count) = self.state(record.job.state()) {
            *count += 1;
        }
        if let Some(count) = self.result(record) {
            *count += 1;
        }
    }

    /// Removes a job from the count of a state that it has left.
    fn leave(&mut self, state: State) {
        if let Some(count) = self.state(state) {
            *count = count.saturating_sub(1);
        }
    }

    /// Removes an inactive job that is purged from the counts.
    fn purge(&mut self, record: &Record) {
        if let Some(count) = self.result(record) {
            *count = count.saturating_sub(1);
        }
        self.leave(State::Inactive);
        self.purged += 1;
    }

    /// The number of jobs in these states.
    pub(crate) fn count(&self, states: &[State]) -> u64 {
        let all = STATES.iter().zip(self.states);
        all.filter(|((state, _), _)| states.contains(state)).map(|(_, count)| count).sum()
    }

    /// The counts in the form of `job-list.job-stats`.
    fn to_json(&self) -> Map<String, Value> {
        let mut states = Map::new();
        let mut total = 0;
        for ((_, name), count) in STATES.iter().zip(self.states).skip(1) {
            states.insert((*name).to_owned(), count.into());
            total += count;
        }
        states.insert("total".to_owned(), total.into());
        let mut stats = Map::new();
        stats.insert("job_states".to_owned(), states.into());
        for ((_, name), count) in RESULTS.iter().zip(self.results) {
            stats.insert((*name).to_owned(), count.into());
        }
        stats.insert("inactive_purged".to_owned(), self.purged.into());
        stats
    }
}

/// The counts of the instance and of its queues.
#[derive(Debug, Default)]
pub(crate) struct AllCounts {
    pub(crate) all: Counts,
    /// The counts of each queue that a job names or has named, whether it is configured or not.
    queues: Vec<Counts>,
    /// The place in `queues` of a queue's counts, by the queue's name.
    places: BTreeMap<Box<str>, CountedQueue>,
}

impl AllCounts {
    /// Counts a job that has been accepted, or restored.
    pub(crate) fn add(&mut self, record: &mut Record) {
        self.all.add(record);
        self.add_to_queue(record);
    }

    fn add_to_queue(&mut self, record: &mut Record) {
        // Only glanced at: a restored job's jobspec need not be parsed for its queue.
        record.counted_in =
            record.job.kept().jobspec.glance_at_queue().and_then(|queue| self.place(&queue));
        if let Some(counts) = self.counting(record) {
            counts.add(record);
        }
    }

    /// The place of a queue's counts, which are created for its first job.
    fn place(&mut self, name: &str) -> Option<CountedQueue> {
        if let Some(place) = self.places.get(name) {
            return Some(*place);
        }
        self.queues.push(Counts::default());
        let place = CountedQueue(NonZeroU32::new(self.queues.len().try_into().ok()?)?);
        self.places.insert(name.into(), place);
        Some(place)
    }

    /// The counts of the queue in which a job is counted.
    fn counting(&mut self, record: &Record) -> Option<&mut Counts> {
        self.queues.get_mut(record.counted_in?.index())
    }

    /// Follows a job that has left a state.
    pub(crate) fn change_state(&mut self, record: &Record, left: State) {
        self.all.leave(left);
        self.all.add(record);
        if let Some(counts) = self.counting(record) {
            counts.leave(left);
            counts.add(record);
        }
    }

    /// Follows a job whose jobspec has changed, perhaps to another queue.
    pub(crate) fn change_queue(&mut self, record: &mut Record) {
        // A job that isn't accepted is not counted yet.
        if !record.is_accepted() {
            return;
        }
        let named = record.job.kept().jobspec.queue().and_then(|queue| self.place(queue));
        if record.counted_in == named {
            return;
        }
        // The job leaves the counts of the queue that it named when it was counted, not of the present one.
        if let Some(counts) = self.counting(record) {
            counts.leave(record.job.state());
        }
        self.add_to_queue(record);
    }

    /// Removes an inactive job that is purged from the counts.
    pub(crate) fn purge(&mut self, record: &Record) {
        self.all.purge(record);
        let queue = record.job.kept().jobspec.glance_at_queue();
        let place = queue.and_then(|queue| self.places.get(&*queue).copied());
        if let Some(counts) = place.and_then(|place| self.queues.get_mut(place.index())) {
            counts.purge(record);
        }
    }

    /// `job-list.job-stats`: the counts of all jobs, and under `queues` those of each queue by name: of the configured
    /// queues, and of others that jobs name.
    pub(crate) fn to_json(&self, configured: &Queues) -> Value {
        let none = Counts::default();
        let of = |name: &str| {
            let place = self.places.get(name);
            let counts = place.and_then(|place| self.queues.get(place.index())).unwrap_or(&none);
            let mut stats = counts.to_json();
            stats.insert("name".to_owned(), name.into());
            Value::Object(stats)
        };
        let configured = configured.iter().filter_map(|queue| queue.name());
        let names: BTreeSet<&str> =
            configured.chain(self.places.keys().map(|name| &**name)).collect();
        let queues = names.into_iter().map(of).collect();
        let mut stats = self.all.to_json();
        stats.insert("queues".to_owned(), queues);
        stats.into()
    }
}
