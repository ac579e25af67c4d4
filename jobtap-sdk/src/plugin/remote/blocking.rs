//! Long computations off the manager's thread.

use super::handle::Remote;
use crate::host::Command;
use crate::host::off_thread::blocking::{BlockingCommand, BlockingError, BlockingWork};

impl<P: 'static> Remote<P> {
    /// Runs `work` on one of the host's threads and waits for its return value. Use it for work that computes or
    /// blocks for a long time, such as an interpreter, compression, or a library that reads files. The manager's
    /// thread and other futures go on meanwhile.
    ///
    /// The host has a limited number of threads (the manager as many as the machine has processors, and at least
    /// four); further work waits for its turn. A single plugin never gets the last of them. Work is refused when it
    /// has waited for a minute in which none of the plugin's threads became free.
    ///
    /// Dropping the future withdraws work that has not begun. Work that has begun runs to its end, since a thread
    /// can't be stopped: it must limit its own run time. When nothing waits for it any more, its thread is *given
    /// up*: the manager starts another one in its place, and `jobtap plugin stats` and the log name the plugin.
    /// While eight of a plugin's threads are given up and still run, its further work is refused. The test kit runs
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
