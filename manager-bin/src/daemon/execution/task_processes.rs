//! Clients that ask which processes a job's tasks are, and wait until the executor has told.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;
use tokio::sync::oneshot;

use crate::exec::TaskProcess;

type Waiting = FxHashMap<u64, Vec<oneshot::Sender<Vec<TaskProcess>>>>;

/// Those who wait, by job; clones are the same.
#[derive(Clone, Default)]
pub(in crate::daemon) struct TaskProcesses(Arc<Mutex<Waiting>>);

impl TaskProcesses {
    /// Waits for the next answer about a job.
    pub(in crate::daemon) fn of(&self, id: u64) -> oneshot::Receiver<Vec<TaskProcess>> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.lock();
        // Those who gave up leave nothing behind.
        waiting.retain(|_, senders| {
            senders.retain(|sender| !sender.is_closed());
            !senders.is_empty()
        });
        waiting.entry(id).or_default().push(sender);
        receiver
    }

    /// The executor has told.
    pub(in crate::daemon) fn told(&self, id: u64, tasks: &[TaskProcess]) {
        let waiting = self.lock().remove(&id);
        for sender in waiting.into_iter().flatten() {
            // Whoever asked may have left.
            let _ = sender.send(tasks.to_vec());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
