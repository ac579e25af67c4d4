//! `job-manager.jobtap*`, about plugins, and those services of builtin plugins that the commands call.

use std::collections::BTreeMap;

use jobtap_core::job::JobId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::service::Audited;
use super::entries;

/// Removes plugins, then loads one. Without either it changes nothing, and the response lists the plugins.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Jobtap {
    /// The name of a linked plugin to load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<String>,
    /// The name of a loaded plugin to remove, or a pattern.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove: Option<String>,
    /// The configuration of the plugin that is loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conf: Option<Value>,
}

impl Jobtap {
    pub(super) fn audit(&self) -> Option<Audited> {
        match (&self.load, &self.remove) {
            (Some(_), _) => Audited::new("plugin-load", &["load", "remove", "conf"]),
            (None, Some(_)) => Audited::new("plugin-remove", &["remove"]),
            (None, None) => None,
        }
    }
}

/// The response to a [`Jobtap`] that changes nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Plugins {
    /// The names of the loaded plugins in their order, as in Flux.
    pub plugins: Vec<String>,
    /// The details of each of them.
    pub details: Vec<Loaded>,
    /// The names of all plugins that are linked into the manager.
    pub linked: Vec<String>,
    /// The shadows, in the order in which they were loaded; one that was stopped is `faulted`.
    pub shadows: Vec<Loaded>,
}

/// A loaded plugin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Loaded {
    /// Its name.
    pub name: String,
    /// The crate that it comes from.
    #[serde(rename = "crate")]
    pub crate_name: String,
    /// The version of that crate.
    pub version: String,
    /// Whether it is out of service after repeated panics.
    pub faulted: bool,
    /// The number of its threads that were given up: they continue, but nothing waits for their work any
    /// more.
    pub given_up: usize,
}

/// Reloads a plugin: constructs it again, in its place on the stack.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reload {
    /// Its name.
    pub name: String,
    /// Its new configuration, an object; by default the one in the instance's configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conf: Option<Value>,
}

impl Reload {
    pub(super) fn audit(&self) -> Option<Audited> {
        Audited::new("plugin-reload", &["name", "conf"])
    }
}

/// Loads a plugin as a shadow: it is called beside the live plugins, and decides nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadShadow {
    /// The name of a linked plugin.
    pub name: String,
    /// Its configuration, an object; by default the one in the instance's configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conf: Option<Value>,
}

impl LoadShadow {
    pub(super) fn audit(&self) -> Option<Audited> {
        Audited::new("plugin-load-shadow", &["name", "conf"])
    }
}

/// Removes a shadow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemoveShadow {
    /// Its name.
    pub name: String,
}

impl RemoveShadow {
    pub(super) fn audit(&self) -> Option<Audited> {
        Audited::new("plugin-remove-shadow", &["name"])
    }
}

/// Asks what a shadow would have done differently from the live plugins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetShadow {
    /// Its name.
    pub name: String,
}

/// Queries a shadow: asks for its own data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueryShadow {
    /// Its name.
    pub name: String,
}

/// Makes a shadow live, in the place of the live plugin with its name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Promote {
    /// Its name.
    pub name: String,
}

impl Promote {
    pub(super) fn audit(&self) -> Option<Audited> {
        Audited::new("plugin-promote", &["name"])
    }
}

/// The response to [`Promote`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Promoted {
    /// Whether it has replaced a live plugin.
    pub replaced: bool,
}

/// Makes a live plugin a shadow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Demote {
    /// Its name.
    pub name: String,
}

impl Demote {
    pub(super) fn audit(&self) -> Option<Audited> {
        Audited::new("plugin-demote", &["name"])
    }
}

/// The response to [`Demote`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Demoted {
    /// Whether the plugin that its promotion had replaced is live again.
    pub restored: bool,
}

/// Queries a plugin: asks for its own data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Query {
    /// Its name.
    pub name: String,
}

/// Asks what the handlers of a plugin did since it was loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetStats {
    /// Its name; without one, all plugins.
    pub name: Option<String>,
}

/// The response to [`GetStats`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Stats {
    /// The plugins in their order.
    pub plugins: Vec<PluginStats>,
}

/// The handlers of a plugin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PluginStats {
    /// The plugin's name.
    pub name: String,
    /// Its handlers.
    pub handlers: Vec<Handler>,
    /// The threads for its work that computes or blocks for long.
    pub threads: Threads,
}

/// The threads for a plugin's work that computes or blocks for long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Threads {
    /// The number of threads at work.
    pub running: usize,
    /// The amount of work that waits for a thread.
    pub waiting: usize,
    /// The number of threads that were given up: they continue, but nothing waits for their work any more.
    pub given_up: usize,
}

/// What one handler did. Times are upper bounds in nanoseconds; some calls are timed, not all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Handler {
    /// The topic that it handles.
    pub topic: String,
    /// The handler's own name.
    pub handler: String,
    /// The number of calls.
    pub calls: u64,
    /// The number of calls that failed.
    pub errors: u64,
    /// The number of calls that panicked.
    pub panics: u64,
    /// Half of the timed calls took less; `None` before one was timed.
    pub p50: Option<u64>,
    /// 99 of 100 timed calls took less.
    pub p99: Option<u64>,
    /// The timed calls by their time.
    pub histogram: Vec<Bucket>,
}

/// Calls that took about the same time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Bucket {
    /// They took less than this, and at least half of it.
    pub below: u64,
    /// The number of these calls.
    pub calls: u64,
}

/// Asks for the JSON Schema of a plugin's own configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetSchema {
    /// The name of a linked plugin.
    pub name: String,
}

/// The response to [`GetSchema`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Schema {
    /// The schema; `None` for a plugin that has no configuration.
    pub schema: Option<Value>,
}

/// Asks `.housekeeping` where its scripts run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HousekeepingList {}

/// The response to [`HousekeepingList`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Housekeeping {
    /// The running scripts, by the id of the job that they run after, in decimal.
    #[serde(with = "entries")]
    #[schemars(with = "BTreeMap<String, Run>")]
    pub running: Vec<(String, Run)>,
}

/// The scripts that run after one job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Run {
    /// When they were started, in seconds since the UNIX epoch.
    pub t_start: f64,
    /// The ranks on which they still run, an idset.
    pub pending: String,
    /// The ranks of the job, an idset.
    pub allocated: String,
}

/// Makes `.housekeeping` send a signal to its scripts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HousekeepingKill {
    /// The signal's number.
    pub signum: i32,
    /// The job after which they run; without one, all jobs.
    pub jobid: Option<JobId>,
    /// The ranks on which they run, an idset; without one, all ranks.
    pub ranks: Option<String>,
}

/// Asks `.history` for the user's last jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// A slice, as in Python, of the jobs from the newest to the oldest.
    pub slice: String,
}

/// The response to [`History`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HistoryJobs {
    /// The jobs of the slice.
    pub jobs: Vec<JobId>,
}

/// Makes `.post-event` write an event into a job's eventlog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PostEvent {
    /// The job.
    pub id: JobId,
    /// The event's name.
    pub name: String,
    /// The event's context, an object.
    pub context: Option<Value>,
}

/// Asks the plugin `limits` why it holds a job; the payload is the job's id alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitsWhy(pub JobId);

/// Asks the plugin `fairshare` how it computed a job's priority; the payload is the job's id alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FairshareWhy(pub JobId);
