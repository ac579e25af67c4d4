//! What goes into the engine and what comes out: the whole of its contact with the outside.
//!
//! The engine does no I/O. A daemon (or a test) hands it an [`Input`] with the time, and gets
//! [`Effects`]: what must be written first, and what may happen once that is durable.

use std::sync::Arc;

use serde_json::{Map, Value};

pub use super::exec_api::{ExecCommand, ExecEvent};
pub use super::node_requests::{DrainMode, NodeRequest};
use crate::eventlog::EventEntry;
pub use crate::host::ReplyTo;
pub use crate::host::command::Level;
pub use crate::host::service::Cred;
use crate::host::{PluginKey, ProcessCommand, RemoteCall, Task};
use crate::job::{JobId, StateSet, Timestamp, Uid};
use crate::jobspec::Jobspec;
use crate::queue::Target;

/// Names a timer that the engine asked for; unique within one run of the manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TimerId(pub u64);

/// One thing that happened, for [`Engine::handle`](super::Engine::handle).
#[derive(Debug)]
pub enum Input {
    /// Somebody asks for something; answered by one [`Effect::Reply`].
    Request {
        /// Where the answer goes.
        reply: ReplyTo,
        /// Who asks.
        cred: Cred,
        /// What is asked.
        request: Request,
    },
    /// The execution system reports.
    Exec(ExecEvent),
    /// A timer that the engine set is due.
    Timer(TimerId),
    /// Nobody waits for the answer to this request any more.
    Abandoned(ReplyTo),
    /// Work outside the manager's thread comes back to a plugin.
    Remote(RemoteCall),
}

/// What a client can ask of the engine.
#[derive(Debug)]
pub enum Request {
    /// `job-ingest.submit`: answer `{"id"}`.
    Submit(Box<Submission>),
    /// `job-manager.raise`.
    Raise {
        /// The job.
        id: JobId,
        /// The exception to post.
        exception: Exception,
    },
    /// `job-manager.raiseall`: answer `{"count","errors"}`.
    RaiseAll {
        /// Only count.
        dry_run: bool,
        /// Only jobs of this user; `None` is every user (owner only).
        userid: Option<Uid>,
        /// Only jobs in these states.
        states: StateSet,
        /// The exception to post.
        exception: Exception,
    },
    /// `job-manager.kill`: a signal to the tasks of a running job.
    Kill {
        /// The job.
        id: JobId,
        /// The signal's number.
        signum: i64,
    },
    /// `job-exec.override`: begins or ends a simulated job that was submitted to wait for this.
    Override {
        /// The job.
        id: JobId,
        /// `start` or `finish`.
        event: String,
        /// The wait status of `finish`; 0 if not said.
        status: Option<i32>,
    },
    /// `job-manager.killall`: answer `{"count","errors"}`.
    KillAll {
        /// Only count.
        dry_run: bool,
        /// Only jobs of this user; `None` is every user (owner only).
        userid: Option<Uid>,
        /// The signal's number.
        signum: i64,
    },
    /// `job-manager.memo`: a user's notes on a job.
    Memo {
        /// The job.
        id: JobId,
        /// Not logged: lost when the manager ends.
        volatile: bool,
        /// The notes; `null` removes a key.
        memo: Map<String, Value>,
    },
    /// `job-manager.urgency`: answer `{"old_urgency"}`.
    Urgency {
        /// The job.
        id: JobId,
        /// The new urgency, checked here.
        urgency: i64,
    },
    /// `job-manager.queue-enable`: enables or disables submission (owner).
    QueueEnable {
        /// Which queues.
        target: Target,
        /// Whether jobs are to be accepted.
        enable: bool,
        /// Why they are not.
        reason: Option<String>,
    },
    /// `job-manager.queue-start`: starts or stops scheduling (owner).
    QueueStart {
        /// Which queues.
        target: Target,
        /// Whether jobs are to be scheduled.
        start: bool,
        /// Why they are not.
        reason: Option<String>,
        /// Only until the manager ends.
        nocheckpoint: bool,
    },
    /// `job-manager.update`: changes of a jobspec.
    Update {
        /// The job.
        id: JobId,
        /// New values by dotted path.
        updates: Map<String, Value>,
    },
    /// `job-manager.purge-id` (owner): forgets an inactive job; answer `{"count"}`.
    PurgeId {
        /// The job.
        id: JobId,
        /// Not only to say whether it could be.
        force: bool,
    },
    /// `job-manager.purge` (owner): forgets the inactive jobs over a limit, those that ended first
    /// in front; answer `{"count"}`.
    Purge {
        /// How old they may be, in seconds; -1 is no limit.
        age_limit: f64,
        /// How many there may be; -1 is no limit.
        num_limit: i64,
        /// How many are forgotten at most, 1 to 100.
        batch: i64,
        /// Not only to count all of them.
        force: bool,
    },
    /// `job-manager.wait` (owner): answered with `{"id","success","errstr"}` at the end of a
    /// waitable job.
    Wait {
        /// The job; `None` is the first that ends.
        id: Option<JobId>,
    },
    /// `job-manager.drain` (owner): answered when no job is active.
    Drain,
    /// `job-manager.idle` (owner): answered with `{"pending"}` when no job runs.
    Idle,
    /// About nodes.
    Nodes(NodeRequest),
    /// A request for a plugin's service; answered by one [`Effect::Reply`], in a stream after any
    /// number of [`Effect::Respond`].
    Service {
        /// `job-manager.PLUGIN.METHOD`.
        topic: String,
        /// What is asked.
        payload: Value,
        /// Whether a stream is asked for.
        streaming: bool,
    },
    /// `job-manager.jobtap-query` (owner): what a plugin tells of itself.
    PluginQuery {
        /// Its name.
        name: String,
    },
    /// A plugin is built anew, in place of the loaded one (owner); what it has on jobs goes on.
    PluginReload {
        /// Its name.
        name: String,
        /// Its configuration from now on; as configured if not said.
        conf: Option<Value>,
    },
    /// A new configuration of the instance (owner). Plugins may refuse it.
    Configure {
        /// The whole, an object.
        config: Value,
    },
    /// `job-manager.jobtap` with `load` and `remove` (owner); removal comes first.
    Plugins {
        /// Name or pattern of plugins to remove.
        remove: Option<String>,
        /// Name of a linked plugin to load.
        load: Option<String>,
        /// The configuration for the loaded plugin.
        conf: Option<Value>,
    },
}

