//! Runs the futures of asynchronous handlers on the thread of the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::host::Task;

/// The futures that have not completed yet.
#[derive(Default)]
pub(super) struct Tasks {
    running: Vec<(Task, Arc<Flag>)>,
}

/// Set when a future must be polled again.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Tasks {
    pub(super) fn spawn(&mut self, task: Task) {
        self.running.push((task, Arc::new(Flag(AtomicBool::new(true)))));
    }

    /// Polls the futures that have been woken. Returns whether there were any.
    pub(super) fn poll(&mut self) -> bool {
        let mut polled = false;
        self.running.retain_mut(|(task, flag)| {
            if !flag.0.swap(false, Ordering::SeqCst) {
                return true;
            }
            polled = true;
            let waker = Waker::from(Arc::clone(flag));
            task.0.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Pending
        });
        polled
    }
}
