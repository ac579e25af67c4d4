//! `job-list.*`: what is known of jobs.

use jobtap_core::job::JobId;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// The attributes that a request asks for. Flux responds with those alone, this manager with all of them.
type Attributes = &'static [&'static str];

/// All attributes.
pub const ALL: Attributes = &["all"];

/// Asks for the jobs that satisfy a constraint. `since` and `max_entries` that are no numbers count as
/// not given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct List {
    /// How many jobs at most, 1000 if it is not given; 0 is no limit.
    #[schemars(with = "Option<i64>")]
    #[serde(default, deserialize_with = "integer", skip_serializing_if = "Option::is_none")]
    pub max_entries: Option<i64>,
    /// An RFC 31 constraint with the operators of Flux's job list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraint: Option<Value>,
    /// What is wanted of each job.
    #[serde(skip_deserializing, skip_serializing_if = "<[_]>::is_empty")]
    pub attrs: Attributes,
    /// Without jobs that became inactive before this time, in seconds since the UNIX epoch.
    #[schemars(with = "Option<f64>")]
    #[serde(default, deserialize_with = "number", skip_serializing_if = "Option::is_none")]
    pub since: Option<f64>,
}

/// A constraint as the commands make it: an object with one operator and its values.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Constraint {
    /// All of these hold.
    And(Vec<Constraint>),
    /// One of these holds.
    Or(Vec<Constraint>),
    /// The job belongs to one of these users.
    Userid(Vec<u32>),
    /// The job has one of these names.
    Name(Vec<String>),
    /// The job is in one of these queues.
    Queue(Vec<String>),
    /// The job is in one of these states, bits of a [`StateSet`](jobtap_core::job::StateSet).
    States(Vec<u64>),
    /// The job has one of these results, bits of the same.
    Results(Vec<u64>),
    /// The job has one of these ranks, idsets.
    Ranks(Vec<String>),
    /// The job has one of these hosts, hostlists.
    Hostlist(Vec<String>),
}

impl From<Constraint> for Value {
    fn from(constraint: Constraint) -> Self {
        // An enum of lists of texts and numbers has a JSON form.
        serde_json::to_value(constraint).unwrap_or_default()
    }
}

fn integer<'de, D: Deserializer<'de>>(field: D) -> Result<Option<i64>, D::Error> {
    Ok(Option::<Value>::deserialize(field)?.and_then(|value| value.as_i64()))
}

fn number<'de, D: Deserializer<'de>>(field: D) -> Result<Option<f64>, D::Error> {
    Ok(Option::<Value>::deserialize(field)?.and_then(|value| value.as_f64()))
}

/// The response to [`List`]: those that are pending by priority, those that run, and those that are
/// inactive, the newest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Jobs {
    /// The attributes of each job, an object.
    pub jobs: Vec<Value>,
}

/// Asks for one job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListId {
    /// The job.
    pub id: JobId,
    /// What is wanted of it.
    #[serde(skip_deserializing, skip_serializing_if = "<[_]>::is_empty")]
    pub attrs: Attributes,
}

/// The response to [`ListId`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Job {
    /// The job's attributes, an object.
    pub job: Value,
}

/// Asks how many jobs there are in each state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetStats {}

/// The response to [`GetStats`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Stats {
    /// The jobs of all queues.
    #[serde(flatten)]
    pub all: Tally,
    /// The jobs of each queue that has had one.
    pub queues: Vec<QueueTally>,
}

/// The jobs of one queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct QueueTally {
    /// The queue's name.
    pub name: String,
    /// Its jobs.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Asks for jobs as they change, as a stream. The first response has no job: a list that is asked for after it misses
/// nothing. Changes that come soon after each other are one, and jobs that are removed are not told of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Changes {}

/// Asks for the names of users, whom jobs have by their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetUsers {
    /// The numbers of at most 256 users.
    pub userids: Vec<u32>,
}

/// The response to [`GetUsers`]. Users whom the system doesn't know, or not in time, are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Users {
    /// Those whom it knows.
    pub users: Vec<User>,
}

/// A user of the system.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct User {
    /// The number.
    pub userid: u32,
    /// The name.
    pub name: String,
}

/// How many jobs there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Tally {
    /// By state.
    pub job_states: States,
    /// Inactive jobs that succeeded.
    pub successful: u64,
    /// Inactive jobs that failed.
    pub failed: u64,
    /// Inactive jobs that were canceled.
    pub canceled: u64,
    /// Inactive jobs that reached their time limit.
    pub timeout: u64,
    /// Jobs that were removed after they had become inactive.
    pub inactive_purged: u64,
}

/// How many jobs are in each state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(missing_docs, reason = "each field is named after its state")]
pub struct States {
    pub depend: u64,
    pub priority: u64,
    pub sched: u64,
    pub run: u64,
    pub cleanup: u64,
    pub inactive: u64,
    pub total: u64,
}
