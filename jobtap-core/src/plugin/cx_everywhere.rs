//! What every topic has: the time, the instance, jobs by their ids, the log, and calls on the
//! instance.

use super::cx::Cx;
use super::jobs::{JobRef, LiveJob};
use crate::host::{CallError, Command};
use crate::job::{JobId, Timestamp, Uid};
use crate::queue::Queues;
use crate::resource::{Idset, ResourceSet};
use crate::topic::TopicSet;

impl<'a, T: TopicSet> Cx<'a, T> {
    /// The time of this callback, UNIX seconds.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn waited(job: &Job, cx: &Cx<'_, JobStateRun>) -> f64 {
    ///     cx.now() - job.t_submit()
    /// }
    /// ```
    pub fn now(&self) -> Timestamp {
        self.host().now()
    }

    /// The user who owns the instance.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn validate(job: &Job, cx: &Cx<'_, JobValidate>) -> Result<(), Reject> {
    ///     match job.jobspec().attribute("alloc-bypass") {
    ///         Some(_) if job.userid() != cx.owner() => Err(Reject::new("not for guests")),
    ///         _ => Ok(()),
    ///     }
    /// }
    /// ```
    pub fn owner(&self) -> Uid {
        self.host().owner()
    }

    /// When the instance's own resources end, and with them every job (RFC 20 `expiration`); `None`
    /// when they have no end.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn fits(jobspec: &Jobspec, cx: &Cx<'_, JobValidate>) -> bool {
    ///     cx.instance_expiration().is_none_or(|end| cx.now() + jobspec.duration() <= end)
    /// }
    /// ```
    pub fn instance_expiration(&self) -> Option<Timestamp> {
        self.instance_resources().expiration().map(Timestamp::from_secs)
    }

    /// All resources of the instance (RFC 20), excluded and drained nodes and those in use among them.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn whole_machine(r: &ResourceSet, cx: &Cx<'_, JobStateRun>) -> bool {
    ///     r.nnodes() == cx.instance_resources().nnodes()
    /// }
    /// ```
    pub fn instance_resources(&self) -> &'a ResourceSet {
        self.host().instance_resources()
    }

    /// The instance's queues (RFC 33): which there are, whether they take and start jobs, what they
    /// require and limit.
    ///
    /// ```
    /// use jobtap_core::prelude::*;
    ///
    /// #[derive(Default)]
    /// struct NightShift;
    ///
    /// #[jobtap_plugin(name = "night-shift")]
    /// impl NightShift {
    ///     /// Long jobs go to the night, where there is such a queue and it takes them.
    ///     #[on("job.validate")]
    ///     fn validate(&self, job: &Job, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
    ///         let night = cx.queues().get("night").filter(|queue| queue.is_enabled());
    ///         if let Some(night) = night
    ///             && job.jobspec().duration() > 8.0 * 3600.0
    ///         {
    ///             cx.jobspec_update(path!("attributes.system.queue"), "night")?;
    ///             if let Some(constraint) = night.constraint() {
    ///                 cx.jobspec_update(path!("attributes.system.constraints"), constraint)?;
    ///             }
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), String> {
    /// use jobtap_core::testing::{TestJob, TestManager};
    ///
    /// let mut m = TestManager::new()
    ///     .plugin::<NightShift>()
    ///     .config(serde_json::json!({"queues": {"day": {}, "night": {}}}))
    ///     .start();
    /// let id = m.submit(TestJob::new().queue("day").duration(36_000.0))?;
    /// assert_eq!(m.job(id).jobspec().queue(), Some("night"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn queues(&self) -> &'a Queues {
        self.host().queues()
    }

    /// A job by its id: an active one, or an inactive one that isn't purged yet.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn state_of(id: JobId, cx: &Cx<'_, Service>) -> Result<String, ServiceError> {
    ///     Ok(cx.job(id)?.state().to_string())
    /// }
    /// ```
    ///
    /// # Errors
    /// [`CallError::UnknownJob`].
    pub fn job(&self, id: JobId) -> Result<JobRef<'a>, CallError> {
        self.host().job(id).map(JobRef::new).ok_or(CallError::UnknownJob(id))
    }

    /// A job by its id, as calls take it: one that was accepted and is not over.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn tell(id: JobId, cx: &Cx<'_, Service>) -> Result<(), ServiceError> {
    ///     Ok(cx.memo(cx.live(id)?, "from", "the help desk")?)
    /// }
    /// ```
    ///
    /// # Errors
    /// [`CallError::UnknownJob`], [`CallError::Over`].
    pub fn live(&self, id: JobId) -> Result<LiveJob<'a>, CallError> {
        self.job(id)?.live().ok_or(CallError::Over(id))
    }

    /// Drains nodes: no new jobs there until an administrator undrains them; jobs that run there go
    /// on. Nodes that are drained already keep their reason and time. Ranks that the instance
    /// doesn't have are logged.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn inspect(job: &Job, r: &ResourceSet, cx: Cx<'_, JobStateRun>) {
    ///     cx.drain(&r.ranks(), format!("to be inspected after job {}", job.id()));
    /// }
    /// ```
    pub fn drain(&self, ranks: &Idset, reason: impl Into<String>) {
        let (ranks, reason) = (ranks.clone(), reason.into());
        self.host().push(Command::Drain { ranks, reason });
    }

    /// Asks all plugins again, by `job.priority.get`, for each job in PRIORITY and SCHED.
    pub fn reprioritize_all(&self) {
        self.host().push(Command::ReprioritizeAll);
    }
}
