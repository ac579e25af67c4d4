//! What goes into the engine and what comes out: its entire interface to the outside.
//!
//! The engine does no I/O. A daemon (or a test) gives it an [`Input`] with the time, and gets
//! [`Effects`]: what must be stored first, and what may happen once that is durable.

mod allocation;
mod effect;
mod exec;
mod request;
mod waits_for;
mod writes;

pub use allocation::{AllocationCommand, AllocationEvent};
pub(crate) use effect::Logged;
pub use effect::{Effect, Effects, Gathered, JobLog, LogLine, Resubmission, TimerId, Write};
pub use exec::{ExecCommand, ExecEvent, ExecStart};
pub use request::{
    DrainMode, NodeRequest, RaisedException, Request, RequestError, ShadowRequest, Submission,
};
pub use waits_for::WaitsFor;
pub use writes::Writes;
pub(crate) use writes::append_held_back;

pub use crate::allocation::AllocationId;

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::host::RemoteCall;
pub use crate::host::ReplyTo;
use crate::job::{JobId, Uid};
use crate::jobspec::Jobspec;
pub use crate::plugin::Cred;
pub use crate::plugin::Level;

/// Something that has happened, for [`Engine::handle`](super::Engine::handle).
#[derive(Debug)]
pub enum Input {
    /// A client asks for something. It is answered by one [`Effect::Reply`].
    Request {
        /// Where the response goes.
        reply: ReplyTo,
        /// Who the client is.
        cred: Cred,
        /// The request.
        request: Request,
    },
    /// The executor reports something.
    Exec(ExecEvent),
    /// The host reports something about an allocation that the engine has asked for.
    Allocation(AllocationEvent),
    /// A timer of the engine has fired.
    Timer(TimerId),
    /// The clock was set forward, or the host slept: it shows a time that is later by more than what has passed. To be
    /// told before the timers that this made due.
    WentForward {
        /// By how many seconds.
        by: f64,
    },
    /// The client of this request has gone.
    Abandoned(ReplyTo),
    /// Work outside the engine's thread calls back into a plugin.
    Remote(RemoteCall),
    /// The system has answered [`Effect::LookUp`].
    Requester {
        /// The user.
        user: Uid,
        /// What is known about the user.
        requester: Requester,
    },
}

/// What the system knows about a user who makes a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requester {
    /// The name; `None` if the system doesn't know the user.
    pub name: Option<String>,
    /// The user's primary group.
    pub group: Option<u32>,
    /// The names of all groups of the user.
    pub groups: Vec<String>,
    /// The host from which the request comes.
    pub host: Option<String>,
}

/// Refuses a job that no host can run, with a text for its user. The engine calls it for jobs that plugins have changed
/// at their submission; the jobs as submitted have been checked before they reach the engine.
#[derive(Clone)]
pub struct HostCheck(Arc<HostCheckFn>);

type HostCheckFn = dyn Fn(&Jobspec) -> Result<(), HostRefusal> + Send + Sync;

/// Why no host can run a job: the error of the host's own check, whose text is for the job's user.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct HostRefusal(Box<dyn Error + Send + Sync>);

impl HostCheck {
    /// A check that must not do I/O. The text of its error is for the job's user.
    ///
    /// ```
    /// use jobtap_core::engine::HostCheck;
    ///
    /// #[derive(Debug, thiserror::Error)]
    /// #[error("a command of {0} words is longer than this host allows")]
    /// struct TooLong(usize);
    ///
    /// HostCheck::new(|jobspec| match jobspec.command().count() {
    ///     0..=1000 => Ok(()),
    ///     words => Err(TooLong(words)),
    /// });
    /// ```
    pub fn new<E: Error + Send + Sync + 'static>(
        check: impl Fn(&Jobspec) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(move |jobspec| check(jobspec).map_err(|error| HostRefusal(error.into()))))
    }

    pub(crate) fn check(&self, jobspec: &Jobspec) -> Result<(), HostRefusal> {
        (self.0)(jobspec)
    }
}

/// Every job is accepted.
impl Default for HostCheck {
    fn default() -> Self {
        Self(Arc::new(|_| Ok(())))
    }
}

impl fmt::Debug for HostCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostCheck").finish_non_exhaustive()
    }
}

/// A job as the store has it, for [`ReadJob::from_log`](crate::ReadJob::from_log).
#[derive(Debug, Clone)]
pub struct StoredJob {
    /// The job.
    pub id: JobId,
    /// Text under `eventlog`.
    pub eventlog: String,
    /// Text under `jobspec`.
    pub jobspec: String,
    /// Text under `R`, once allocated.
    pub resources: Option<String>,
    /// The number of lines in `guest.exec.eventlog`.
    pub exec_lines: u64,
    /// Values under `data.<plugin>`, by plugin.
    pub data: Map<String, Value>,
    /// Value under `annotations`: the plugins' annotations that outlive a restart.
    pub annotations: Map<String, Value>,
}

/// Why an engine cannot start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StartError(pub(crate) String);

impl StartError {
    /// The error for something that the engine needs.
    pub(crate) fn from_error(error: impl Error) -> Self {
        Self(error.to_string())
    }
}
