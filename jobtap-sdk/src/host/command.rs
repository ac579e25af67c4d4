//! Host commands: what a handler asks its host to do. They are queued during the callback and carried out
//! after it.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::AbortHandle;
use serde_json::{Map, Value};

use super::callback::Args;
use super::errors::failure::AsyncError;
use super::off_thread::blocking::BlockingCommand;
use super::off_thread::plugin_future::PluginFuture;
use super::off_thread::process::ProcessCommand;
use super::off_thread::rpc::RpcCommand;
use super::outcome::Priority;
use super::values::event_name::EventName;
use super::values::exception::Exception;
use super::values::perilog::Perilog;
use super::values::prep::PrepFailure;
use super::values::service::{ReplyTo, ServiceError};
use super::values::slurm::{RequestAnswer, RequestKey, RequestWork};
use crate::job::{JobFlag, JobId, Signal, Timestamp, Urgency};
use crate::jobspec::Dependency;
use crate::resource::Idset;

/// What a handler asks its host to do.
#[derive(Debug)]
pub enum Command {
    /// Add a dependency: the job stays in DEPEND until it is removed.
    AddDependency {
        /// The job.
        job: JobId,
        /// Names the dependency within the job. A description that was added before has no effect.
        description: String,
    },
    /// Remove a dependency.
    RemoveDependency {
        /// The job.
        job: JobId,
        /// The description with which it was added.
        description: String,
    },
    /// Start a prolog: delay the start of the job's tasks.
    StartProlog {
        /// The job.
        job: JobId,
        /// Names it within the job; appears in the eventlog.
        description: String,
    },
    /// Finish a prolog.
    FinishProlog {
        /// The job.
        job: JobId,
        /// The description with which it was started.
        description: String,
        /// 0 is success. It is for information only: the job goes on with any status.
        status: i32,
        /// Why it failed; if given, a fatal exception with this note is raised.
        failure: Option<String>,
    },
    /// Start an epilog: delay the release of the job's resources.
    StartEpilog {
        /// The job.
        job: JobId,
        /// Names it within the job; appears in the eventlog.
        description: String,
    },
    /// Finish an epilog.
    FinishEpilog {
        /// The job.
        job: JobId,
        /// The description with which it was started.
        description: String,
        /// 0 is success. It is for information only: the job goes on with any status.
        status: i32,
        /// Why it failed; if given, a fatal exception with this note is raised.
        failure: Option<String>,
    },
    /// Give up a prolog or epilog without finishing it: the job waits for it until the plugin takes it over again.
    LeaveOpen {
        /// The job.
        job: JobId,
        /// Whether it is a prolog or an epilog.
        perilog: Perilog,
        /// The description with which it was started.
        description: String,
    },
    /// A Slurm prolog or epilog has failed: finish it and handle the failure.
    FailPrep(PrepFailure),
    /// Raise an exception on the job.
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
        /// The new priority.
        priority: Priority,
    },
    /// Call `job.priority.get` for each job in PRIORITY and SCHED.
    ReprioritizeAll,
    /// Change the jobspec of the job. All changes of a callback become one event.
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
        /// The name of the event.
        name: EventName,
        /// The context of the event.
        context: Option<Map<String, Value>>,
    },
    /// Set the urgency of the job.
    SetUrgency {
        /// The job.
        job: JobId,
        /// The new urgency.
        urgency: Urgency,
    },
    /// Start an epilog and end the job with a fatal exception.
    EndWithEpilog {
        /// The job.
        job: JobId,
        /// Names the epilog within the job.
        description: String,
        /// The exception.
        exception: Exception,
    },
    /// Send a signal to the job's tasks, if it has any.
    Signal {
        /// The job.
        job: JobId,
        /// The signal.
        signal: Signal,
    },
    /// Set a memo on the job.
    Memo {
        /// The job.
        job: JobId,
        /// The memo: keys and values; null removes a key.
        memo: Map<String, Value>,
    },
    /// Change the expiration of a job that has resources.
    SetExpiration {
        /// The job.
        job: JobId,
        /// The new expiration; UNIX time 0 means none.
        at: Timestamp,
    },
    /// Store a value below the job's `guest` directory, durably.
    PutGuest {
        /// The job.
        job: JobId,
        /// Where: below `application` or `tools.NAME` (RFC 16).
        key: String,
        /// The value.
        value: Value,
    },
    /// Merge annotations into those of the job, durably.
    Annotate {
        /// The job.
        job: JobId,
        /// The annotations: objects are merged key by key, null removes a key.
        annotations: Map<String, Value>,
    },
    /// Set a flag of the job.
    SetFlag {
        /// The job.
        job: JobId,
        /// The flag.
        flag: JobFlag,
    },
    /// Take over a prolog or epilog that was open when the manager stopped or the plugin was reloaded.
    TakeOver {
        /// The job.
        job: JobId,
        /// Whether it is a prolog or an epilog.
        perilog: Perilog,
        /// The description with which it was started.
        description: String,
    },
    /// Deliver the job's events to this plugin.
    Subscribe {
        /// The job.
        job: JobId,
    },
    /// Stop delivering the job's events to this plugin.
    Unsubscribe {
        /// The job.
        job: JobId,
    },
    /// Drain nodes.
    Drain {
        /// The nodes.
        ranks: Idset,
        /// The reason; a node that is drained already keeps its own.
        reason: String,
    },
    /// Retain the resources that the job frees.
    Retain {
        /// The job.
        job: JobId,
    },
    /// Free retained resources.
    FreeRetained {
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
        /// Whether the data is kept in memory only.
        volatile: bool,
    },
    /// Replace the plugin's data on the instance.
    SetInstanceData {
        /// The data as JSON.
        value: Value,
        /// Whether the data is kept in memory only.
        volatile: bool,
    },
    /// Send one response of a stream.
    Respond {
        /// The request.
        to: ReplyTo,
        /// The response.
        payload: Value,
    },
    /// Send the only response, or end a stream.
    Answer {
        /// The request.
        to: ReplyTo,
        /// The response, or the error.
        result: Result<Value, ServiceError>,
    },
    /// Start or signal a process.
    Process(ProcessCommand),
    /// Send a request to a service outside of the job manager, or drop its response.
    Rpc(RpcCommand),
    /// Run work on a thread of the host's, or drop it.
    Blocking(BlockingCommand),
    /// Accept or reject a job for which an asynchronous handler of `job.validate` decides.
    Verdict {
        /// The job.
        job: JobId,
        /// `Err` rejects the job; its text is for the submitter.
        verdict: Result<(), AsyncError>,
    },
    /// Send a message to the user whose request the plugins decide on.
    UserMessage {
        /// The request.
        request: RequestKey,
        /// The message, of one or more lines.
        text: String,
    },
    /// Run the future of an asynchronous handler that a request waits for. The host aborts it when the request
    /// no longer waits.
    BeginRequestWork(RequestWork),
    /// The future of an asynchronous handler has decided on a request.
    AnswerRequest {
        /// The request.
        request: RequestKey,
        /// The decision.
        answer: RequestAnswer,
    },
    /// Start a timer.
    StartTimer {
        /// Names the timer.
        key: TimerKey,
        /// When it fires.
        due: TimerDue,
        /// The work to do then.
        work: RemoteWork,
    },
    /// Stop a timer.
    CancelTimer {
        /// Names the timer.
        key: TimerKey,
    },
    /// Run a future off the manager's thread, after the events of the callback are durable.
    Spawn(PluginFuture),
    /// A poll of a future took long; the host logs it if it exceeded the time budget.
    PollTook {
        /// The topic of the asynchronous handler, or `spawn`.
        topic: &'static str,
        /// The job that the future is about.
        job: Option<JobId>,
        /// How long the poll took.
        milliseconds: u64,
    },
    /// Run the future of an asynchronous handler, as for [`Spawn`](Self::Spawn). The host aborts it when the
    /// job no longer waits for it.
    BeginWork(JobWork),
    /// The future of an asynchronous handler has finished.
    WorkEnded {
        /// The job.
        job: JobId,
        /// The description of the work.
        what: String,
    },
    /// Do some work when the job gets a fatal exception or becomes inactive; at once if that has happened
    /// already.
    NotifyAtJobEnd {
        /// The job.
        job: JobId,
        /// The work to do then.
        work: RemoteWork,
    },
    /// Do some work once the commands before this one are carried out, with all that follows from them.
    Then {
        /// The work.
        work: RemoteWork,
    },
    /// Write to the manager's log.
    Log {
        /// The severity.
        level: Level,
        /// The message, which the host prefixes with the plugin's name.
        text: String,
    },
    /// Write to the manager's log about a job.
    LogForJob {
        /// The job.
        job: JobId,
        /// The severity.
        level: Level,
        /// The message, which the host prefixes with the job's id.
        text: String,
    },
}

