//! Jobs counted by state and result, for the whole instance and for each queue.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::record::Record;
use crate::job::{JobResult, State};

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
        if let Some(count) = self.state(record.job.state) {
            *count += 1;
        }
        if let Some(count) = self.result(record) {
            *count += 1;
        }
    }

    /// Counts a job out of a state that it has left.
    fn leave(&mut self, state: State) {
        if let Some(count) = self.state(state) {
            *count = count.saturating_sub(1);
        }
    }

    /// Counts out an inactive job that is purged.
    fn purge(&mut self, record: &Record) {
        if let Some(count) = self.result(record) {
            *count = count.saturating_sub(1);
        }
        self.leave(State::Inactive);
        self.purged += 1;
    }

    /// How many jobs are in these states.
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
    /// Of each queue that a job names or named, whether it is configured or not.
    queues: BTreeMap<Arc<str>, Counts>,
}

impl AllCounts {
    /// Counts a job that has been accepted, or restored.
    pub(crate) fn add(&mut self, record: &mut Record) {
        self.all.add(record);
        self.add_to_queue(record);
    }

    fn add_to_queue(&mut self, record: &mut Record) {
        // The jobspec of a restored job need not be parsed for its queue.
        record.counted_in = record.job.jobspec.glance_at_queue().map(|queue| self.intern(&queue));
        if let Some(counts) = record.counted_in.as_ref().and_then(|q| self.queues.get_mut(q)) {
            counts.add(record);
        }
    }

    /// The queue's name in the one allocation that all of its jobs share.
    fn intern(&mut self, name: &str) -> Arc<str> {
        if let Some((name, _)) = self.queues.get_key_value(name) {
            return Arc::clone(name);
        }
        let name: Arc<str> = name.into();
        self.queues.insert(Arc::clone(&name), Counts::default());
        name
    }

    /// Follows a job that has left a state.
    pub(crate) fn change_state(&mut self, record: &Record, left: State) {
        self.all.leave(left);
        self.all.add(record);
        if let Some(counts) = record.counted_in.as_ref().and_then(|q| self.queues.get_mut(q)) {
            counts.leave(left);
            counts.add(record);
        }
    }

    /// Follows a job whose jobspec has changed, perhaps to another queue.
    pub(crate) fn change_queue(&mut self, record: &mut Record) {
        if !record.is_accepted() || record.counted_in.as_deref() == record.job.jobspec.queue() {
            return;
        }
        // The counts of a queue follow the name that the job had when it was counted, not the present one.
        let left = record.counted_in.take();
        if let Some(counts) = left.and_then(|queue| self.queues.get_mut(&queue)) {
            counts.leave(record.job.state);
        }
        self.add_to_queue(record);
    }

    /// Counts out an inactive job that is purged.
    pub(crate) fn purge(&mut self, record: &Record) {
        self.all.purge(record);
        let queue = record.job.jobspec.glance_at_queue();
        if let Some(counts) = queue.and_then(|queue| self.queues.get_mut(&*queue)) {
            counts.purge(record);
        }
    }

    /// `job-list.job-stats`: the counts of all jobs, with those of each queue under `queues`.
    pub(crate) fn to_json(&self) -> Value {
        let mut stats = self.all.to_json();
        let one = |(name, counts): (&Arc<str>, &Counts)| {
            let mut stats = counts.to_json();
            stats.insert("name".to_owned(), (**name).into());
            Value::Object(stats)
        };
        stats.insert("queues".to_owned(), self.queues.iter().map(one).collect());
        stats.into()
    }
}
