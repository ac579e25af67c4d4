//! The alloc queue: the jobs in SCHED in the order in which they get resources, which is descending
//! priority, then ascending id.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::job::JobId;

/// The jobs in SCHED in the order in which they get resources: by descending priority, then by id.
///
/// Inserting a job or changing its priority takes logarithmic time.
///
/// ```
/// use jobtap_core::job::JobId;
/// use jobtap_core::sched::AllocQueue;
///
/// let mut queue = AllocQueue::default();
/// queue.insert(JobId::new(1), 16);
/// queue.insert(JobId::new(2), 20);
/// queue.insert(JobId::new(3), 16);
/// queue.insert(JobId::new(1), 30);
/// let order: Vec<u64> = queue.iter().map(JobId::as_u64).collect();
/// assert_eq!(order, [1, 2, 3]);
/// ```
#[derive(Debug, Clone, Default)]
pub struct AllocQueue {
    order: BTreeSet<(Reverse<u32>, JobId)>,
    priorities: FxHashMap<JobId, u32>,
}

impl AllocQueue {
    /// Adds a job, or changes its priority.
    pub fn insert(&mut self, id: JobId, priority: u32) {
        if let Some(old) = self.priorities.insert(id, priority) {
            if old == priority {
                return;
            }
            self.order.remove(&(Reverse(old), id));
        }
        self.order.insert((Reverse(priority), id));
    }

    /// Removes a job. Returns false if it was not in the queue.
    pub fn remove(&mut self, id: JobId) -> bool {
        let Some(priority) = self.priorities.remove(&id) else { return false };
        self.order.remove(&(Reverse(priority), id))
    }

    /// The first job.
    pub fn first(&self) -> Option<JobId> {
        self.order.first().map(|(_, id)| *id)
    }

    /// Whether a job is in the queue.
    pub fn contains(&self, id: JobId) -> bool {
        self.priorities.contains_key(&id)
    }

    /// The key of the first job, by which the first jobs of several queues are compared.
    pub(crate) fn head(&self) -> Option<(Reverse<u32>, JobId)> {
        self.order.first().copied()
    }

    /// The jobs in order.
    pub fn iter(&self) -> impl Iterator<Item = JobId> + '_ {
        self.order.iter().map(|(_, id)| *id)
    }

    /// Number of jobs.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
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
        for (job, priority) in [(1, 16), (2, 20), (3, 16), (3, 30), (1, 16), (2, 10)] {
            queue.insert(id(job), priority);
        }
        assert!(queue.iter().eq([id(3), id(1), id(2)]));
        assert_eq!((queue.first(), queue.len()), (Some(id(3)), 3));
        assert!(queue.contains(id(2)) && !queue.contains(id(4)) && !queue.is_empty());
        assert!(queue.remove(id(3)));
        assert!(!queue.remove(id(3)));
        assert!(queue.iter().eq([id(1), id(2)]));
        assert!(!queue.contains(id(3)));
    }
}
