//! Host commands: what a handler asked its host to do, queued during the callback and carried out
//! after it.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::AbortHandle;
use serde_json::{Map, Value};

use super::callback::Args;
use super::event_name::EventName;
use super::exception::Exception;
use super::outcome::Priority;
use super::perilog::Perilog;
use super::process::ProcessCommand;
use super::service::{ReplyTo, ServiceError};
use crate::job::{JobId, Signal, Timestamp, Urgency};
use crate::resource::Idset;

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
        perilog: Perilog,
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

/// Names a plugin's timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TimerKey(pub u64);

impl TimerKey {
    /// A key that no other timer of this process has.
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A closure for a plugin's instance, which it finds behind `dyn Any`.
pub type LaterCall = Box<dyn for<'a> FnOnce(&mut dyn Any, &'a Args<'a>) + Send>;

/// What is to be done on the manager's thread.
pub enum Work {
    /// Call into the plugin.
    Call(LaterCall),
    /// Do what a handler could have asked for.
    Commands(Vec<Command>),
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Work::Call(_) => f.write_str("Call"),
            Work::Commands(commands) => f.debug_tuple("Commands").field(commands).finish(),
        }
    }
}
