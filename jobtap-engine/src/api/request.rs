//! What clients can ask the engine to do.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::allocation::AllocationId;
use crate::array::Elements;
use crate::host::errno::EPERM;
use crate::job::{JobId, Reach, StateSet, Uid};
use crate::jobspec::Jobspec;
use crate::queue::Target;
use crate::resource::{Idset, ResourceSet};

/// What a client can ask the engine to do.
#[derive(Debug)]
pub enum Request {
    /// `job-ingest.submit`. Response: `{"id"}`, of the job or of the array.
    Submit(Box<Submission>),
    /// `job-manager.array-raise`: an exception on elements of an array. A fatal one drops those that aren't jobs yet.
    /// Response: `{"count"}`.
    RaiseElements {
        /// The array.
        id: JobId,
        /// The indexes of the elements.
        indexes: Idset,
        /// The exception to post.
        exception: RaisedException,
    },
    /// `job-manager.array-wait`: waits until all elements of an array have ended. Response: as of
    /// [`Engine::array`](crate::Engine::array).
    WaitArray {
        /// The array.
        id: JobId,
    },
    /// Submits again a job whose prolog has failed, or which its user requeues, as
    /// [`Effect::Resubmit`](super::Effect::Resubmit) asks. The job
    /// was admitted before, so queues and `slurm.job_submit` add nothing to it. Response: `{"id"}`.
    Resubmit {
        /// The job.
        of: JobId,
        /// The job as its user would submit it now, or why it can't be told.
        submission: Result<Box<Submission>, RequestError>,
    },
    /// `job-manager.raise`.
    Raise {
        /// The job.
        id: JobId,
        /// The exception to post.
        exception: RaisedException,
    },
    /// `job-manager.raiseall`: response: `{"count","errors"}`.
    RaiseAll {
        /// Only count the jobs.
        dry_run: bool,
        /// Only jobs of this user; `None` is every user (owner only).
        userid: Option<Uid>,
        /// Only jobs in these states.
        states: StateSet,
        /// The exception to post.
        exception: RaisedException,
    },
    /// `job-manager.kill`: a signal to processes of a running job.
    Kill {
        /// The job.
        id: JobId,
        /// The signal's number.
        signum: i64,
        /// Which processes get it.
        reach: Reach,
    },
    /// `job-manager.requeue`: submits a job that is identical to a running one, which ends once the new one is
    /// accepted. Response: `{"id"}`.
    Requeue {
        /// The job.
        id: JobId,
        /// Whether the new job is held.
        hold: bool,
    },
    /// `job-exec.override`: begins or ends a simulated job that was submitted to wait for this request.
    Override {
        /// The job.
        id: JobId,
        /// `start` or `finish`.
        event: String,
        /// The wait status of `finish`; 0 if not given.
        status: Option<i32>,
    },
    /// `job-manager.killall`: response: `{"count","errors"}`.
    KillAll {
        /// Only count the jobs.
        dry_run: bool,
        /// Only jobs of this user; `None` is every user (owner only).
        userid: Option<Uid>,
        /// The signal's number.
        signum: i64,
    },
    /// `job-manager.memo`: adds to the memo of a job.
    Memo {
        /// The job.
        id: JobId,
        /// Not logged, so that it is lost when the manager ends.
        volatile: bool,
        /// The new values; `null` removes a key.
        memo: Map<String, Value>,
    },
    /// `job-manager.urgency`. Response: `{"old_urgency"}`.
    Urgency {
        /// The job.
        id: JobId,
        /// The new urgency, which the engine checks.
        urgency: i64,
    },
    /// `job-manager.queue-enable`: enables or disables submission (owner).
    QueueEnable {
        /// Which queues.
        target: Target,
        /// Whether the queues take jobs from now on.
        enable: bool,
        /// Why they do not.
        reason: Option<String>,
    },
    /// `job-manager.queue-start`: starts or stops allocation (owner).
    QueueStart {
        /// Which queues.
        target: Target,
        /// Whether the queues allocate from now on.
        start: bool,
        /// Why they do not.
        reason: Option<String>,
        /// The change is not stored, so that it is lost when the manager ends.
        nocheckpoint: bool,
    },
    /// `job-manager.update`: changes the jobspec of a job.
    Update {
        /// The job.
        id: JobId,
        /// New values by dotted path.
        updates: Map<String, Value>,
    },
    /// `job-manager.purge-id` (owner): purges an inactive job. Response: `{"count"}`.
    PurgeId {
        /// The job.
        id: JobId,
        /// Purge it; otherwise only say whether it can be purged.
        force: bool,
    },
    /// `job-manager.purge` (owner): purges the inactive jobs beyond a limit, oldest first. Response:
    /// `{"count"}`.
    Purge {
        /// The greatest age in seconds; -1 is no limit.
        age_limit: f64,
        /// The greatest number; -1 is no limit.
        num_limit: i64,
        /// The maximum number of jobs to purge, 1 to 100.
        batch: i64,
        /// Purge them; otherwise only count them all.
        force: bool,
    },
    /// `job-manager.wait` (owner): waits until a waitable job is inactive. Response:
    /// `{"id","success","errstr"}`.
    Wait {
        /// The job; `None` is the first one that becomes inactive.
        id: Option<JobId>,
    },
    /// `job-manager.drain` (owner): waits until no job is active.
    Drain,
    /// `job-manager.idle` (owner): waits until no job runs. Response: `{"pending"}`.
    Idle,
    /// A request about nodes.
    Nodes(NodeRequest),
    /// `allocation.release` (owner): gives an allocation of an elastic instance back. One that runs jobs is given back when
    /// they have ended, and no new ones start there. Response: `{}`.
    ReleaseAllocation {
        /// Which one.
        id: AllocationId,
    },
    /// A request for a plugin service: answered by one [`Effect::Reply`](super::Effect::Reply), in a
    /// stream after any number of [`Effect::Respond`](super::Effect::Respond).
    Service {
        /// `job-manager.PLUGIN.METHOD`.
        topic: String,
        /// The payload.
        payload: Value,
        /// Whether the client takes a stream of responses.
        streaming: bool,
    },
    /// `job-manager.jobtap-query` (owner): the data of a plugin's `plugin.query` handler.
    PluginQuery {
        /// Its name.
        name: String,
    },
    /// Builds a loaded plugin anew, in its place (owner). Its data, prologs and epilogs stay.
    PluginReload {
        /// Its name.
        name: String,
        /// Its configuration from now on; `None` is its table in the instance's configuration.
        conf: Option<Value>,
    },
    /// Gives the instance a new configuration (owner). Plugins can refuse it.
    Configure {
        /// The whole configuration, an object.
        config: Value,
    },
    /// A request about shadows (owner).
    Shadow(ShadowRequest),
    /// `job-manager.jobtap` with `remove` and `load` (owner), in this order.
    Plugins {
        /// The name or pattern of plugins to remove.
        remove: Option<String>,
        /// The name of a linked plugin to load.
        load: Option<String>,
        /// The configuration for the loaded plugin.
        conf: Option<Value>,
    },
}

