//! A plugin's lines in the manager's log.

use super::cx::Cx;
use crate::host::{Command, Level};
use crate::job::JobId;
use crate::topic::TopicSet;

impl<T: TopicSet> Cx<'_, T> {
    /// Writes a line to the manager's log, with the plugin's name.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn inactive(job: &Job, cx: Cx<'_, JobStateInactive>) {
    ///     cx.log(Level::Info, format!("{} is over: {:?}", job.id(), job.result()));
    /// }
    /// ```
    pub fn log(&self, level: Level, text: impl Into<String>) {
        self.host().push(Command::Log { level, text: text.into() });
    }

    /// Writes a line about a job to the manager's log, with the job's id in the place of the plugin's
    /// name: for what is of the job's doing, such as the output of what runs for it.
    ///
    /// ```
    /// use jobtap_core::prelude::*;
    ///
    /// #[derive(Default)]
    /// struct Watch;
    ///
    /// #[jobtap_plugin(name = "watch")]
    /// impl Watch {
    ///     #[on("job.state.run")]
    ///     fn run(&self, job: &Job, cx: Cx<'_, JobStateRun>) {
    ///         cx.log_of(job.id(), Level::Info, "runs");
    ///     }
    /// }
    /// ```
    pub fn log_of(&self, job: JobId, level: Level, text: impl Into<String>) {
        self.host().push(Command::LogOf { job, level, text: text.into() });
    }
}
