//! `job-list.*`: queries about jobs.

use std::collections::BTreeMap;

use jobtap_core::job::JobId;
use jobtap_core::resource::Idset;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::super::payload::or_default;

/// The attributes that a request asks for. Flux responds with those alone, this manager with all of them.
type Attributes = &'static [&'static str];

/// All attributes.
pub const ALL: Attributes = &["all"];

/// Asks for the jobs that satisfy a constraint. `since` and `max_entries` are ignored unless they are numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct List {
    /// The maximum number of jobs, 1000 by default; 0 is no limit.
    #[schemars(with = "Option<i64>")]
    #[serde(default, deserialize_with = "integer", skip_serializing_if = "Option::is_none")]
    pub max_entries: Option<i64>,
    /// An RFC 31 constraint with the operators of Flux's job list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraint: Option<Value>,
    /// The attributes wanted of each job.
    #[serde(skip_deserializing, skip_serializing_if = "<[_]>::is_empty")]
    pub attrs: Attributes,
    /// Whether the pending elements of a job array are listed together: the member `array` has their indexes.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub arrays: bool,
    /// Leaves out jobs that became inactive before this time, in seconds since the UNIX epoch.
    #[schemars(with = "Option<f64>")]
    #[serde(default, deserialize_with = "number", skip_serializing_if = "Option::is_none")]
    pub since: Option<f64>,
}

/// A constraint as the commands build it: an object with one operator and its values.
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
    /// The job has one of these results, bits of [`JobResult`](jobtap_core::job::JobResult) values.
    Results(Vec<u64>),
    /// The job has one of the ranks in these idsets.
    Ranks(Vec<String>),
    /// The job has one of the hosts in these hostlists.
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

/// The response to [`List`]: the pending jobs by priority, then the running and the inactive jobs, the newest first.
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
    /// The attributes wanted of it.
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

/// Asks for one job array.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GetArray {
    /// The array.
    pub id: JobId,
}

/// A job array: what has become of its elements. Sets are of indexes, as idsets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Array {
    /// Its id.
    pub id: JobId,
    /// The user who has submitted it.
    pub userid: u32,
    /// The urgency of the elements that aren't jobs yet.
    pub urgency: i64,
    /// The name of its jobs.
    pub name: String,
    /// The queue that it names.
    #[serde(default)]
    pub queue: Option<String>,
    /// When it was submitted, in seconds since the UNIX epoch.
    pub t_submit: f64,
    /// The number of elements.
    pub count: u64,
    /// All elements.
    #[schemars(with = "String")]
    pub indexes: Idset,
    /// Those that aren't jobs yet.
    #[schemars(with = "String")]
    pub waiting: Idset,
    /// The number of those that are jobs without resources.
    pub pending: u64,
    /// The number of those that have resources.
    pub running: u64,
    /// Those whose jobs have completed.
    #[schemars(with = "String")]
    pub completed: Idset,
    /// Those whose jobs have failed.
    #[schemars(with = "String")]
    pub failed: Idset,
    /// Those that were canceled, as jobs or before they were jobs.
    #[schemars(with = "String")]
    pub canceled: Idset,
    /// Those whose jobs have reached their time limit.
    #[schemars(with = "String")]
    pub timeout: Idset,
    /// Whether all elements have ended.
    pub over: bool,
    /// Why no element becomes a job at present, in the words of what refuses them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// Asks for the job arrays with elements that aren't jobs yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListArrays {
    /// The user; all users if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub userid: Option<u32>,
}

/// The response to [`ListArrays`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Arrays {
    /// The arrays, the oldest first.
    pub arrays: Vec<Array>,
}

/// Asks for the jobs of elements of an array.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListElements {
    /// The array.
    pub id: JobId,
    /// The indexes, as an idset; all of them if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub indexes: Option<Idset>,
    /// Leaves out jobs that are inactive.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub active: bool,
}

/// The response to [`ListElements`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Elements {
    /// The jobs by index. Elements that aren't jobs yet are left out.
    pub jobs: BTreeMap<u32, JobId>,
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

/// Asks what jobs wait for: how many wait for what, and what some of them wait for. A list has the word for each job, but
/// what a job waits for changes with other jobs, too, and [`Changes`] doesn't say so.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetWaits {
    /// At most 256 jobs.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<JobId>,
}

/// The response to [`GetWaits`]. The words are the kinds of the reasons of `job-manager.why`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Waits {
    /// How many jobs wait for what, by the word for it.
    pub counts: BTreeMap<String, u64>,
    /// Those of the named jobs that wait for something.
    pub jobs: Vec<WaitingJob>,
}

/// What a job waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitingJob {
    /// The job.
    pub id: JobId,
    /// What it waits for first, in a word.
    pub why: String,
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

/// Asks for jobs as they change, as a stream. The first response has no job: a list that is requested after it misses
/// nothing. Changes in quick succession are combined, and removed jobs are not reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Changes {}

/// Asks for the names of users. Jobs have only their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetUsers {
    /// The numbers of at most 256 users.
    pub userids: Vec<u32>,
}

/// The response to [`GetUsers`]. Users that the system doesn't know, or doesn't look up in time, are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Users {
    /// The users that the system knows.
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

/// The numbers of jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Tally {
    /// The numbers of jobs by state.
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

/// The number of jobs in each state.
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
