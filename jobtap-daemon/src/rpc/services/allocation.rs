//! `allocation.*`: the allocations that an elastic instance has ordered from another job manager.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::service::Audited;

/// Asks for the tables and the allocations of an elastic instance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct List {}

/// The response to [`List`]. Times are UNIX times.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Allocations {
    /// The allocations that haven't ended.
    pub allocations: Vec<Allocation>,
    /// The tables of the configuration.
    pub tables: Vec<Table>,
}

/// An allocation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Allocation {
    /// Its id.
    pub id: u64,
    /// Its table.
    pub table: String,
    /// `asked`, `waiting`, `running`, `draining` or `ending`.
    pub state: String,
    /// Its id outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Why it waits, or is given back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The places of its nodes.
    pub ranks: String,
    /// The number of its nodes.
    pub nodes: u64,
    /// The hosts of the nodes that have joined.
    pub hosts: String,
    /// Their ranks.
    pub online: String,
    /// Its time limit in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<f64>,
    /// When it was asked for.
    pub t_asked: f64,
    /// When it has started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub t_started: Option<f64>,
    /// When it ends at the latest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub t_end: Option<f64>,
    /// Since when it has had no job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub t_idle: Option<f64>,
}

/// A table `[[allocation]]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// The outer job manager: `slurm`, `flux` or `command`.
    pub engine: String,
    /// The nodes of one allocation.
    pub nodes: u64,
    /// The cores of each node.
    pub cores: u64,
    /// The GPUs of each node.
    pub gpus: u64,
    /// The allocations that are kept even if no job is pending.
    pub min: u64,
    /// The most allocations at once.
    pub max: u64,
    /// The allocations that haven't ended.
    pub count: u64,
    /// The time limit of one allocation in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<f64>,
    /// The core hours that were used in the last 24 hours or are granted.
    pub core_hours: f64,
    /// The most of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_hours_per_day: Option<f64>,
    /// The requests of the last hour.
    pub requests: u64,
    /// The most of them.
    pub requests_per_hour: u64,
    /// How often it was refused since a node has last joined.
    pub refusals: u64,
    /// Why it was refused last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// When it may be asked again, if it has to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub t_next: Option<f64>,
}

/// Gives an allocation back: at once if it has no job, and else when its jobs have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Release {
    /// Its id.
    pub id: u64,
}

impl Release {
    pub(super) fn audit(&self) -> Option<Audited> {
        Audited::new("allocation-release", &["id"])
    }
}
