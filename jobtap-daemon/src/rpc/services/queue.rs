//! `job-manager.queue-*`, and other services about pending jobs as a whole.

use jobtap_core::queue::Target;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::payload::or_default;
use super::super::service::Audited;

/// Enables or disables submission.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Enable {
    /// The queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether the request is about all queues, if none is named.
    #[serde(default, deserialize_with = "or_default")]
    pub all: bool,
    /// Whether jobs are to be accepted.
    pub enable: bool,
    /// Why they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Enable {
    pub(super) fn audit(&self) -> Option<Audited> {
        match self.enable {
            true => Audited::new("queue-enable", &["name", "all"]),
            false => Audited::new("queue-disable", &["name", "all", "reason"]),
        }
    }

    /// The queues that the request is about.
    pub fn target(&self) -> Target {
        Target { name: self.name.clone(), all: self.all }
    }
}

/// Starts or stops scheduling.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Start {
    /// The queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether the request is about all queues, if none is named.
    #[serde(default, deserialize_with = "or_default")]
    pub all: bool,
    /// Whether jobs are to be scheduled.
    pub start: bool,
    /// Why they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether this holds only until the manager ends.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub nocheckpoint: bool,
}

impl Start {
    pub(super) fn audit(&self) -> Option<Audited> {
        match self.start {
            true => Audited::new("queue-start", &["name", "all"]),
            false => Audited::new("queue-stop", &["name", "all", "reason"]),
        }
    }

    /// The queues that the request is about.
    pub fn target(&self) -> Target {
        Target { name: self.name.clone(), all: self.all }
    }
}

/// Asks for the names of all queues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct List {}

/// The response to [`List`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Names {
    /// The names; the anonymous queue has none.
    pub queues: Vec<String>,
}

/// Asks for the status of a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetStatus {
    /// Its name; none for the anonymous queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The response to [`GetStatus`]: the status object of RFC 33.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Status {
    /// Whether jobs are accepted.
    pub enable: Option<bool>,
    /// Whether jobs are scheduled.
    pub start: Option<bool>,
    /// The queue whose resources a virtual queue uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// `parent` when the queue is stopped only because its parent is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<String>,
    /// Why no jobs are accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_reason: Option<String>,
    /// Why no jobs are scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
}

/// Asks for everything that a listing of queues can show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetOverview {}

/// The response to [`GetOverview`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Overview {
    /// The queues in the order of their names.
    pub queues: Vec<Queue>,
}

/// A queue as a listing shows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Queue {
    /// Its name; empty for the anonymous queue.
    pub name: String,
    /// Whether jobs that name no queue go there.
    pub default: bool,
    /// Whether it accepts and schedules jobs.
    #[serde(flatten)]
    pub status: Status,
    /// The values for jobs that don't give their own.
    pub defaults: Defaults,
    /// The limits on what its jobs may request.
    pub limits: Limits,
    /// The resources that its jobs can get.
    pub resources: Resources,
}

/// The values for a job that doesn't give its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Defaults {
    /// Its time limit in seconds; `None` is no limit.
    pub timelimit: Option<f64>,
}

/// The limits on what the jobs of a queue may request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Limits {
    /// The longest time limit in seconds; `None` is no limit.
    pub timelimit: Option<f64>,
    /// The smallest size.
    pub min: Size,
    /// The largest size.
    pub max: Size,
}

/// A number of resources of each kind; `None` where none is given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Size {
    /// Nodes.
    pub nnodes: Option<i64>,
    /// Cores.
    pub ncores: Option<i64>,
    /// GPUs.
    pub ngpus: Option<i64>,
}

/// The resources that the jobs of a queue can get, by their state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Resources {
    /// All of them.
    pub all: Size,
    /// Those that are up.
    pub up: Size,
    /// Those that are drained, excluded or offline.
    pub down: Size,
    /// Those that are allocated to jobs.
    pub allocated: Size,
    /// Those that are up and not allocated.
    pub free: Size,
}

/// Asks how many jobs wait for resources, and how many run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AllocQuery {}

/// The response to [`AllocQuery`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Counts {
    /// Requests for resources that are not sent to a scheduler yet; always 0 here.
    pub queue_length: u64,
    /// Requests that a scheduler has.
    pub alloc_pending: u64,
    /// Jobs that have resources.
    pub running: u64,
}

/// Waits until no job is active.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Drain {}

/// Waits until no job runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Idle {}

/// The response to [`Idle`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Pending {
    /// The number of pending jobs.
    pub pending: u64,
}
