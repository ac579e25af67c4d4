//! Where jobs run: the interface between the manager, which decides, and whatever runs a job.
//!
//! The manager hands a job to the [`Executor`] of the ranks that its resources name, and gets back the engine's
//! [`ExecEvent`]s about it. [`LocalExecutor`] serves the ranks of this host. It leaves the processes to a *shepherd*, a
//! process that outlives the manager, so that a manager can be upgraded or crash while its jobs run on.
//! [`nodes::NodesExecutor`] serves the nodes of an allocation. Each node has a shepherd.

mod command;
mod data;
#[cfg(feature = "fuzz")]
pub(crate) mod foreign;
mod job_files;
mod kill;
mod local;
mod node_runs;
pub mod nodes;
pub(crate) mod output_limit;
pub mod protocol;
pub(crate) mod shepherd;
mod signals;
mod socket;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use jobtap_core::array::Element;
use jobtap_core::engine::ExecEvent;
use jobtap_core::job::{JobId, TaskMap};
use serde::{Deserialize, Serialize};

pub use command::JobCommand;
pub use kill::{KillPolicy, KillPolicyError};
pub(crate) use local::LOG as SHEPHERD_LOG;
pub use local::{ExecError, LocalConfig, LocalExecutor};
pub use output_limit::OutputLimitError;
pub use shepherd::{Ahead, PlayedJob, shepherd_main};
pub(crate) use shepherd::{MOST_FILES_PER_TASK, files_per_task};
pub(crate) use socket::listens as shepherd_listens;

/// The hidden first argument that makes the manager's binary a shepherd.
pub const SHEPHERD_ARGUMENT: &str = "__shepherd";

/// The reason given for draining nodes whose shepherd died with jobs. Short enough for listings of drained nodes to
/// show it whole.
const SHEPHERD_LOST: &str = "shepherd lost: jobs may run on";

/// The severity of an exception that informs the user and does not end the job.
const INFORMATIONAL: i64 = 2;

/// A job to start, or to reattach after a restart of the manager.
///
/// Each manager process sends this once for every job whose resources are allocated and not yet freed, after the job's
/// prologs have finished. A job that the executor already knows is never started twice, whatever
/// [`reattach`](Self::reattach) is; a job that was lost with an earlier shepherd is reported as lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartJob {
    /// The job's id.
    pub id: JobId,
    /// The user that the job runs as.
    pub userid: u32,
    /// The user's account, if the user is not the manager's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Account>,
    /// Program and arguments of each task.
    pub command: Vec<String>,
    /// The number of tasks. They are ranked from 0.
    pub ntasks: u32,
    /// Working directory, absolute.
    pub cwd: PathBuf,
    /// The exact environment, to which only the variables that describe the task are added.
    pub env: Vec<(String, String)>,
    /// `attributes.system.shell.options` of the jobspec, or null.
    pub shell_options: serde_json::Value,
    /// Files that come with the job, by name (RFC 37); `attributes.system.files`, or null.
    pub files: serde_json::Value,
    /// The job's own directory, if it has one. Set by the executor.
    #[serde(skip)]
    pub tmpdir: Option<PathBuf>,
    /// The job's name, for `{{name}}` in paths of output files.
    pub name: String,
    /// The job's queue, if there are queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The place in a job array, if the job is an element of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub element: Option<Element>,
    /// The allocated resources (R, RFC 20).
    pub resources: serde_json::Value,
    /// The nodes in the order of ranks, with the tasks of each. Tasks are ranked node by node, unless the
    /// shell option `taskmap` says otherwise.
    #[serde(with = "node_runs")]
    pub nodes: Vec<NodeTasks>,
    /// The place among [`nodes`](Self::nodes) of the one node whose tasks are to be started, if the others have shepherds
    /// of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<usize>,
    /// Which node runs which task. Set by the execution target.
    #[serde(skip)]
    pub taskmap: TaskMap,
    /// Whether to reattach to the job and never to start it: see
    /// [`ExecStart::reattach`](jobtap_core::engine::ExecStart::reattach). A job that the executor doesn't know is then
    /// lost.
    pub reattach: bool,
    /// The job before it, if it is handed over ahead of its turn: see
    /// [`ExecStart::after`](jobtap_core::engine::ExecStart::after).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<JobId>,
    /// Which events of the job the manager has recorded, so that none of them is reported twice.
    pub seen: Seen,
    /// How the job is killed when the executor has to end it without a manager.
    pub kill: KillPolicy,
    /// The number of bytes that are kept of each output stream without a file, unless the shell option `output.limit`
    /// says otherwise.
    #[serde(default = "output_limit::highest")]
    pub output_limit: u64,
    /// Whether the manager takes the output of a job that prints little as [`ExecEvent::Output`]. A manager from a
    /// build without this field reads all output from files.
    #[serde(default)]
    pub takes_output: bool,
}

