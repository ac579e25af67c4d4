//! Where jobs run: the seam between the manager, which decides, and whatever carries a job out.
//!
//! The manager hands a job to the [`Executor`] of the execution target that its resources name and
//! hears of the job through [`ExecEvent`]s. The one implementer today, [`LocalExecutor`], serves
//! the ranks that are on this host: it leaves the processes to a *shepherd*, a process that survives the manager, so that a
//! manager may be upgraded or crash without its jobs noticing.

mod kill;
mod local;
mod protocol;
mod shepherd;
mod socket;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use jobtap_core::resource::Idset;
use serde::{Deserialize, Serialize};

pub use kill::{KillPolicy, KillPolicyError};
pub(crate) use local::LOG as SHEPHERD_LOG;
pub use local::{ExecError, LocalConfig, LocalExecutor};
pub(crate) use shepherd::files_per_task;
pub use shepherd::shepherd_main;
pub(crate) use socket::listens as shepherd_listens;

/// The hidden first argument that makes the manager's binary a shepherd.
pub const SHEPHERD_ARGUMENT: &str = "__shepherd";

/// Why nodes are drained whose shepherd died with jobs; as long as a listing shows of a reason.
const SHEPHERD_LOST: &str = "shepherd lost: jobs may run on";

/// Severity of an exception that tells something and ends nothing.
const INFORMATIONAL: i32 = 2;

/// A job to start, or to pick up again after a restart of the manager.
///
/// To be sent once by each manager process for every job that holds resources and was not released.
/// A job that the executor knows already is never started twice, whatever `reattach` says; one that
/// was lost with an earlier shepherd is reported so.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StartJob {
    /// The job's id.
    pub id: u64,
    /// The user that the job runs as.
    pub userid: u32,
    /// Program and arguments of each task.
    pub command: Vec<String>,
    /// How many tasks to run; they are ranked from 0.
    pub ntasks: u32,
    /// Working directory, absolute.
    pub cwd: PathBuf,
    /// The exact environment, to which only the variables that describe the task are added.
    pub env: Vec<(String, String)>,
    /// `attributes.system.shell.options` of the jobspec, or null.
    pub shell_options: serde_json::Value,
    /// Files that come with the job, by name (RFC 37); `attributes.system.files`, or null.
    pub files: serde_json::Value,
    /// The job's own directory, where it has one; the target's to say.
    #[serde(skip)]
    pub tmpdir: Option<PathBuf>,
    /// The job's name, for `{{name}}` in paths of output files.
    pub name: String,
    /// The allocated resources (R, RFC 20).
    pub resources: serde_json::Value,
    /// The nodes in the order of ranks, with the tasks of each; tasks are ranked node by node.
    pub nodes: Vec<NodeTasks>,
    /// Whether the job's `start` event is on record: the job must be running or have ended already.
    pub reattach: bool,
    /// What of the job's events the manager has on record, so that none of them comes twice.
    pub seen: Seen,
    /// How the job is killed when the target itself has to end it, without the manager.
    pub kill: KillPolicy,
}

/// What one node does for a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeTasks {
    /// The execution target.
    pub rank: u32,
    /// How many tasks run there.
    pub ntasks: u32,
}

/// What a restarted manager has on record of a job. All zero for a job that is new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Number of entries of the exec eventlog.
    pub log_entries: usize,
    /// Number of exceptions that came from the executor.
    pub exceptions: usize,
    /// Whether the `finish` event is there.
    pub finished: bool,
}

/// The process of one of a job's tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskProcess {
    /// The task's rank in the job.
    pub rank: u32,
    /// Its process id on its host.
    pub pid: i32,
}