/// What waits for the work of an asynchronous handler. When it no longer waits, the work is aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkKind {
    /// The submitter, for the response.
    Verdict,
    /// The job in DEPEND.
    Dependency,
    /// The job in PRIORITY.
    Priority,
    /// The start of the job's tasks.
    Prolog,
    /// The release of the job's resources.
    Epilog,
}

/// The work of an asynchronous handler on a job.
#[derive(Debug)]
pub struct JobWork {
    /// The job.
    pub job: JobId,
    /// The description of the work, as in the events.
    pub what: String,
    /// What waits for the work.
    pub kind: WorkKind,
    /// Whether the work runs on when the job no longer waits for it.
    pub run_on: bool,
    /// Aborts the work.
    pub abort: AbortHandle,
    /// The work.
    pub future: PluginFuture,
}

/// The description of the work of an asynchronous handler: `PLUGIN.METHOD`, and for a dependency
/// `PLUGIN.METHOD=SCHEME:VALUE`, since one handler may run for several dependencies of a job at the same
/// time.
///
/// It is the description in the events `dependency-add`, `prolog-start` and `epilog-start`, so it is stored
/// in eventlogs. A restarted manager finds the handlers of interrupted work by it: a change of this format
/// would orphan all work that is open at an upgrade.
pub fn work_description(plugin: &str, method: &str, dependency: Option<&Dependency>) -> String {
    match dependency {
        None => format!("{plugin}.{method}"),
        Some(Dependency { scheme, value, .. }) => format!("{plugin}.{method}={scheme}:{value}"),
    }
}

