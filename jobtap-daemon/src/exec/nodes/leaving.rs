//! Whether the outer job manager has told a node of an allocation to end.
//!
//! It sends the signal to all processes on the node at once, so that the tasks of jobs end by it, too. They have not
//! ended by themselves: what becomes of their jobs follows from the end of the allocation. So a node that is told to end
//! doesn't report their ends any more.

use std::sync::Arc;
use std::time::Duration;

use jobtap_core::engine::ExecEvent;
use tokio::sync::watch;
use tokio::time::timeout;

/// How much later than a task the node itself may see the signal.
const SAME_SIGNAL: Duration = Duration::from_millis(100);

/// Says that the node is told to end.
#[derive(Clone, Debug)]
pub struct Leaving(Arc<watch::Sender<bool>>);

impl Default for Leaving {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Leaving {
    /// The node is told to end.
    pub fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Whether it is.
    pub(super) fn has_begun(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is.
    pub(super) async fn begun(&self) {
        let mut told = self.0.subscribe();
        // The sender lives as long as this value does.
        let _ = told.wait_for(|told| *told).await;
    }

    /// Whether a job may have ended by the signal that the node gets, too. Waits a moment for that signal.
    pub(super) async fn explains(&self, event: &ExecEvent) -> bool {
        match event {
            ExecEvent::Finished { status, .. } if is_of_signal(*status) => {
                timeout(SAME_SIGNAL, self.begun()).await.is_ok()
            }
            _ => self.has_begun(),
        }
    }
}

/// Whether a wait status is that of a process that a signal has ended, or that of a shell whose command it has ended.
fn is_of_signal(status: i32) -> bool {
    status & 0x7f != 0 || (status >> 8) & 0xff > 128
}

#[cfg(test)]
mod tests {
    use jobtap_core::job::JobId;

    use super::*;

    fn finished(status: i32) -> ExecEvent {
        ExecEvent::Finished { id: JobId::new(1), status }
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_task_by_a_signal_is_that_of_the_allocation() {
        let leaving = Leaving::default();
        assert!(!leaving.explains(&finished(15)).await, "no signal comes");
        let told = leaving.clone();
        tokio::spawn(async move {
            tokio::time::sleep(SAME_SIGNAL / 2).await;
            told.begin();
        });
        assert!(!leaving.explains(&finished(1 << 8)).await, "it has failed by itself");
        assert!(leaving.explains(&finished((128 + 15) << 8)).await);
        assert!(leaving.explains(&finished(0)).await, "from now on nothing is reported");
    }
}
