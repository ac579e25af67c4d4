//! The events of a job that are posted and not applied yet.
//!
//! Nearly all jobs have none: they get their events in three or four groups, each of which is applied at once. So a job
//! has a queue only meanwhile, one that another job has just used: its memory is in the processor's caches, and
//! needn't be allocated.

use std::collections::VecDeque;
use std::fmt;

use crate::eventlog::EventEntry;

/// Boxed, since most jobs have none, and an empty `VecDeque` takes 32 bytes.
type Queue = Box<VecDeque<EventEntry>>;

/// The events of a job that are posted and not applied yet.
#[derive(Default)]
pub(crate) struct PendingEvents {
    queue: Option<Queue>,
    /// An event of the job is being worked on, or is on the agenda. What is posted meanwhile waits.
    pub(crate) busy: bool,
}

impl PendingEvents {
    /// The events in the order in which they will be applied.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &EventEntry> {
        self.queue.iter().flat_map(|queue| queue.iter())
    }

    /// Whether an event of this name waits to be applied.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.iter().any(|entry| entry.name == name)
    }

    /// Whether no event waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Adds an event behind the others.
    pub(super) fn push(&mut self, spare: &mut SpareQueues, entry: EventEntry) {
        self.queue.get_or_insert_with(|| spare.take()).push_back(entry);
    }

    /// Adds an event before the others.
    pub(crate) fn push_first(&mut self, entry: EventEntry) {
        self.queue.get_or_insert_default().push_front(entry);
    }

    /// Takes the first event.
    pub(crate) fn pop(&mut self) -> Option<EventEntry> {
        self.queue.as_mut()?.pop_front()
    }

    /// Drops all events.
    pub(super) fn clear(&mut self) {
        self.queue = None;
    }

    /// The queue, if no event waits.
    pub(super) fn take_empty(&mut self) -> Option<Queue> {
        self.queue.take_if(|queue| queue.is_empty())
    }
}

/// An empty queue is shown alike whether it has memory or not: jobs are compared by what is shown of them.
impl fmt::Debug for PendingEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue: Vec<&EventEntry> = self.iter().collect();
        f.debug_struct("PendingEvents").field("queue", &queue).field("busy", &self.busy).finish()
    }
}

/// Empty queues for jobs to come.
#[derive(Debug, Default)]
pub(super) struct SpareQueues(Vec<Queue>);

impl SpareQueues {
    /// How many queues are kept. Few jobs have events that wait at the same time.
    const MOST: usize = 16;
    /// How many events a queue that is kept has room for.
    const LONGEST: usize = 64;

    fn take(&mut self) -> Queue {
        self.0.pop().unwrap_or_default()
    }

    /// Keeps an empty queue.
    pub(super) fn keep(&mut self, queue: Queue) {
        if self.0.len() < Self::MOST && queue.capacity() <= Self::LONGEST {
            self.0.push(queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Timestamp;

    fn event(name: &'static str) -> EventEntry {
        EventEntry::new(Timestamp::from_secs(1.0), name, None)
    }

    #[test]
    fn a_queue_that_is_used_again_has_no_events_of_the_job_before() {
        let mut spare = SpareQueues::default();
        let (mut one, mut other) = (PendingEvents::default(), PendingEvents::default());
        one.push(&mut spare, event("a"));
        assert!(one.take_empty().is_none(), "an event waits");
        one.pop();
        spare.keep(one.take_empty().unwrap());
        other.push(&mut spare, event("b"));
        assert!(spare.0.is_empty(), "the queue was taken");
        assert!(one.is_empty());
        assert_eq!(other.pop(), Some(event("b")));
        assert_eq!(other.pop(), None);
    }

    #[test]
    fn the_memory_of_queues_that_are_kept_is_bounded() {
        let mut spare = SpareQueues::default();
        spare.keep(Box::new(VecDeque::with_capacity(SpareQueues::LONGEST + 1)));
        assert!(spare.0.is_empty());
        for _ in 0..=SpareQueues::MOST {
            spare.keep(Queue::default());
        }
        assert_eq!(spare.0.len(), SpareQueues::MOST);
    }
}
