//! The requests for the processes of a job's tasks, which wait until the executor has reported them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jobtap_core::job::JobId;
use rustc_hash::FxHashMap;
use tokio::sync::oneshot;

use crate::exec::TaskProcess;

type Waiting = FxHashMap<JobId, Vec<oneshot::Sender<Vec<TaskProcess>>>>;

/// The requests that wait, by job. Clones share them.
#[derive(Clone, Default)]
pub(in crate::daemon) struct TaskProcesses(Arc<Mutex<Waiting>>);

impl TaskProcesses {
    /// Registers a request for the next report about a job.
    pub(in crate::daemon) fn await_report(&self, id: JobId) -> oneshot::Receiver<Vec<TaskProcess>> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.lock();
        // Removes requests whose clients have left.
        waiting.retain(|_, senders| {
            senders.retain(|sender| !sender.is_closed());
            !senders.is_empty()
        });
        waiting.entry(id).or_default().push(sender);
        receiver
    }

    /// Hands a report of the executor to all requests about its job.
    pub(in crate::daemon) fn told(&self, id: JobId, tasks: &[TaskProcess]) {
        let waiting = self.lock().remove(&id);
        for sender in waiting.into_iter().flatten() {
            // The client may have left.
            let _ = sender.send(tasks.to_vec());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
