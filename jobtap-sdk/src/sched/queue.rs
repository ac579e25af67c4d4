//! The alloc queue: the jobs in SCHED in the order in which they get resources, which is descending
//! priority, then ascending id.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::job::JobId;

/// The place of a job in the order; it can be compared with places in other queues.
pub type Place = (Reverse<u32>, JobId);

/// The jobs in SCHED in the order in which they get resources: by descending priority, then by id.
///
/// A job is found by its id and the priority with which it was inserted, both of which the engine knows. Inserting and
/// removing take logarithmic time.
///
/// Jobs that were [set aside](Self::set_aside) stay in the queue, but not in the order, until they are called back.
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
pub struct AllocQueue {
    order: BTreeSet<Place>,
    aside: BTreeSet<Place>,
}

impl AllocQueue {
    /// Adds a job. A job that is in the queue with another priority must be removed first.
    pub fn insert(&mut self, id: JobId, priority: u32) {
        let job = (Reverse(priority), id);
        self.aside.remove(&job);
        self.order.insert(job);
    }

    /// Removes a job with this priority. Returns false if it was not in the queue.
    pub fn remove(&mut self, id: JobId, priority: u32) -> bool {
        let job = (Reverse(priority), id);
        self.order.remove(&job) || self.aside.remove(&job)
    }

    /// Takes a job out of the order until it is [called back](Self::call_back). It stays in the queue.
    pub fn set_aside(&mut self, id: JobId, priority: u32) {
        let job = (Reverse(priority), id);
        if self.order.remove(&job) {
            self.aside.insert(job);
        }
    }

    /// Puts all jobs that were set aside back into their places.
    pub fn call_back(&mut self) {
        self.order.append(&mut self.aside);
    }

    /// Whether a job with this priority is in the queue and was set aside.
    pub fn is_aside(&self, id: JobId, priority: u32) -> bool {
        self.aside.contains(&(Reverse(priority), id))
    }

    /// Whether a job with this priority is in the queue.
    pub fn contains(&self, id: JobId, priority: u32) -> bool {
        self.order.contains(&(Reverse(priority), id)) || self.is_aside(id, priority)
    }

    /// The first job in order.
    pub fn first(&self) -> Option<JobId> {
        self.order.first().map(|(_, id)| *id)
    }

    /// The place of the first job in order.
    #[doc(hidden)]
    pub fn head(&self) -> Option<Place> {
        self.order.first().copied()
    }

    /// The jobs in order that go before `until`, the place of a job in another queue; all jobs if it is `None`.
    pub(crate) fn before(&self, until: Option<Place>) -> impl Iterator<Item = JobId> + use<'_> {
        let jobs = self.order.iter().take_while(move |job| until.is_none_or(|until| **job < until));
        jobs.map(|(_, id)| *id)
    }

    /// The jobs in order, without those that were set aside.
    pub fn iter(&self) -> impl Iterator<Item = JobId> + '_ {
        self.order.iter().map(|(_, id)| *id)
    }

    /// The jobs by priority and id, including those that were set aside.
    pub fn all(&self) -> impl Iterator<Item = JobId> + '_ {
        let (mut order, mut aside) = (self.order.iter().peekable(), self.aside.iter().peekable());
        std::iter::from_fn(move || {
            let from_order = match (order.peek(), aside.peek()) {
                (Some(first), Some(other)) => first < other,
                (first, _) => first.is_some(),
            };
            let next = if from_order { order.next() } else { aside.next() };
            next.map(|(_, id)| *id)
        })
    }

    /// Number of jobs, including those that were set aside.
    pub fn len(&self) -> usize {
        self.order.len() + self.aside.len()
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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

    #[test]
    fn a_job_that_was_set_aside_goes_first_again_when_called_back() {
        let id = JobId::new;
        let mut queue = AllocQueue::default();
        for job in 1..=4 {
            queue.insert(id(job), 16);
        }
        queue.set_aside(id(1), 16);
        queue.set_aside(id(2), 16);
        queue.set_aside(id(9), 16);
        assert!(queue.iter().eq([id(3), id(4)]));
        assert!(queue.all().eq([id(1), id(2), id(3), id(4)]));
        assert_eq!((queue.first(), queue.len()), (Some(id(3)), 4));
        assert!(
            queue.contains(id(1), 16) && queue.is_aside(id(1), 16) && !queue.is_aside(id(3), 16)
        );
        assert!(queue.remove(id(2), 16) && !queue.is_aside(id(2), 16));
        queue.call_back();
        assert!(queue.iter().eq([id(1), id(3), id(4)]) && !queue.is_aside(id(1), 16));
        queue.set_aside(id(1), 16);
        queue.insert(id(1), 16);
        assert_eq!((queue.first(), queue.len()), (Some(id(1)), 3));
    }
}
