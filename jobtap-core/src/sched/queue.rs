//! The alloc queue: the jobs in SCHED in the order in which they get resources, which is descending
//! priority, then ascending id.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::job::JobId;

/// The jobs in SCHED in the order in which they get resources: by descending priority, then by id.
///
/// A job is found by its id and the priority with which it was inserted, which the engine knows of each job. Inserting
/// and removing take logarithmic time.
///
/// ```
/// use jobtap_core::job::JobId;
/// use jobtap_core::sched::AllocQueue;
///
/// let mut queue = AllocQueue::default();
/// queue.insert(JobId::new(1), 16);
/// queue.insert(JobId::new(2), 20);
/// queue.insert(JobId::new(3), 16);
/// queue.remove(JobId::new(1), 16);
/// queue.insert(JobId::new(1), 30);
/// let order: Vec<u64> = queue.iter().map(JobId::as_u64).collect();
/// assert_eq!(order, [1, 2, 3]);
/// ```
#[derive(Debug, Clone, Default)]
pub struct AllocQueue(BTreeSet<(Reverse<u32>, JobId)>);

impl AllocQueue {
    /// Adds a job. One that is in the queue with another priority is to be removed first.
    pub fn insert(&mut self, id: JobId, priority: u32) {
        self.0.insert((Reverse(priority), id));
    }

    /// Removes a job with this priority. Returns false if it was not in the queue.
    pub fn remove(&mut self, id: JobId, priority: u32) -> bool {
        self.0.remove(&(Reverse(priority), id))
    }

    /// Whether a job with this priority is in the queue.
    pub fn contains(&self, id: JobId, priority: u32) -> bool {
        self.0.contains(&(Reverse(priority), id))
    }

    /// The first job.
    pub fn first(&self) -> Option<JobId> {
        self.0.first().map(|(_, id)| *id)
    }

    /// The key of the first job, by which the first jobs of several queues are compared.
    pub(crate) fn head(&self) -> Option<(Reverse<u32>, JobId)> {
        self.0.first().copied()
    }

    /// The jobs in order.
    pub fn iter(&self) -> impl Iterator<Item = JobId> + '_ {
        self.0.iter().map(|(_, id)| *id)
    }

    /// Number of jobs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_in_order_when_jobs_come_move_and_go() {
        let id = JobId::new;
        let mut queue = AllocQueue::default();
        assert!(queue.is_empty());
        assert_eq!((queue.first(), queue.len()), (None, 0));
        for (job, priority) in [(1, 16), (2, 20), (3, 16), (2, 20)] {
            queue.insert(id(job), priority);
        }
        assert!(queue.iter().eq([id(2), id(1), id(3)]));
        assert!(queue.remove(id(3), 16));
        queue.insert(id(3), 30);
        assert_eq!((queue.first(), queue.len()), (Some(id(3)), 3));
        assert!(queue.contains(id(2), 20) && !queue.contains(id(4), 20) && !queue.is_empty());
        assert!(queue.remove(id(3), 30));
        assert!(!queue.remove(id(3), 30));
        assert!(queue.iter().eq([id(2), id(1)]));
        assert!(!queue.contains(id(3), 30));
    }
}
