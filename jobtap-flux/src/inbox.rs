//! Work that threads and futures pass to the job manager's thread.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use jobtap_core::host::{RemoteCall, RemoteSink};
use rustix::event::{EventfdFlags, eventfd};

/// The queue, and an eventfd that the reactor watches.
#[derive(Debug)]
pub struct Inbox {
    queue: Mutex<Queue>,
    event: OwnedFd,
}

#[derive(Debug, Default)]
struct Queue {
    calls: Vec<RemoteCall>,
    /// Set when the plugins have been removed: later calls are dropped.
    is_closed: bool,
}

impl Inbox {
    /// Creates an empty inbox.
    ///
    /// # Errors
    /// When the eventfd can't be created.
    pub fn new() -> std::io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { queue: Mutex::default(), event })
    }

    /// Returns the file descriptor that is readable when there is work.
    pub fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Takes all work out.
    pub fn take(&self) -> Vec<RemoteCall> {
        let mut count = [0; 8];
        // Reset the eventfd before taking the work, so that work that arrives later wakes the reactor again. The read
        // fails after a spurious wake-up.
        let _ = rustix::io::read(&self.event, &mut count);
        std::mem::take(&mut self.lock().calls)
    }

    /// Whether there is no work.
    pub fn is_empty(&self) -> bool {
        self.lock().calls.is_empty()
    }

    /// Drops the queued work and all later work.
    pub fn close(&self) {
        let calls = {
            let mut queue = self.lock();
            queue.is_closed = true;
            std::mem::take(&mut queue.calls)
        };
        // Drop without the lock, since dropping the calls may send others.
        drop(calls);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RemoteSink for Inbox {
    fn send(&self, call: RemoteCall) {
        let was_empty = {
            let mut queue = self.lock();
            if queue.is_closed {
                drop(queue);
                // Dropped without the lock, as above.
                drop(call);
                return;
            }
            queue.calls.push(call);
            queue.calls.len() == 1
        };
        if was_empty {
            // This can't fail: the counter holds 2^64 - 2 wake-ups.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use jobtap_core::host::{PluginKey, RemoteWork};

    use super::*;

    fn is_ready(inbox: &Inbox) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = [PollFd::new(&inbox.event, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn work_wakes_the_reactor_until_it_is_taken() {
        let inbox = Inbox::new().unwrap();
        let call = || RemoteCall { plugin: PluginKey(1), work: RemoteWork::Commands(Vec::new()) };
        assert!(!is_ready(&inbox));
        inbox.send(call());
        inbox.send(call());
        assert!(is_ready(&inbox));
        assert_eq!(inbox.take().len(), 2);
        assert!(!is_ready(&inbox));
        inbox.send(call());
        assert!(is_ready(&inbox));
        inbox.close();
        inbox.send(call());
        assert!(inbox.take().is_empty());
    }
}
