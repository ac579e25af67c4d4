//! The seam between plugins and whatever runs them.
//!
//! A handler sees a job, the topic's own arguments and a [`Cx`](super::Cx); all else goes through
//! [`Host`]. The job manager's engine is one host, the test kit uses the same engine, and others
//! can follow. The rules a host keeps:
//!
//! 1. Calls of a handler are queued as [`Command`]s and committed at the end of that plugin's
//!    callback, before the next plugin and before the job's own action. When the handler returned
//!    an error its jobspec updates are dropped and the rest is kept; when it panicked all are
//!    dropped.
//! 2. Reads and checks answer at once, never run a callback, and see the callback's own commands.
//! 3. A command that has become void at its turn is dropped and logged with plugin and topic.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use serde_json::{Map, Value};

use super::exception::Exception;
use super::outcome::Priority;
use super::remote::{RemoteHandle, TimerKey, Work};
use crate::job::{Job, JobId, State, Timestamp};

/// What a callback can ask of its host.
pub trait Host {
    /// The time of this callback; all callbacks of one cause share it.
    fn now(&self) -> Timestamp;

    /// The job that the callback is about; none in timers and completions.
    fn current(&self) -> Option<JobId>;

    /// A job by id: active, or inactive and not yet purged.
    fn job(&self, id: JobId) -> Option<&Job>;

    /// The plugin's data on a job, own writes of this callback included.
    fn data(&self, id: JobId) -> Option<Value>;

    /// Checks a command against the job's state and the commands queued so far, and queues it.
    ///
    /// # Errors
    /// When the command can't have an effect; nothing is queued then.
    fn call(&self, command: Command) -> Result<(), CallError>;

    /// Queues a command that needs no check.
    fn push(&self, command: Command);

    /// The way back to the plugin from outside the manager's thread.
    fn remote(&self) -> RemoteHandle;
}

/// A call that a handler made, as it is queued.
#[derive(Debug)]
pub enum Command {
    /// Hold the job in DEPEND until the same description is removed.
    AddDependency {
        /// The job.
        job: JobId,
        /// Names the dependency within the job; works once.
        description: String,
    },
    /// The dependency is satisfied.
    RemoveDependency {
        /// The job.
        job: JobId,
        /// As it was added.
        description: String,
    },
    /// Hold the start of the job.
    StartProlog {
        /// The job.
        job: JobId,
        /// For the reader of the eventlog.
        description: String,
    },
    /// End one prolog.
    FinishProlog {
        /// The job.
        job: JobId,
        /// As it was started.
        description: String,
        /// 0 is success; informational.
        status: i32,
        /// Why it failed: raises a fatal exception with this note too.
        failure: Option<String>,
    },
    /// Hold the release of the job's resources.
    StartEpilog {
        /// The job.
        job: JobId,
        /// For the reader of the eventlog.
        description: String,
    },
    /// End one epilog.
    FinishEpilog {
        /// The job.
        job: JobId,
        /// As it was started.
        description: String,
        /// 0 is success; informational.
        status: i32,
        /// Why it failed: raises a fatal exception with this note too.
        failure: Option<String>,
    },
    /// Post an exception.
    Raise {
        /// The job.
        job: JobId,
        /// The exception.
        exception: Exception,
    },
    /// Set the job's priority.
    Reprioritize {
        /// The job.
        job: JobId,
        /// What to set it to.
        priority: Priority,
    },
    /// Ask all plugins again for the priority of every job in PRIORITY and SCHED.
    ReprioritizeAll,
    /// Change the jobspec of the job; all changes of a callback become one event.
    UpdateJobspec {
        /// The job.
        job: JobId,
        /// New values by dotted path from `attributes`, `resources` or `tasks`.
        updates: Map<String, Value>,
    },
    /// Deliver the job's events to this plugin.
    Subscribe {
        /// The job.
        job: JobId,
    },
    /// Deliver them no longer.
    Unsubscribe {
        /// The job.
        job: JobId,
    },
    /// Replace the plugin's data on the job.
    SetData {
        /// The job.
        job: JobId,
        /// The data as JSON.
        value: Value,
    },
    /// Answer for a submission that an asynchronous `job.validate` handler held up.
    Verdict {
        /// The job.
        job: JobId,
        /// Accepted, or why not.
        verdict: Result<(), String>,
    },
    /// Come back to the plugin at a time.
    StartTimer {
        /// Which timer.
        key: TimerKey,
        /// When.
        at: Timestamp,
        /// What to do then.
        work: Work,
    },
    /// Forget a timer.
    CancelTimer {
        /// Which timer.
        key: TimerKey,
    },
    /// Run work off the manager's thread, once the callback's events are durable.
    Spawn(Task),
    /// Write to the manager's log.
    Log {
        /// How grave.
        level: Level,
        /// The message; the host adds the plugin's name.
        text: String,
    },
}

/// A future that the host runs for a plugin.
pub struct Task(pub Pin<Box<dyn Future<Output = ()> + Send>>);

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Task")
    }
}

/// Severities of the manager's log, by their syslog names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Something failed that should not have.
    Error,
    /// Something needs attention.
    Warning,
    /// Worth knowing.
    Info,
    /// For those who look closely.
    Debug,
}

impl Level {
    /// The name as it stands in log lines.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Error => "err",
            Level::Warning => "warning",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }
}

/// Why a call can't have an effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No such job, or it was purged.
    #[error("there is no job {0}")]
    UnknownJob(JobId),
    /// The host gave no current job where the topic promises one.
    #[error("there is no current job")]
    NoCurrentJob,
    /// The call needs a state that the job is not in.
    #[error("{call} of job {job} in state {state}: {rule}")]
    WrongState {
        /// The job.
        job: JobId,
        /// The state that it is in.
        state: State,
        /// The call.
        call: &'static str,
        /// When the call is possible.
        rule: &'static str,
    },
    /// The dependency to remove doesn't hold the job.
    #[error("job {job} isn't held by dependency {description:?}")]
    NotHeld {
        /// The job.
        job: JobId,
        /// The description.
        description: String,
    },
    /// The job's start was requested, so that a prolog comes too late.
    #[error("job {0} was started already: a prolog can't hold it any more")]
    Started(JobId),
    /// The jobspec can't be changed at this path.
    #[error("jobspec update of job {job}: {reason}")]
    Jobspec {
        /// The job.
        job: JobId,
        /// What is wrong with path or value.
        reason: String,
    },
}
