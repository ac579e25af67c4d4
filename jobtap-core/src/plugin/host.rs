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

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use serde_json::{Map, Value};

use super::aborts::AbortHandle;
use super::bracket::Bracket;
use super::call_error::CallError;
use super::event_name::EventName;
use super::exception::Exception;
use super::outcome::Priority;
use super::process::ProcessCommand;
use super::remote::{RemoteHandle, TimerKey, Work};
use super::service::{ReplyTo, ServiceError};
use crate::job::{Job, JobId, Signal, Timestamp, Uid, Urgency};
use crate::queue::Queues;
use crate::resource::{Idset, ResourceSet};

/// What a callback can ask of its host.
pub trait Host {
    /// The time of this callback; all callbacks of one cause share it.
    fn now(&self) -> Timestamp;

    /// The user who owns the instance.
    fn owner(&self) -> Uid;

    /// All resources of the instance, as they are now.
    fn instance_resources(&self) -> &ResourceSet;

    /// The job that the callback is about; none in timers and completions.
    fn current(&self) -> Option<JobId>;

    /// A job by id: active, or inactive and not yet purged.
    fn job(&self, id: JobId) -> Option<&Job>;

    /// What this plugin can keep of what a job frees: what the scheduler gives out; none when the job has
    /// its resources from a plugin.
    fn freed(&self, id: JobId) -> Option<ResourceSet>;

    /// The plugin's data on a job, own writes of this callback included.
    fn data(&self, id: JobId) -> Option<Value>;

    /// The plugin's data on the instance, own writes of this callback included.
    fn instance_data(&self) -> Option<Value>;

    /// The instance's queues, as they are now.
    fn queues(&self) -> &Queues;

    /// Calls an author's own topic on all plugins that handle it, in load order, now. What their
    /// handlers ask for is queued with what this callback asks for.
    ///
    /// # Errors
    /// When there is no such job, a plugin is being called already, or a handler fails.
    fn call_topic(
        &self,
        topic: &'static str,
        job: Option<JobId>,
        payload: &dyn Any,
    ) -> Result<Vec<Box<dyn Any>>, CallError>;

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
    /// Post an event of the plugin's own.
    PostEvent {
        /// The job.
        job: JobId,
        /// Its name.
        name: EventName,
        /// Its context.
        context: Option<Map<String, Value>>,
    },
    /// Set the urgency of the job.
    SetUrgency {
        /// The job.
        job: JobId,
        /// What to set it to.
        urgency: Urgency,
    },
    /// Start an epilog and end the job.
    EndWithEpilog {
        /// The job.
        job: JobId,
        /// Names the epilog within the job.
        description: String,
        /// Why it ends.
        exception: Exception,
    },
    /// Send a signal to the job's tasks, if it has any.
    Signal {
        /// The job.
        job: JobId,
        /// Which.
        signal: Signal,
    },
    /// Leave a durable note for the job's user.
    Memo {
        /// The job.
        job: JobId,
        /// The note by its key.
        memo: Map<String, Value>,
    },
    /// Set a flag of the job.
    SetFlag {
        /// The job.
        job: JobId,
        /// Which one.
        flag: JobFlag,
    },
    /// Take over a prolog or epilog that was open at the last restart.
    Reopen {
        /// The job.
        job: JobId,
        /// Which kind.
        bracket: Bracket,
        /// As it was started.
        description: String,
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
    /// Give no new jobs to nodes.
    Drain {
        /// The nodes.
        ranks: Idset,
        /// Why, unless there is a reason already.
        reason: String,
    },
    /// Keep what the job frees from the scheduler.
    Keep {
        /// The job.
        job: JobId,
    },
    /// Give back what was kept.
    GiveBack {
        /// The job.
        job: JobId,
        /// The nodes.
        ranks: Idset,
    },
    /// Replace the plugin's data on the job.
    SetData {
        /// The job.
        job: JobId,
        /// The data as JSON.
        value: Value,
        /// Kept in memory only.
        volatile: bool,
    },
    /// Replace the plugin's data on the instance.
    SetInstanceData {
        /// The data as JSON.
        value: Value,
        /// Kept in memory only.
        volatile: bool,
    },
    /// One answer of a stream.
    Respond {
        /// To whom.
        to: ReplyTo,
        /// The answer.
        payload: Value,
    },
    /// The only answer, or the end of a stream.
    Answer {
        /// To whom.
        to: ReplyTo,
        /// The answer, or the refusal.
        result: Result<Value, ServiceError>,
    },
    /// Start, signal or forget a process.
    Process(ProcessCommand),
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
    /// The same for the work of an asynchronous handler, which is ended when its job no longer waits
    /// for it.
    Begin(JobWork),
    /// The work has ended by itself.
    End {
        /// The job.
        job: JobId,
        /// As it began.
        what: String,
    },
    /// Come back when the job has a fatal exception; at once when it has, or is over.
    AwaitEnd {
        /// The job.
        job: JobId,
        /// What to do then.
        work: Work,
    },
    /// Write to the manager's log.
    Log {
        /// How grave.
        level: Level,
        /// The message; the host adds the plugin's name.
        text: String,
    },
    /// Write to the manager's log about a job.
    LogOf {
        /// The job, whose id the host puts in front.
        job: JobId,
        /// How grave.
        level: Level,
        /// The message.
        text: String,
    },
}

/// Flags of a job that a plugin can set (RFC 21 `set-flags`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobFlag {
    /// The scheduler leaves the job alone: a plugin gives it its resources in `job.state.sched`.
    AllocBypass,
    /// More events are logged, for those who look closely.
    Debug,
    /// Only the instance's owner may change the jobspec any more.
    Immutable,
}

impl JobFlag {
    /// As it stands in the event.
    pub const fn name(self) -> &'static str {
        match self {
            JobFlag::AllocBypass => "alloc-bypass",
            JobFlag::Debug => "debug",
            JobFlag::Immutable => "immutable",
        }
    }
}

/// What the work of an asynchronous handler holds, and so how long it is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// The answer to the submitter.
    Verdict,
    /// DEPEND.
    Dependency,
    /// PRIORITY.
    Priority,
    /// The start.
    Prolog,
    /// The release of the resources.
    Epilog,
}

/// The work of an asynchronous handler on a job.
#[derive(Debug)]
pub struct JobWork {
    /// The job.
    pub job: JobId,
    /// Its description, as in the events.
    pub what: String,
    /// What it holds.
    pub hold: Hold,
    /// It goes on when the job ends first.
    pub run_on: bool,
    /// Ends it.
    pub abort: AbortHandle,
    /// The work itself.
    pub task: Task,
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
