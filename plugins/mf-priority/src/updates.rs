//! What flux-accounting sends: the rows of its tables, as `flux account-priority-update` and
//! `flux account export-json` write them. `plugin.query` shows some of them, under names of its own.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// A user in a bank, with its limits.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub(crate) struct Terms {
    #[serde(skip_serializing)]
    pub(crate) userid: u32,
    #[serde(rename(serialize = "bank_name"))]
    pub(crate) bank: String,
    #[serde(skip_serializing)]
    pub(crate) def_bank: String,
    pub(crate) fairshare: f64,
    #[serde(rename(serialize = "max_run_jobs"))]
    pub(crate) max_running_jobs: i64,
    pub(crate) max_active_jobs: i64,
    pub(crate) max_sched_jobs: i64,
    pub(crate) max_nodes: i64,
    pub(crate) max_cores: i64,
    #[serde(deserialize_with = "names")]
    pub(crate) queues: Vec<String>,
    /// 0 if it is disabled.
    pub(crate) active: i64,
    #[serde(deserialize_with = "names")]
    pub(crate) projects: Vec<String>,
    pub(crate) def_project: String,
}

/// A queue, with its limits for each association. Those for each job are Flux's own business.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub(crate) struct Queue {
    #[serde(rename(serialize = "name"))]
    pub(crate) queue: String,
    pub(crate) min_nodes_per_job: i64,
    pub(crate) max_nodes_per_job: i64,
    pub(crate) max_time_per_job: i64,
    pub(crate) priority: i64,
    pub(crate) max_running_jobs: i64,
    pub(crate) max_nodes_per_assoc: i64,
    pub(crate) max_sched_jobs: i64,
    pub(crate) max_sched_nodes_per_assoc: i64,
    pub(crate) max_sched_cores_per_assoc: i64,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Project {
    pub(crate) project: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Bank {
    pub(crate) bank: String,
    pub(crate) priority: f64,
}

/// The weight of a factor of the priority.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Weight {
    pub(crate) factor: String,
    pub(crate) weight: i64,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Options {
    #[serde(default)]
    pub(crate) deny_unknown_queues: bool,
}

/// All tables at once, as `flux account export-json` prints them.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Tables {
    pub(crate) associations: Option<Value>,
    pub(crate) queues: Option<Value>,
    pub(crate) projects: Option<Value>,
    pub(crate) banks: Option<Value>,
    pub(crate) priority_factors: Option<Value>,
    pub(crate) config: Option<Value>,
}

/// Data that can't be used. Nothing of it is in effect.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpdateError {
    #[error("{0} data is NULL or not an array")]
    NoArray(&'static str),
    #[error("{what}[{at}]: {reason}")]
    Row { what: &'static str, at: usize, reason: serde_json::Error },
    #[error("invalid config payload: {0}")]
    Config(#[from] serde_json::Error),
}

/// The rows of a table.
pub(crate) fn rows<T: DeserializeOwned>(
    data: &Value,
    what: &'static str,
) -> Result<Vec<T>, UpdateError> {
    let rows = data.as_array().ok_or(UpdateError::NoArray(what))?.iter().enumerate();
    let row =
        |(at, row)| T::deserialize(row).map_err(|reason| UpdateError::Row { what, at, reason });
    rows.map(row).collect()
}

/// The names in a list with commas. A list of blanks has none.
fn names<'de, D: Deserializer<'de>>(list: D) -> Result<Vec<String>, D::Error> {
    let list = String::deserialize(list)?;
    Ok(match list.trim().is_empty() {
        true => Vec::new(),
        false => list.split(',').map(str::to_owned).collect(),
    })
}
