//! Runs the futures of asynchronous handlers, on the test's own thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::host::Task;

/// The futures that are not done yet.
#[derive(Default)]
pub(super) struct Tasks {
    running: Vec<(Task, Arc<Flag>)>,
}

/// Says that a future wants to be polled.
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

    /// Polls those that want to be; says whether there were any.
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