impl StartJob {
    /// Whether another shepherd has the first node of the job, and with it what concerns the whole job.
    pub(crate) fn is_follower(&self) -> bool {
        self.part.is_some_and(|part| part > 0)
    }

    /// The node whose tasks are to be started, the first one if all are.
    pub(crate) fn rank(&self) -> u32 {
        self.nodes.get(self.part.unwrap_or(0)).map_or(0, |node| node.rank)
    }

    /// A job without a command and without tasks.
    pub fn new(id: JobId) -> Self {
        Self {
            id,
            userid: 0,
            account: None,
            command: Vec::new(),
            ntasks: 0,
            cwd: PathBuf::new(),
            env: Vec::new(),
            shell_options: serde_json::Value::Null,
            files: serde_json::Value::Null,
            tmpdir: None,
            name: String::new(),
            queue: None,
            element: None,
            resources: serde_json::Value::Null,
            nodes: Vec::new(),
            part: None,
            taskmap: TaskMap::default(),
            reattach: false,
            after: None,
            seen: Seen::default(),
            kill: KillPolicy::default(),
            output_limit: output_limit::highest(),
            takes_output: false,
        }
    }
}

/// What the system knows about a user that jobs run as.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The user's name.
    pub name: String,
    /// The primary group.
    pub gid: u32,
    /// All groups of the user.
    pub groups: Vec<u32>,
}

/// A node of a job and the number of tasks that run there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeTasks {
    /// The node.
    pub rank: u32,
    /// The number of tasks that run there.
    pub ntasks: u32,
}

/// What a restarted manager has recorded about a job. All zero for a new job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Number of entries of the exec eventlog.
    pub log_entries: usize,
    /// Number of exceptions that came from the executor.
    pub exceptions: usize,
    /// Whether the eventlog has the `finish` event.
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

/// A message from an executor to the manager.
#[derive(Clone, Debug, PartialEq)]
pub enum ExecutorReport {
    /// Events of jobs that were handed to the executor, in their order.
    Events(Vec<ExecEvent>),
    /// The response to [`JobCommand::Tasks`]. It can come at any time.
    Tasks {
        /// The job.
        id: JobId,
        /// The running tasks by rank; empty if the job is unknown.
        tasks: Vec<TaskProcess>,
    },
    /// A node was lost, or is back.
    Node {
        /// The node.
        rank: u32,
        /// What has become of it.
        change: NodeChange,
    },
    /// Jobs that a node holds which has come after the others were [listed](Executor::held): it ran them for an earlier
    /// manager.
    Held(Vec<HeldJob>),
    /// A line for the manager's log, about a condition that an administrator has to resolve.
    Warning(String),
}

/// What has become of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeChange {
    /// It is lost, and its parts of jobs with it.
    Lost {
        /// Why, for the administrator.
        reason: String,
    },
    /// It is back, without its jobs.
    Back,
}

/// A job that an executor held when the manager connected to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldJob {
    /// The job's id.
    pub id: JobId,
    /// Whether it has ended; its status is retained until it is acknowledged. A job that was lost with
    /// an earlier shepherd has ended, too.
    pub ended: bool,
    /// The job after which the executor has begun it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<JobId>,
}

impl HeldJob {
    /// A job that the manager has started.
    pub fn new(id: JobId, ended: bool) -> Self {
        Self { id, ended, after: None }
    }
}

/// What starts, signals and ends the tasks of jobs.
///
/// Apart from [`shut_down`](Self::shut_down), no method waits for the target. The consequences of a
/// request are reported through the callback that the executor was made with. A request about an unknown
/// job does nothing.
pub trait Executor: Send {
    /// Starts a job, or reattaches it: events after [`StartJob::seen`] are reported first.
    fn start(&self, job: StartJob);

    /// Carries out a command about a job.
    fn command(&self, command: JobCommand);

    /// Sends what was collected to be sent together: jobs that are handed over ahead of their turn, and acknowledgements.
    /// Called when no other request follows at once.
    fn flush(&self) {}

    /// The jobs that the target held when the manager connected. The manager cancels and acknowledges
    /// those that it does not start again.
    fn held(&self) -> &[HeldJob];

    /// All jobs of an earlier manager were started again, or ended.
    fn settled(&self) {}

    /// Whether the executor begins jobs by itself that are handed over ahead of their turn
    /// ([`StartJob::after`]).
    fn takes_jobs_ahead(&self) -> bool {
        false
    }

    /// Requests that the target exits as soon as it holds no job, and waits at most `limit` for that.
    /// Returns whether it has exited.
    fn shut_down(&self, limit: Duration) -> bool;
}
