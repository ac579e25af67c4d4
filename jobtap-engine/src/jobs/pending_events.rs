//! The events of a job that are posted and not applied yet.
//!
//! Nearly all jobs have none: they get their events in three or four groups, each of which is applied at once. So a job
//! has a queue only while such a group is applied. It reuses the queue of an earlier job, whose memory needn't be
//! allocated and is still in the processor's caches.

use std::collections::VecDeque;
use std::fmt;

use crate::eventlog::{EventEntry, Name};

/// Boxed, since most jobs have none, and an empty `VecDeque` takes 32 bytes.
type Queue = Box<VecDeque<EventEntry>>;

/// The events of a job that are posted and not applied yet.
#[derive(Default)]
pub(crate) struct PendingEvents {
    queue: Option<Queue>,
    /// An event of the job is being applied, or is on the agenda. Events that are posted meanwhile wait.
    pub(crate) busy: bool,
}

impl PendingEvents {
    /// The events in the order in which they will be applied.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &EventEntry> {
        self.queue.iter().flat_map(|queue| queue.iter())
    }

    /// Whether an event of this name waits to be applied.
    pub(crate) fn contains(&self, name: &Name) -> bool {
        self.iter().any(|entry| entry.name == *name)
    }

    /// Whether no event waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Adds an event after the others.
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

    /// Takes the queue, if no event waits.
    pub(super) fn take_empty(&mut self) -> Option<Queue> {
        self.queue.take_if(|queue| queue.is_empty())
    }
}

/// Shows an empty queue in the same way whether it is allocated or not, since jobs are compared by their debug output.
impl fmt::Debug for PendingEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue: Vec<&EventEntry> = self.iter().collect();
        f.debug_struct("PendingEvents").field("queue", &queue).field("busy", &self.busy).finish()
    }
}

/// Empty queues that other jobs will use.
#[derive(Debug, Default)]
pub(super) struct SpareQueues(Vec<Queue>);

impl SpareQueues {
    /// The maximum number of queues that are kept: few jobs have waiting events at the same time.
    const MOST: usize = 16;
    /// The maximum capacity of a queue that is kept, in events.
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