/// The severity of a line in the manager's log, for [`Cx::log`](crate::plugin::Cx::log).
///
/// ```
/// # use jobtap_core::prelude::*;
/// fn new_job(job: &Job, cx: Cx<'_, JobNew>) {
///     if job.jobspec().name().is_none() {
///         cx.log(Level::Warning, format!("{} has no name", job.id()));
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Something failed.
    Error,
    /// Something needs attention.
    Warning,
    /// Something worth knowing happened.
    Info,
    /// Details for debugging.
    Debug,
}

impl Level {
    /// The syslog name of the severity, as in log lines.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Error => "err",
            Level::Warning => "warning",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }
}

/// Names a timer of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TimerKey(pub u64);

impl TimerKey {
    /// A key that no other timer of this process has.
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// When a timer of a plugin fires.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TimerDue {
    /// When the clock shows this time.
    At(Timestamp),
    /// After so many seconds, even if the clock is set meanwhile.
    After(f64),
}

impl TimerDue {
    /// When the timer fires by a clock that shows `now` and isn't set meanwhile.
    ///
    /// ```
    /// use jobtap_core::host::TimerDue;
    /// use jobtap_core::job::Timestamp;
    ///
    /// let now = Timestamp::from_secs(100.0);
    /// assert_eq!(TimerDue::After(5.0).by_clock(now).as_secs(), 105.0);
    /// ```
    #[must_use]
    pub fn by_clock(self, now: Timestamp) -> Timestamp {
        match self {
            TimerDue::At(at) => at,
            TimerDue::After(seconds) => now + seconds,
        }
    }
}

/// A closure that is called with the plugin.
pub type LaterCall = Box<dyn for<'a> FnOnce(&mut dyn Any, &'a Args<'a>) + Send>;

/// Work that is done on the manager's thread.
pub enum RemoteWork {
    /// Call a closure with the plugin.
    Call(LaterCall),
    /// Carry out commands.
    Commands(Vec<Command>),
}

impl fmt::Debug for RemoteWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RemoteWork::Call(_) => f.write_str("Call"),
            RemoteWork::Commands(commands) => f.debug_tuple("Commands").field(commands).finish(),
        }
    }
}
