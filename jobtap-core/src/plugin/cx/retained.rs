//! Resources that a plugin keeps from the scheduler after the end of their job, to clean them, say.
//! Flux's housekeeping does that; the job is over meanwhile.

use super::context::Cx;
use crate::host::{CallError, Command, RemoteHandle};
use crate::job::JobId;
use crate::resource::{Idset, ResourceSet};
use crate::topic::{AllowsKeep, TopicSet};

/// Resources that a job has freed and that no other job gets until they are given back. Dropping it
/// gives back all that is left.
///
/// The host does the same when the plugin is unloaded. When the manager ends they stay kept; the plugin's
/// `job.event.free` is called again at the next start, and what it doesn't keep again then is given back; so is what
/// was kept of a job that was purged meanwhile.
///
/// ```
/// use jobtap_core::prelude::*;
///
/// struct Scrub {
///     remote: Remote<Self>,
/// }
///
/// #[jobtap_plugin(name = "scrub")]
/// impl Scrub {
///     #[init]
///     fn new(remote: Remote<Self>) -> Self {
///         Self { remote }
///     }
///
///     #[on("job.state.run")]
///     fn watch(job: &Job, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
///         Ok(cx.subscribe(job)?)
///     }
///
///     #[on("job.event.free")]
///     fn scrub(&self, job: &Job, cx: Cx<'_, JobEventFree>) -> Result<(), HandlerError> {
///         let (kept, remote) = (cx.keep_resources()?, self.remote.clone());
///         let scrub = Process::new("scrub-nodes").for_job(job);
///         self.remote.spawn(async move {
///             let _ = remote.run_process(scrub).await;
///             drop(kept);
///         });
///         Ok(())
///     }
/// #
/// #   #[on("job.state.priority")]
/// #   fn priority(&self) -> Priority {
/// #       Priority::new(1)
/// #   }
/// }
///
/// # fn main() -> Result<(), String> {
/// use jobtap_core::job::WaitStatus;
/// use jobtap_core::testing::{TestJob, TestManager};
///
/// let mut m = TestManager::new().plugin::<Scrub>().cores(1).start();
/// m.hold_processes();
/// let first = m.submit(TestJob::new().run_for(1.0))?;
/// let next = m.submit(TestJob::new().run_for(1.0))?;
/// m.advance(5.0);
/// assert_eq!((m.job(first).state(), m.job(next).state()), (State::Inactive, State::Sched));
/// m.end_process("scrub-nodes", WaitStatus::from_exit_code(0));
/// m.advance(5.0);
/// assert_eq!(m.job(next).state(), State::Inactive);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping it gives the resources back"]
pub struct Kept {
    job: JobId,
    resources: ResourceSet,
    remote: RemoteHandle,
}

impl Kept {
    /// The job that had them.
    pub fn job(&self) -> JobId {
        self.job
    }

    /// What is still kept.
    pub fn resources(&self) -> &ResourceSet {
        &self.resources
    }

    /// Gives these ranks back, as far as they are still kept.
    pub fn give_back(&mut self, ranks: &Idset) {
        let ranks = self.resources.ranks().intersection(ranks);
        if !ranks.is_empty() {
            self.resources = self.resources.without_ranks(&ranks);
            self.remote.commands(vec![Command::GiveBack { job: self.job, ranks }]);
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.give_back(&self.resources.ranks());
    }
}

impl<T: TopicSet> Cx<'_, T> {
    /// Keeps what the current job frees from the scheduler until it is given back. The job goes on
    /// to its end. Where several plugins keep them, all have to give them back.
    ///
    /// ```compile_fail,E0277
    /// # use jobtap_core::prelude::*;
    /// fn over(cx: Cx<'_, JobStateInactive>) -> Result<Kept, CallError> {
    ///     cx.keep_resources() // they may be another job's by now
    /// }
    /// ```
    ///
    /// # Errors
    /// [`CallError::NothingHeld`] for a job that has its resources from a plugin (`alloc-bypass`), has lost
    /// them, or had some that aren't the instance's any more.
    pub fn keep_resources(&self) -> Result<Kept, CallError>
    where
        T: AllowsKeep,
    {
        let job = self.current()?;
        let resources = self.host().freed(job).ok_or(CallError::NothingHeld(job))?;
        self.host().push(Command::Keep { job });
        Ok(Kept { job, resources, remote: self.host().remote() })
    }
}