/// A job to submit.
#[derive(Debug, Clone)]
pub struct Submission {
    /// The jobspec, environment included.
    pub jobspec: Jobspec,
    /// The signed request as it was received, stored as `J` (RFC 16).
    pub signed: String,
    /// 0..31, checked by the engine.
    pub urgency: i64,
    /// Submit flags, checked by the engine.
    pub flags: u32,
}

/// An exception to raise on a job (RFC 21 `exception`).
#[derive(Debug, Clone, PartialEq)]
pub struct Exception {
    /// What happened, one word such as `cancel`.
    pub kind: String,
    /// 0 is fatal, up to 7.
    pub severity: i64,
    /// For the user to read; may be empty.
    pub note: String,
}

/// Everything that one call of the engine leads to.
#[derive(Debug, Default)]
pub struct Effects {
    /// To be made durable in one commit.
    pub writes: Vec<Write>,
    /// To be done in this order, only when `writes` and all that came before are durable.
    pub after: Vec<Effect>,
    /// Messages for the manager's log, at once.
    pub log: Vec<LogLine>,
}

/// One change to the stored state (keys of RFC 16).
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// One line appended to an eventlog of a job. `seq` counts the lines of that log from 0.
    Append {
        /// The job.
        id: JobId,
        /// Which log.
        log: Log,
        /// Position of this line in the log.
        seq: u64,
        /// The line, newline included.
        line: String,
    },
    /// `job.<id>.<key>` gets a value.
    Put {
        /// The job.
        id: JobId,
        /// Key below the job's directory: `J`, `jobspec`, `R`, `data.<plugin>`.
        key: String,
        /// The text.
        value: String,
    },
    /// A job is accepted: it is active from here on.
    Accepted {
        /// The job.
        id: JobId,
    },
    /// A job is over, and active no more. This is all that a later start needs of it, for
    /// [`Engine::restore_over`](super::Engine::restore_over); its other keys stay as they are.
    Over {
        /// The job.
        id: JobId,
        /// A JSON object, of a form that only the engine knows.
        summary: String,
    },
    /// Nothing of a job is kept.
    Remove {
        /// The job.
        id: JobId,
    },
    /// One line appended to a log of the instance, such as `resource.eventlog`.
    AppendInstance {
        /// The key.
        key: String,
        /// Position of this line in the log.
        seq: u64,
        /// The line, newline included.
        line: String,
    },
    /// An instance key such as `checkpoint.job-manager` gets a value.
    PutInstance {
        /// The key.
        key: String,
        /// The text.
        value: String,
    },
    /// An instance key is forgotten.
    RemoveInstance {
        /// The key.
        key: String,
    },
}

/// The eventlogs that a job has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Log {
    /// `eventlog`: the job's life (RFC 21).
    Main,
    /// `guest.exec.eventlog`: its execution (RFC 50).
    Exec,
}

impl Log {
    /// The key below the job's directory.
    pub const fn key(self) -> &'static str {
        match self {
            Log::Main => "eventlog",
            Log::Exec => "guest.exec.eventlog",
        }
    }
}

/// Something to do once the writes before it are durable.
#[derive(Debug)]
pub enum Effect {
    /// Answer a request.
    Reply {
        /// Which one.
        to: ReplyTo,
        /// The answer's payload, or the refusal.
        result: Result<Value, RequestError>,
    },
    /// One answer of a stream.
    Respond {
        /// To which request.
        to: ReplyTo,
        /// The answer's payload.
        payload: Value,
    },
    /// Start or signal a process of a plugin.
    Process {
        /// Whose it is.
        plugin: PluginKey,
        /// What to do.
        command: ProcessCommand,
    },
    /// Show an event to those who watch the job's log.
    Publish {
        /// The job.
        id: JobId,
        /// Which log.
        log: Log,
        /// Position in the log.
        seq: u64,
        /// The entry.
        entry: Arc<EventEntry>,
    },
    /// Show an event that isn't logged to those who follow all jobs.
    Announce {
        /// The job.
        id: JobId,
        /// The entry.
        entry: Arc<EventEntry>,
    },
    /// Tell the execution system.
    Exec(ExecCommand),
    /// Come back with [`Input::Timer`] at this time.
    Timer {
        /// Which timer.
        id: TimerId,
        /// When, UNIX time.
        at: Timestamp,
    },
    /// Run a plugin's asynchronous work, off the manager's thread.
    Spawn(Task),
}

/// A refused request: an errno and a sentence for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct RequestError {
    /// The errno that Flux answers with.
    pub errno: i32,
    /// What is wrong; empty where the errno says it all.
    pub text: String,
}

/// A line for the manager's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// How grave.
    pub level: Level,
    /// The message.
    pub text: String,
}

/// A job as the store has it, for [`Engine::restore`](super::Engine::restore).
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
    /// Lines in `guest.exec.eventlog`.
    pub exec_lines: u64,
    /// Values under `data.<plugin>`, by plugin.
    pub data: Map<String, Value>,
}
