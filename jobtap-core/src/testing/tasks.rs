//! Runs the futures of asynchronous handlers on the thread of the test.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::host::PluginFuture;

/// The futures of a host of the test kit that have not completed yet. They run on the thread that polls them,
/// so that a test has the same result each time.
#[derive(Default)]
pub struct TestTasks {
    running: Vec<(PluginFuture, Arc<Flag>)>,
}

/// Set when a future must be polled again.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl fmt::Debug for TestTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestTasks").field("running", &self.running.len()).finish()
    }
}

impl TestTasks {
    /// Adds a future.
    pub fn spawn(&mut self, future: PluginFuture) {
        self.running.push((future, Arc::new(Flag(AtomicBool::new(true)))));
    }

    /// Polls the futures that have been woken. Returns whether there were any.
    pub fn poll(&mut self) -> bool {
        let mut polled = false;
        self.running.retain_mut(|(future, flag)| {
            if !flag.0.swap(false, Ordering::SeqCst) {
                return true;
            }
            polled = true;
            let waker = Waker::from(Arc::clone(flag));
            Pin::new(future).poll(&mut Context::from_waker(&waker)) == Poll::Pending
        });
        polled
    }
}
