//! Calls about the current job, which only some topics allow.

use serde_json::Value;

use super::bracket::Bracket;
use super::cx::Cx;
use super::exception::Exception;
use super::given::{IsJobspecPath, IsText};
use super::host::{CallError, Command};
use super::jobs::Held;
use super::jobspec_path::JobspecPath;
use super::token::Token;
use crate::job::{Job, JobId};
use crate::topic::{
    AllowsDependencyAdd, AllowsEpilog, AllowsFatal, AllowsJobspecUpdate, AllowsProlog, TopicSet,
};

/// Calls that only some topics allow. The bound is on each method and not on the block, since only
/// then the compiler shows the message of the missing capability.
impl<'a, T: TopicSet> Cx<'a, T> {
    fn current(&self) -> Result<JobId, CallError> {
        self.current_job().map(Job::id).ok_or(CallError::NoCurrentJob)
    }

    /// Holds the current job in DEPEND until the same description is removed.
    ///
    /// A description names the dependency within its job and works once: adding one that holds
    /// already, or that was removed before, has no effect. So a handler that is called again after
    /// a restart just adds again.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn depend(job: &Job, cx: Cx<'_, JobStateDepend>) -> Result<(), HandlerError> {
    ///     if job.jobspec().attribute("data").is_some() {
    ///         cx.dependency_add("data")?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// When the job is past DEPEND.
    pub fn dependency_add(&self, description: impl IsText) -> Result<Held<'a>, CallError>
    where
        T: AllowsDependencyAdd,
    {
        self.hold(self.current()?, description.into_text())
    }

    /// Holds the start of the current job until the token is finished.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn run(cx: Cx<'_, JobStateRun>, remote: Remote<()>) -> Result<(), HandlerError> {
    ///     let token = cx.prolog_start("settle")?;
    ///     remote.at(cx.now() + 5.0, move |_, _| token.finish(0));
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// When the job's start was requested already.
    pub fn prolog_start(&self, description: impl IsText) -> Result<Token, CallError>
    where
        T: AllowsProlog,
    {
        self.open(self.current()?, Bracket::Prolog, description.into_text())
    }

    /// Holds the release of the current job's resources until the token is finished.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn cleanup(cx: Cx<'_, JobStateCleanup>, remote: Remote<()>) -> Result<(), HandlerError> {
    ///     let token = cx.epilog_start("cool-down")?;
    ///     remote.at(cx.now() + 60.0, move |_, _| token.finish(0));
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// When the job isn't in CLEANUP.
    pub fn epilog_start(&self, description: impl IsText) -> Result<Token, CallError>
    where
        T: AllowsEpilog,
    {
        self.open(self.current()?, Bracket::Epilog, description.into_text())
    }

    /// Changes one place of the current job's jobspec. All changes of a callback become one
    /// `jobspec-update` event; they are dropped when the handler fails.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn validate(cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
    ///     Ok(cx.jobspec_update(path!("attributes.system.queue"), "batch")?)
    /// }
    /// ```
    ///
    /// # Errors
    /// When the path goes through something that isn't an object, and in `job.update` and in
    /// `job.validate` of a user's update when the job is allocated already.
    pub fn jobspec_update(
        &self,
        path: impl IsJobspecPath,
        value: impl Into<Value>,
    ) -> Result<(), CallError>
    where
        T: AllowsJobspecUpdate,
    {
        let path: JobspecPath = path.value();
        let (job, path) = (self.current()?, path.as_str().to_owned());
        let updates = [(path, value.into())].into_iter().collect();
        self.host().call(Command::UpdateJobspec { job, updates })
    }

    /// Ends the current job with a fatal exception of type `kind`, at topics where it is accepted and
    /// not over; elsewhere there is [`fail_job`](Self::fail_job).
    ///
    /// ```compile_fail,E0277
    /// # use jobtap_core::prelude::*;
    /// fn updated(cx: Cx<'_, JobUpdate>) -> Result<(), HandlerError> {
    ///     Ok(cx.fail("site", "no")?) // the job may be one that isn't accepted yet
    /// }
    /// ```
    ///
    /// # Errors
    /// When the job is over, which the topic rules out.
    pub fn fail(&self, kind: impl IsText, note: impl IsText) -> Result<(), CallError>
    where
        T: AllowsFatal,
    {
        let exception = Exception::fatal(kind.into_text(), note.into_text());
        self.host().call(Command::Raise { job: self.current()?, exception })
    }
}