/// What happens to a job that was handed to an [`Executor`].
///
/// A job that is picked up has [`Reattached`](Self::Reattached) first, then what was missed, then
/// [`CaughtUp`](Self::CaughtUp).
///
/// In order: [`Log`](Self::Log) entries `init` and `starting`, [`Started`](Self::Started), more log
/// entries, [`Finished`](Self::Finished), [`Released`](Self::Released). A job that could not start
/// has an [`Exception`](Self::Exception) in place of started and finished, one whose command can't be
/// run has it between them; one that was lost a
/// [`Lost`](Self::Lost) in place of what hasn't come yet. The release always
/// comes, and nothing comes after it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum ExecEvent {
    /// A new entry of the job's `guest.exec.eventlog` (RFC 50).
    Log {
        /// The job.
        id: u64,
        /// `{"timestamp", "name", "context"?}`.
        entry: serde_json::Value,
    },
    /// A job that was to be picked up is there.
    Reattached {
        /// The job.
        id: u64,
    },
    /// All was told that such a job did while no manager ran. It may be over.
    CaughtUp {
        /// The job.
        id: u64,
    },
    /// All tasks run.
    Started {
        /// The job.
        id: u64,
    },
    /// Something failed that the job's user did not cause.
    Exception {
        /// The job.
        id: u64,
        /// 0 ends the job; the rest is information.
        severity: i32,
        /// The exception's type, `exec`.
        kind: String,
        /// What failed, for the user.
        note: String,
    },
    /// The job is lost, and processes of it may be left where nobody looks after them: no other job
    /// is to start there. In place of an exception that ends the job.
    Lost {
        /// The job.
        id: u64,
        /// What became of it, for the user.
        note: String,
        /// What is wrong with its nodes, for the administrator.
        reason: String,
    },
    /// The job is still there after all that [`KillPolicy`] says was done: no other job is to start
    /// on these nodes. It may end yet.
    Unkillable {
        /// The job.
        id: u64,
        /// Where tasks of it are left.
        ranks: Idset,
        /// What is wrong with the nodes, for the administrator.
        reason: String,
    },
    /// All tasks ended.
    Finished {
        /// The job.
        id: u64,
        /// The job's wait status: the highest of its tasks' (formats 5.6).
        status: i32,
    },
    /// The job's resources are free.
    Released {
        /// The job.
        id: u64,
        /// Whether this was the last of the job's resources.
        last: bool,
    },
    /// Answers [`Executor::tasks`]; comes at any time, and none of the others depends on it.
    Tasks {
        /// The job.
        id: u64,
        /// The tasks that run, by rank; none of an unknown job.
        tasks: Vec<TaskProcess>,
    },
}

impl ExecEvent {
    /// The job that the event is about.
    pub fn id(&self) -> u64 {
        match *self {
            Self::Log { id, .. }
            | Self::Reattached { id }
            | Self::CaughtUp { id }
            | Self::Started { id }
            | Self::Exception { id, .. }
            | Self::Lost { id, .. }
            | Self::Unkillable { id, .. }
            | Self::Finished { id, .. }
            | Self::Released { id, .. }
            | Self::Tasks { id, .. } => id,
        }
    }
}

/// A job that an executor held when the manager connected to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldJob {
    /// The job's id.
    pub id: u64,
    /// Whether it ended; its status is kept until it is acknowledged. A job that was lost with an
    /// earlier shepherd has ended, too.
    pub ended: bool,
}

/// One execution target.
///
/// No method waits for the target: what comes of a request is told by events, through the callback
/// that the implementer was made with. A request that concerns an unknown job is void.
pub trait Executor: Send {
    /// Starts a job, or picks it up: what happened since [`StartJob::seen`] is delivered first.
    fn start(&self, job: StartJob);

    /// Sends a signal to all processes of a job.
    fn signal(&self, id: u64, signum: i32);

    /// Ends a job: `first_signal` (SIGTERM, or SIGALRM for a job whose time is up), then what the
    /// [`KillPolicy`] says, again and again. Goes on when the manager dies. Once is enough; more
    /// often does nothing.
    fn cancel(&self, id: u64, first_signal: i32);

    /// Passes input to the tasks of a job that reads its standard input from its clients (shell
    /// option `input.stdin.type` is `service`): to the one ranked `rank`, or to all. With `eof` the
    /// input ends there.
    fn stdin(&self, id: u64, rank: Option<u32>, data: Vec<u8>, eof: bool);

    /// Asks which processes a job's tasks are; [`ExecEvent::Tasks`] tells.
    fn tasks(&self, id: u64);

    /// Says that the job's end is on durable record: the target may forget the job.
    fn ack(&self, id: u64);

    /// The jobs that the target held when the manager connected. Those that the manager doesn't
    /// start again are to be canceled if they run, and acknowledged.
    fn held(&self) -> &[HeldJob];
}
