//! Work after what a handler has asked for, in the same step of the manager.

use super::handle::{OwnsWhatItUses, Remote, call};
use crate::host::Command;
use crate::plugin::cx::context::Cx;
use crate::topic::{Later, TopicSet};

impl<T: TopicSet> Cx<'_, T> {
    /// Runs `work` with the plugin as soon as everything that this handler has asked for so far is carried out, with
    /// all that follows from it, and before the manager takes its next message. [`Remote::run`] runs it later.
    ///
    /// It is for work that must see the effect of a call: what a handler asks for is carried out after it returns.
    ///
    /// **Hosts**: jobtap's manager, Flux (with a difference), Slurm's job_submit, Slurm's PrEp.
    ///
    /// ```
    /// use jobtap_core::prelude::*;
    /// # use jobtap_core::testing::{TestJob, TestManager};
    ///
    /// struct Shares {
    ///     factor: u32,
    ///     last: Option<JobId>,
    ///     seen: Option<u32>,
    ///     remote: Remote<Self>,
    /// }
    ///
    /// #[jobtap_plugin(name = "shares")]
    /// impl Shares {
    /// #   #[init]
    /// #   fn new(remote: Remote<Self>) -> Self {
    /// #       Self { factor: 1, last: None, seen: None, remote }
    /// #   }
    /// #
    /// #   #[on("job.new")]
    /// #   fn known(&mut self, job: &Job) {
    /// #       self.last = Some(job.id());
    /// #   }
    /// #
    ///     #[on("job.state.priority", "job.priority.get")]
    ///     fn priority(&self) -> Priority {
    ///         Priority::new(100 * self.factor)
    ///     }
    ///
    ///     #[service("double")]
    ///     fn double(&mut self, cx: Cx<'_, Service>) {
    ///         self.factor *= 2;
    ///         cx.reprioritize_all();
    ///         // Here all jobs still have their old priorities.
    ///         cx.then(&self.remote, |shares, cx| {
    ///             let last = shares.last.and_then(|id| cx.job(id).ok());
    ///             shares.seen = last.and_then(|job| job.priority());
    ///         });
    ///     }
    /// #
    /// #   #[service("seen")]
    /// #   fn seen(&self) -> Option<u32> { self.seen }
    /// }
    /// # let mut m = TestManager::new().plugin::<Shares>().cores(1).start();
    /// # m.submit(TestJob::new()).unwrap();
    /// # m.scheduling(false).unwrap();
    /// # m.submit(TestJob::new()).unwrap();
    /// # m.call_service("shares.double", json!({})).unwrap();
    /// # assert_eq!(m.call_service("shares.seen", json!({})).unwrap(), 200);
    /// ```
    pub fn then<P: 'static>(
        &self,
        _remote: &Remote<P>,
        work: impl FnOnce(&mut P, Cx<'_, Later<P>>) + OwnsWhatItUses,
    ) {
        self.host().push(Command::Then { work: call(work) });
    }
}
