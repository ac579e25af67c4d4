//! Jobs counted by queue, beside the counts of all.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::Engine;
use super::listing::Tally;
use crate::job::{JobId, State};

/// The counts of each queue that a job names or named, whether it is configured or not.
#[derive(Debug, Default)]
pub(super) struct QueueTallies(BTreeMap<Arc<str>, Tally>);

impl QueueTallies {
    /// The name as it is held here.
    fn intern(&mut self, name: &str) -> Arc<str> {
        if let Some((name, _)) = self.0.get_key_value(name) {
            return Arc::clone(name);
        }
        let name: Arc<str> = name.into();
        self.0.insert(Arc::clone(&name), Tally::default());
        name
    }

    /// One object for each queue, with its name.
    pub(super) fn to_json(&self) -> Value {
        let one = |(name, tally): (&Arc<str>, &Tally)| {
            let mut stats: Map<String, Value> = tally.to_json();
            stats.insert("name".to_owned(), (**name).into());
            Value::Object(stats)
        };
        self.0.iter().map(one).collect()
    }
}

impl Engine {
    /// Counts a job that is new here in its queue.
    pub(super) fn queue_tally_new(&mut self, id: JobId) {
        let Some(record) = self.jobs.get_mut(&id) else {
            return;
        };
        // Jobs from the store aren't read for this.
        record.counted_in = match record.job.jobspec.glance_at_queue() {
            Some(queue) => Some(self.queue_tallies.intern(&queue)),
            None => None,
        };
        let Some(queue) = &record.counted_in else { return };
        if let Some(tally) = self.queue_tallies.0.get_mut(queue) {
            tally.add(record);
        }
    }

    /// Counts an inactive job out of its queue.
    pub(super) fn queue_tally_purged(&mut self, id: JobId) {
        let Some(record) = self.jobs.get(&id) else {
            return;
        };
        let queue = record.job.jobspec.glance_at_queue();
        if let Some(tally) = queue.and_then(|queue| self.queue_tallies.0.get_mut(&*queue)) {
            tally.purge(record);
        }
    }

    /// Follows a job's change of state in its queue.
    pub(super) fn queue_tally_left(&mut self, id: JobId, left: State) {
        let Some(record) = self.jobs.get(&id) else {
            return;
        };
        let Some(queue) = &record.counted_in else { return };
        if let Some(tally) = self.queue_tallies.0.get_mut(queue) {
            tally.leave(left);
            tally.add(record);
        }
    }

    /// Follows a job to another queue.
    pub(super) fn queue_tally_moved(&mut self, id: JobId) {
        let Some(record) = self.jobs.get_mut(&id).filter(|r| r.unaccepted.is_none()) else {
            return;
        };
        if record.counted_in.as_deref() == record.job.jobspec.queue() {
            return;
        }
        let left = record.counted_in.take();
        if let Some(tally) = left.and_then(|queue| self.queue_tallies.0.get_mut(&queue)) {
            tally.leave(record.job.state);
        }
        self.queue_tally_new(id);
    }
}
