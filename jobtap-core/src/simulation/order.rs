//! Tracks the order of the jobs that wait for resources, to detect which of them are backfilled.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::job::JobId;

/// The name of a job's queue, if it has one.
type QueueName = Option<Box<str>>;

/// The jobs that wait for resources, by queue.
#[derive(Debug, Default)]
pub(super) struct Order {
    queues: FxHashMap<QueueName, BTreeSet<(Reverse<u32>, JobId)>>,
    /// The queue and the priority of each job.
    places: FxHashMap<JobId, (QueueName, u32)>,
    /// The jobs that got resources since the last `take_started`.
    started: Vec<(JobId, QueueName, u32)>,
}

impl Order {
    /// Puts a job into its queue, or moves it within the queue.
    pub(super) fn enter(&mut self, id: JobId, queue: QueueName, priority: u32) {
        self.leave(id);
        self.queues.entry(queue.clone()).or_default().insert((Reverse(priority), id));
        self.places.insert(id, (queue, priority));
    }

    /// Takes a job out of its queue, if it is in one.
    pub(super) fn leave(&mut self, id: JobId) -> Option<(QueueName, u32)> {
        let (queue, priority) = self.places.remove(&id)?;
        if let Some(waiting) = self.queues.get_mut(&queue) {
            waiting.remove(&(Reverse(priority), id));
        }
        Some((queue, priority))
    }

    /// Notes that a job got resources.
    pub(super) fn start(&mut self, id: JobId) {
        if let Some((queue, priority)) = self.leave(id) {
            self.started.push((id, queue, priority));
        }
    }

    /// Returns the jobs that got resources since the last call, each with whether a job of its queue was before it and
    /// got none. The order of jobs that got resources at the same moment doesn't matter.
    pub(super) fn take_started(&mut self) -> Vec<(JobId, bool)> {
        let started = std::mem::take(&mut self.started);
        let with_passing = started.into_iter().map(|(id, queue, priority)| {
            let first = self.queues.get(&queue).and_then(BTreeSet::first);
            (id, first.is_some_and(|first| *first < (Reverse(priority), id)))
        });
        with_passing.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_starts_before_one_of_its_queue_is_backfilled() {
        let (batch, debug): (QueueName, QueueName) = (Some("batch".into()), Some("debug".into()));
        let [first, second, third, other] = [1, 2, 3, 4].map(JobId::new);
        let mut order = Order::default();
        for (id, queue, priority) in [(first, &batch, 16), (second, &batch, 16), (third, &batch, 9)]
        {
            order.enter(id, queue.clone(), priority);
        }
        order.enter(other, debug, 1);
        // Both start at one moment, so that neither passes the other.
        order.start(second);
        order.start(first);
        assert_eq!(order.take_started(), [(second, false), (first, false)]);
        order.enter(first, batch.clone(), 16);
        order.start(third);
        order.start(other);
        assert_eq!(order.take_started(), [(third, true), (other, false)]);
        // A job that has left is before no other.
        order.enter(third, batch, 9);
        order.leave(first);
        order.start(third);
        assert_eq!(order.take_started(), [(third, false)]);
        assert_eq!(order.take_started(), []);
    }
}
