//! `resource.*` and `sched.*`: nodes and their allocation.

use std::collections::BTreeMap;

use jobtap_core::eventlog::EventEntry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::payload::or_default;
use super::super::service::Audited;
use super::entries;

/// Asks for the state of the nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetStatus {}

/// The response to [`GetStatus`]. Sets of ranks are idsets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Status {
    /// All resources (RFC 20).
    #[serde(rename = "R")]
    pub r: Value,
    /// The ranks that can be reached.
    pub online: String,
    /// The ranks that are lost.
    pub offline: String,
    /// The ranks that the configuration excludes.
    pub exclude: String,
    /// The ranks that are allocated to jobs.
    pub allocated: String,
    /// The ranks that plugins retain after the end of their jobs.
    pub housekeeping: String,
    /// The drained nodes, by their ranks.
    #[serde(with = "entries")]
    #[schemars(with = "BTreeMap<String, Drained>")]
    pub drain: Vec<(String, Drained)>,
    /// The nodes that are reserved for maintenance.
    pub maintenance: Vec<Maintenance>,
}

/// Why nodes are drained.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Drained {
    /// When they were drained, in seconds since the UNIX epoch.
    pub timestamp: f64,
    /// The reason, if one was given.
    pub reason: Option<String>,
    /// Who drained them.
    pub userid: Option<i64>,
}

/// Nodes that no job may use for a time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Maintenance {
    /// Its number; 0 for a maintenance from the configuration.
    pub id: u64,
    /// The nodes, by their ranks.
    pub ranks: String,
    /// The nodes, by their hosts.
    pub nodelist: String,
    /// When it begins, in seconds since the UNIX epoch.
    pub from: Option<f64>,
    /// When it ends; `None` while that is not known.
    pub to: Option<f64>,
    /// The reason for it.
    pub reason: String,
}

/// Asks for the events of all nodes as a stream. The first response has the past events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Journal {}

/// One response to [`Journal`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Events {
    /// The events, the oldest first.
    #[schemars(with = "Vec<Value>")]
    pub events: Vec<EventEntry>,
}

/// Drains nodes: jobs that run there go on, others do not start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Drain {
    /// Ranks or hosts.
    pub targets: String,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What happens to nodes that are drained already: one of the constants. Without it, they are
    /// an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

impl Drain {
    /// Drained nodes stay as they are, but get the reason if they have none.
    pub const UPDATE: &str = "update";
    /// Drained nodes get the reason.
    pub const OVERWRITE: &str = "overwrite";
    /// Drained nodes get the reason and the present time.
    pub const FORCE_OVERWRITE: &str = "force-overwrite";

    pub(super) fn audit(&self) -> Option<Audited> {
        Audited::new("drain", &["targets", "reason", "mode"])
    }
}

/// Lets jobs start on drained nodes again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Undrain {
    /// Ranks or hosts.
    pub targets: String,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// One of the constants of [`Drain`]: nodes that are not drained are then no error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

impl Undrain {
    pub(super) fn audit(&self) -> Option<Audited> {
        Audited::new("undrain", &["targets", "reason", "mode"])
    }
}

/// Declares nodes lost: the jobs that run there end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Offline {
    /// Ranks or hosts.
    pub targets: String,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Offline {
    pub(super) fn audit(&self) -> Option<Audited> {
        Audited::new("offline", &["targets", "reason"])
    }
}

/// Declares lost nodes found. They stay drained.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Online {
    /// Ranks or hosts.
    pub targets: String,
}

impl Online {
    pub(super) fn audit(&self) -> Option<Audited> {
        Audited::new("online", &["targets"])
    }
}

/// Replaces the resources of the instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reload {
    /// The new resources (RFC 20).
    #[serde(rename = "R")]
    pub r: Value,
    /// Whether jobs may have resources that no longer exist.
    #[serde(default, deserialize_with = "or_default")]
    pub force: bool,
}

impl Reload {
    pub(super) fn audit(&self) -> Option<Audited> {
        Audited::new("resource-reload", &["force"])
    }
}

/// Reserves nodes for maintenance: no job starts that could still run there when it begins.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AddMaintenance {
    /// Ranks or hosts.
    pub targets: String,
    /// When it begins, in seconds since the UNIX epoch; now if it is not given.
    pub from: Option<f64>,
    /// When it ends, if that is known.
    pub to: Option<f64>,
    /// The reason for it.
    pub reason: Option<String>,
}

impl AddMaintenance {
    pub(super) fn audit(&self) -> Option<Audited> {
        Audited::new("maintenance-add", &["targets", "from", "to", "reason"])
    }
}

/// The response to [`AddMaintenance`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Added {
    /// Its number, by which it can be removed.
    pub id: u64,
}

/// Cancels a maintenance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemoveMaintenance {
    /// Its number.
    pub id: u64,
}

impl RemoveMaintenance {
    pub(super) fn audit(&self) -> Option<Audited> {
        Audited::new("maintenance-remove", &["id"])
    }
}

/// Asks what the scheduler may allocate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetSchedStatus {}

/// The response to [`GetSchedStatus`], sets of resources (RFC 20).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SchedStatus {
    /// All of them.
    pub all: Value,
    /// Those on nodes that are drained, excluded or offline.
    pub down: Value,
    /// Those that are allocated to jobs.
    pub allocated: Value,
}
