//! Tokens: an open prolog or epilog as a value.
//!
//! A started prolog must be finished or the job waits for ever. The token finishes it in any case:
//! one that is dropped, because the work that held it failed or panicked, ends it with status 1 and
//! a fatal exception.

use crate::host::{Command, Perilog, RemoteHandle};
use crate::job::JobId;

/// An open prolog or epilog of a job.
///
/// Finish it with [`finish`](Token::finish). Dropping it unfinished ends it with status 1 and a
/// fatal exception on the job. The host does the same for what a plugin has open when it is
/// unloaded, and, at the next start, for what was open when the manager ended and the plugin doesn't
/// take over in `job.new` with [`Cx::prolog_reopen`](crate::plugin::Cx::prolog_reopen) or
/// [`Cx::epilog_reopen`](crate::plugin::Cx::epilog_reopen).
///
/// ```
/// use jobtap_core::prelude::*;
/// # use jobtap_core::testing::{TestJob, TestManager};
///
/// #[derive(Default)]
/// struct Gate {
///     open: Vec<Token>,
/// }
///
/// #[jobtap_plugin(name = "gate")]
/// impl Gate {
///     #[on("job.state.run")]
///     fn run(&mut self, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
///         self.open.push(cx.prolog_start("gate")?);
///         Ok(())
///     }
///
///     #[service("lift")]
///     fn lift(&mut self) {
///         for token in self.open.drain(..) {
///             token.finish(0);
///         }
///     }
/// #
/// #     #[on("job.state.priority")]
/// #     fn priority(&self) -> Priority {
/// #         Priority::new(1)
/// #     }
/// }
/// # let mut m = TestManager::new().plugin::<Gate>().start();
/// # let id = m.submit(TestJob::new()).unwrap();
/// # m.call_service("gate.lift", serde_json::json!({})).unwrap();
/// # m.assert_events(id, "submit validate depend priority alloc prolog-start prolog-finish start");
/// ```
#[derive(Debug)]
#[must_use = "dropped, as by `let _ =`, it ends the prolog or epilog as failed: keep it until `finish`"]
pub struct Token {
    kind: Perilog,
    job: JobId,
    description: String,
    remote: RemoteHandle,
    open: bool,
}

impl Token {
    pub(crate) fn new(
        kind: Perilog,
        job: JobId,
        description: String,
        remote: RemoteHandle,
    ) -> Self {
        Self { kind, job, description, remote, open: true }
    }

    /// The job.
    pub fn job(&self) -> JobId {
        self.job
    }

    /// As in the eventlog.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Ends the prolog or epilog with a status for the eventlog: 0 is success. The status is
    /// informational; [`fail`](Token::fail) ends the job too.
    pub fn finish(mut self, status: i32) {
        self.end(status, None);
    }

    /// Ends it with status 1 and a fatal exception of type `prolog` or `epilog` with this note.
    pub fn fail(mut self, note: impl Into<String>) {
        self.end(1, Some(note.into()));
    }

    fn end(&mut self, status: i32, failure: Option<String>) {
        self.open = false;
        let (job, description) = (self.job, std::mem::take(&mut self.description));
        self.remote.commands(vec![match self.kind {
            Perilog::Prolog => Command::FinishProlog { job, description, status, failure },
            Perilog::Epilog => Command::FinishEpilog { job, description, status, failure },
        }]);
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        if self.open {
            let note = format!(
                "{} of plugin {} ended without a result",
                self.description,
                self.remote.name()
            );
            self.end(1, Some(note));
        }
    }
}
