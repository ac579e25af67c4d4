//! An open prolog or epilog as a value.
//!
//! A prolog that is never finished delays its job forever. So the token always finishes it: when the token
//! is dropped, because the work that owned it failed or panicked, it finishes the prolog with status 1 and
//! a fatal exception.

use crate::host::{Command, Perilog, RemoteHandle};
use crate::job::JobId;

/// An open prolog or epilog of a job.
///
/// [`Cx::prolog_start`](crate::plugin::Cx::prolog_start) and
/// [`Cx::epilog_start`](crate::plugin::Cx::epilog_start) return it; keep it until the work is done, and
/// finish it with [`finish`](Token::finish). Dropping it finishes the prolog or epilog with status 1
/// and a fatal exception on the job.
///
/// When a plugin is removed, the host finishes its open prologs and epilogs in the same way, unless the plugin
/// [leaves them open](crate::plugin::Cx::leave_open). After a
/// restart of the manager the plugin takes over those that were open: in `job.new`, with
/// [`Cx::prolog_reopen`](crate::plugin::Cx::prolog_reopen) or
/// [`Cx::epilog_reopen`](crate::plugin::Cx::epilog_reopen). The host finishes the others.
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

    /// The description of the prolog or epilog, as in the eventlog.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Finishes the prolog or epilog with a status for the eventlog; 0 is success. Any status lets the job
    /// go on: [`fail`](Token::fail) ends it.
    pub fn finish(mut self, status: i32) {
        self.end(status, None);
    }

    /// Finishes the prolog or epilog with status 1, and ends the job with a fatal exception of type
    /// `prolog` or `epilog` and this note.
    pub fn fail(mut self, note: impl Into<String>) {
        self.end(1, Some(note.into()));
    }

    /// Takes the prolog or epilog out of the token, which then doesn't finish it.
    pub(super) fn into_parts(mut self) -> (JobId, Perilog, String) {
        self.open = false;
        (self.job, self.kind, std::mem::take(&mut self.description))
    }

    fn end(&mut self, status: i32, failure: Option<String>) {
        // `finish` and `fail` drop the token afterwards, which must not finish it again.
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
