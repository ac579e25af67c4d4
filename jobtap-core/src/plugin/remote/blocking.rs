//! Work that computes for long, off the manager's thread.

use super::handle::Remote;
use crate::host::Command;
use crate::host::blocking::{BlockingCommand, BlockingError, BlockingWork};

impl<P: 'static> Remote<P> {
    /// Runs `work` on a thread of the host's and waits for its return value: for what computes or blocks for
    /// long, such as an interpreter, a compression, or a library that reads files. Neither the manager's thread
    /// nor other futures wait for it meanwhile.
    ///
    /// The host has a bounded number of threads (the manager as many as the machine has processors, and four at
    /// least); work beyond that waits for its turn. One plugin never gets the last of them. Work is refused when it
    /// has waited for a minute in which none of the plugin's threads came free.
    ///
    /// Dropping the future takes back work that has not begun. Work that has begun runs to its end, since a thread
    /// can't be stopped: it must bound itself. When nothing waits for it any more its thread is *given up*. The
    /// manager starts another one in its place, and names the plugin in its log and in `jobtap plugin stats`.
    /// While eight of a plugin's threads are given up and run on, its further work is refused. The test kit runs
    /// the work at once.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # fn score(_: &str) -> Result<u32, std::num::ParseIntError> { "7".parse() }
    /// #[derive(Default)]
    /// struct Model;
    ///
    /// #[jobtap_plugin(name = "model")]
    /// impl Model {
    ///     #[on("job.state.priority", timeout = "1m")]
    ///     async fn priority(job: JobInfo, remote: Remote<Self>) -> Result<Priority, HandlerError> {
    ///         let name = job.jobspec.name().unwrap_or_default().to_owned();
    ///         let score = remote.blocking(move || score(&name)).await??;
    ///         Ok(Priority::new(score))
    ///     }
    /// }
    /// # use jobtap_core::testing::{TestJob, TestManager};
    /// # let mut m = TestManager::new().plugin::<Model>().start();
    /// # let job = m.submit(TestJob::new()).unwrap();
    /// # assert_eq!(m.job(job).priority(), Some(7));
    /// ```
    ///
    /// # Errors
    /// [`BlockingError::Panicked`] when `work` panics, [`BlockingError::Gone`] when the plugin was removed or
    /// the manager stopped before the work began, [`BlockingError::NoThread`] when the host has no
    /// thread for it.
    pub async fn blocking<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, BlockingError> {
        let (work, result) = BlockingWork::new(self.handle().shared_name().clone(), work);
        self.handle().commands(vec![Command::Blocking(BlockingCommand::Run(work))]);
        self.handle().wait(result).await
    }
}
