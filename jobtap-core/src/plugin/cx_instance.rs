//! What a handler can know of the instance: its owner, resources and queues.

use super::cx::Cx;
use crate::job::{Timestamp, Uid};
use crate::queue::Queues;
use crate::resource::ResourceSet;
use crate::topic::TopicSet;

impl<'a, T: TopicSet> Cx<'a, T> {
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
}
