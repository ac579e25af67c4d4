//! Resources that a plugin retains after its job has freed them, for example to clean them, as Flux's
//! housekeeping does. The job becomes inactive meanwhile.

use super::context::Cx;
use crate::host::{CallError, Command, RemoteHandle};
use crate::job::JobId;
use crate::resource::{Idset, ResourceSet};
use crate::topic::{AllowsRetain, TopicSet};

/// Resources that a job has freed and that are not allocated to another job until they are freed here.
///
/// [`Cx::retain_resources`](crate::plugin::Cx::retain_resources) returns it. Dropping it frees what is
/// left; removing the plugin does too.
///
/// The resources stay retained when the manager stops. At the next start `job.event.free` is called
/// again, and what the plugin doesn't retain again there is freed, as are the resources of a job that
/// was purged.
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
///         let (retained, remote) = (cx.retain_resources()?, self.remote.clone());
///         let scrub = Process::new("scrub-nodes").for_job(job);
///         self.remote.spawn(async move {
///             let _ = remote.run_process(scrub).await;
///             drop(retained);
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
/// # fn main() -> Result<(), jobtap_core::testing::Refused> {
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
#[must_use = "dropping it frees the resources"]
pub struct Retained {
    job: JobId,
    resources: ResourceSet,
    remote: RemoteHandle,
}

impl Retained {
    /// The job that had them.
    pub fn job(&self) -> JobId {
        self.job
    }

    /// The resources that are still retained.
    pub fn resources(&self) -> &ResourceSet {
        &self.resources
    }

    /// Frees these ranks. Ranks that are not retained are ignored.
    pub fn free(&mut self, ranks: &Idset) {
        let ranks = self.resources.ranks().intersection(ranks);
        if !ranks.is_empty() {
            self.resources = self.resources.without_ranks(&ranks);
            self.remote.commands(vec![Command::FreeRetained { job: self.job, ranks }]);
        }
    }
}

impl Drop for Retained {
    fn drop(&mut self) {
        self.free(&self.resources.ranks());
    }
}

impl<T: TopicSet> Cx<'_, T> {
    /// Retains the resources that the current job has freed: they are not allocated again until
    /// [`Retained::free`] or until the returned value is dropped. The job itself becomes inactive. When
    /// several plugins retain a resource, it is allocated again after the last of them has freed it.
    ///
    /// **Hosts**: jobtap's manager.
    ///
    /// ```compile_fail,E0277
    /// # use jobtap_core::prelude::*;
    /// fn inactive(cx: Cx<'_, JobStateInactive>) -> Result<Retained, CallError> {
    ///     cx.retain_resources() // another job may have them by now
    /// }
    /// ```
    ///
    /// # Errors
    /// [`CallError::NothingToRetain`] when the job got its resources from a plugin (`alloc-bypass`), has
    /// lost them, or had resources that are no longer part of the instance.
    pub fn retain_resources(&self) -> Result<Retained, CallError>
    where
        T: AllowsRetain,
    {
        let job = self.current()?;
        let resources = self.host().retainable(job).ok_or(CallError::NothingToRetain(job))?;
        self.host().push(Command::Retain { job });
        Ok(Retained { job, resources, remote: self.host().remote() })
    }
}