/// What an administrator can ask about shadows: plugins that are called alongside the live ones, and decide nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum ShadowRequest {
    /// Loads a linked plugin as a shadow.
    Load {
        /// Its name.
        name: String,
        /// Its configuration, as for a live plugin.
        conf: Option<Value>,
    },
    /// Removes a shadow.
    Remove {
        /// Its name.
        name: String,
    },
    /// The data of a shadow's `plugin.query` handler.
    Query {
        /// Its name.
        name: String,
    },
    /// Makes a shadow live, in place of the live plugin of the same name. Response: `{"replaced"}`.
    Promote {
        /// Its name.
        name: String,
    },
    /// Makes a live plugin a shadow. The plugin that its promotion replaced becomes live again. Response:
    /// `{"restored"}`.
    Demote {
        /// Its name.
        name: String,
    },
}

/// A job to submit.
#[derive(Debug, Clone)]
pub struct Submission {
    /// The jobspec, environment included.
    pub jobspec: Jobspec,
    /// The signed request as it was received, or a text from which the store makes it; stored as `J` (RFC 16).
    pub signed: String,
    /// 0..31, checked by the engine.
    pub urgency: i64,
    /// Submit flags, checked by the engine.
    pub flags: u32,
    /// For a job array: its elements, which share all of this.
    pub elements: Option<Arc<Elements>>,
}

