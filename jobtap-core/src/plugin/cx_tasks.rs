//! The context's calls that reach a job's tasks, or end the job and clean up after it.

use super::cx::Cx;
use super::given::IsLiveJob;
use super::jobs::AsLiveJob;
use super::token::Token;
use crate::host::{CallError, Command, Exception, Perilog};
use crate::job::Signal;
use crate::topic::TopicSet;

impl<T: TopicSet> Cx<'_, T> {
    /// Sends a signal to the tasks of a job; no effect when it has none, or they have ended. It is sent
    /// once, after what this callback changes is stored: a manager that is killed in between doesn't
    /// send it.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # use jobtap_core::job::Signal;
    /// fn exception(job: &Job, cx: Cx<'_, JobEvent>) -> Result<(), HandlerError> {
    ///     Ok(cx.signal(cx.live(job.id())?, Signal::TERM)?)
    /// }
    /// ```
    ///
    /// # Errors
    /// When the job is over, which what is taken as a job rules out.
    pub fn signal(&self, job: impl AsLiveJob<T>, signal: Signal) -> Result<(), CallError> {
        self.host().call(Command::Signal { job: job.job_id(), signal })
    }

    /// Ends a job with a fatal exception, as [`fail_job`](Self::fail_job) does, and holds its resources
    /// by an epilog from that moment on: when a prolog has failed, say, and what it did is to be undone.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn lost(job: LiveJob<'_>, cx: &Cx<'_, JobEvent>) -> Result<Token, CallError> {
    ///     cx.fail_job_with_epilog(job, "site.unmount", "site", "the file system is lost")
    /// }
    /// ```
    ///
    /// # Errors
    /// When the job has no resources yet.
    pub fn fail_job_with_epilog(
        &self,
        job: impl IsLiveJob,
        description: impl Into<String>,
        kind: impl Into<String>,
        note: impl Into<String>,
    ) -> Result<Token, CallError> {
        let (job, name) = (job.job_id(), description.into());
        let (description, exception) = (name.clone(), Exception::fatal(kind, note));
        self.host().call(Command::EndWithEpilog { job, description, exception })?;
        Ok(Token::new(Perilog::Epilog, job, name, self.host().remote()))
    }
}
