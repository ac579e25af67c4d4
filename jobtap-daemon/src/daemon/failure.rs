//! Errors after which the manager cannot continue.

use tokio::sync::watch::{Receiver, Sender, channel};

/// Ends the manager when a thread reports an error after which it cannot continue. The first report counts.
#[derive(Clone)]
pub struct Failure(Sender<Option<String>>);

impl Failure {
    pub(in crate::daemon) fn new() -> (Self, Receiver<Option<String>>) {
        let (sender, receiver) = channel(None);
        (Self(sender), receiver)
    }

    /// Ends the manager with this reason.
    pub fn report(&self, reason: String) {
        self.0.send_if_modified(|slot| {
            let first = slot.is_none();
            if first {
                *slot = Some(reason);
            }
            first
        });
    }
}