/// An exception to raise on a job (RFC 21 `exception`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RaisedException {
    /// What has happened, in one word such as `cancel`.
    pub kind: String,
    /// 0 is fatal, up to 7.
    pub severity: i64,
    /// For the user to read; may be empty.
    pub note: String,
    /// The status with which the job's tasks end for this reason, as in `wait`(2), if the executor reports one. It
    /// allows a job that a fatal exception ends to have status 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_status: Option<i32>,
}

impl RaisedException {
    /// An exception without a wait status.
    pub fn new(kind: impl Into<String>, severity: i64, note: impl Into<String>) -> Self {
        Self { kind: kind.into(), severity, note: note.into(), wait_status: None }
    }
}

/// What a client can ask about nodes. Targets are ranks (`0-3`) or hosts (`n[0-3]`).
#[derive(Debug, Clone, PartialEq)]
pub enum NodeRequest {
    /// `resource.drain` (owner): gives the nodes no new jobs.
    Drain {
        /// Which nodes.
        targets: String,
        /// Why.
        reason: Option<String>,
        /// What happens to nodes that are drained already.
        mode: DrainMode,
    },
    /// `resource.undrain` (owner): undoes a drain.
    Undrain {
        /// Which nodes.
        targets: String,
        /// Why.
        reason: Option<String>,
        /// Any mode but [`DrainMode::New`] allows nodes that are not drained.
        mode: DrainMode,
    },
    /// `resource.offline` (owner): the nodes are lost. They are drained, and their jobs end by a
    /// `node-failure` exception.
    Offline {
        /// Which nodes.
        targets: String,
        /// Why; also the reason of the drain.
        reason: Option<String>,
    },
    /// `resource.online` (owner): the nodes are back. They stay drained.
    Online {
        /// Which nodes.
        targets: String,
    },
    /// `resource.reload` (owner): gives the instance other resources, until the manager ends.
    Reload {
        /// All of them.
        resources: Box<ResourceSet>,
        /// Reload even if jobs have resources that are not among them.
        force: bool,
    },
    /// The instance ends at this time, in UNIX seconds; 0 is never. No client sends this: the manager itself does, if
    /// it runs as a job of another instance and the end of that job has moved.
    End(f64),
    /// `resource.journal` (owner): the log of nodes, then each new event, as a stream of
    /// `{"events":[..]}`.
    Journal,
    /// `resource.maintenance-add` (owner): reserves nodes for a period. Response: `{"id"}`.
    AddMaintenance {
        /// Which nodes.
        targets: String,
        /// The beginning in UNIX seconds; `None` is now.
        from: Option<f64>,
        /// The end in UNIX seconds; `None` is never.
        to: Option<f64>,
        /// Why.
        reason: String,
    },
    /// `resource.maintenance-remove` (owner): removes a planned maintenance.
    RemoveMaintenance {
        /// Its id, from the response to `maintenance-add`.
        id: u64,
    },
}

/// What `resource.drain` does to nodes that are drained already, and whether `resource.undrain` accepts nodes that are
/// not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DrainMode {
    /// The request is refused.
    #[default]
    New,
    /// They stay as they are; those without a reason get this one.
    Update,
    /// They get this reason.
    Overwrite,
    /// They get this reason and the present time.
    Restamp,
}

impl DrainMode {
    /// The number that Flux writes into the events.
    pub(crate) fn overwrite(self) -> u8 {
        match self {
            Self::New | Self::Update => 0,
            Self::Overwrite => 1,
            Self::Restamp => 2,
        }
    }
}

/// A refused request: an errno and a sentence for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct RequestError {
    /// The errno that Flux answers with.
    pub errno: i32,
    /// What is wrong; empty when the errno says everything.
    pub text: String,
    /// Further messages from plugins to the user.
    pub messages: Vec<String>,
}

impl RequestError {
    /// Refuses a request with an errno and a sentence.
    pub fn new(errno: i32, text: impl Into<String>) -> Self {
        Self { errno, text: text.into(), messages: Vec::new() }
    }

    /// The refusal of a request that only the owner of the instance may make.
    pub fn owner_only() -> Self {
        Self::new(EPERM, "Request requires owner credentials")
    }
}
