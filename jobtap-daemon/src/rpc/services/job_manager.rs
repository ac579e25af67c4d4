//! `job-manager.*`: changes of jobs, and the state of the manager.

use jobtap_core::job::{JobId, Reach, StateSet, Uid};
use jobtap_core::resource::Idset;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::super::RpcError;
use super::super::payload::or_default;
use super::super::service::Audited;

/// In [`RaiseAll`] and [`KillAll`]: the jobs of all users.
pub const ALL_USERS: i64 = -1;

/// The user that a request names; `None` for all users. C clients send all users as 32 set bits.
pub fn user(userid: i64) -> Option<Uid> {
    u32::try_from(userid).ok().filter(|uid| *uid != u32::MAX).map(Uid::new)
}

/// Raises an exception on a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Raise {
    /// The job.
    pub id: JobId,
    /// What happened, one word.
    #[serde(rename = "type")]
    pub kind: String,
    /// 0 ends the job; up to 7.
    pub severity: i64,
    /// For the user to read.
    #[serde(default, deserialize_with = "or_default")]
    pub note: String,
}

impl Raise {
    /// The exception that cancels a job.
    pub fn cancel(id: JobId, note: impl Into<String>) -> Self {
        Self { id, kind: "cancel".to_owned(), severity: 0, note: note.into() }
    }
}

/// Raises an exception on all jobs of a user, or of all users, in some states.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RaiseAll {
    /// Whether jobs are only counted.
    pub dry_run: bool,
    /// The user, or [`ALL_USERS`].
    pub userid: i64,
    /// Bits of a [`StateSet`].
    pub states: u64,
    /// What happened, one word.
    #[serde(rename = "type")]
    pub kind: String,
    /// 0 ends the jobs; up to 7.
    pub severity: i64,
    /// For the users to read.
    #[serde(default, deserialize_with = "or_default")]
    pub note: String,
}

impl RaiseAll {
    pub(super) fn audit(&self) -> Option<Audited> {
        let event = Audited { event: "raiseall", fields: &["states", "type", "severity"] };
        (!self.dry_run).then_some(event)
    }

    /// The states as a set.
    pub fn state_set(&self) -> StateSet {
        StateSet::from_bits(self.states)
    }
}

/// Raises an exception on elements of a job array. A fatal one drops those that aren't jobs yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RaiseElements {
    /// The array, and the exception.
    #[serde(flatten)]
    pub raise: Raise,
    /// The indexes of the elements, as an idset.
    #[schemars(with = "String")]
    pub indexes: Idset,
}

/// Waits until all elements of a job array have ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitArray {
    /// The array.
    pub id: JobId,
}

/// Sends a signal to processes of a running job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Kill {
    /// The job.
    pub id: JobId,
    /// The signal's number.
    pub signum: i64,
    /// Which processes get it.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Reach::is_group")]
    pub reach: Reach,
}

impl Kill {
    /// A signal to the tasks and to what they have started.
    pub fn all(id: JobId, signum: i64) -> Self {
        Self { id, signum, reach: Reach::Group }
    }

    pub(super) fn audit(&self) -> Option<Audited> {
        Audited::new("kill", &["id", "signum"])
    }
}

/// Submits a job that is identical to a running one, and ends the running one when the new one is accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Requeue {
    /// The job.
    pub id: JobId,
    /// Whether the new job is held.
    #[serde(default, deserialize_with = "or_default")]
    pub hold: bool,
}

/// The response to [`Requeue`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Requeued {
    /// The new job.
    pub id: JobId,
    /// Messages from plugins to the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<String>,
}

impl Requeue {
    pub(super) fn audit(&self) -> Option<Audited> {
        Audited::new("requeue", &["id", "hold"])
    }
}

/// Sends a signal to the tasks of all running jobs of a user, or of all users.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KillAll {
    /// Whether jobs are only counted.
    pub dry_run: bool,
    /// The user, or [`ALL_USERS`].
    pub userid: i64,
    /// The signal's number.
    pub signum: i64,
}

impl KillAll {
    pub(super) fn audit(&self) -> Option<Audited> {
        (!self.dry_run).then_some(Audited { event: "killall", fields: &["signum"] })
    }
}

/// The response to [`RaiseAll`] and [`KillAll`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Matched {
    /// The number of jobs that match.
    pub count: u64,
    /// The number of them for which the request failed.
    pub errors: u64,
}

/// Changes the urgency of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SetUrgency {
    /// The job.
    pub id: JobId,
    /// 0 to 31.
    pub urgency: i64,
}

/// The response to [`SetUrgency`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OldUrgency {
    /// The urgency before.
    pub old_urgency: Option<i64>,
    /// Messages from plugins to the user.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<String>,
}

/// Changes the jobspec of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Update {
    /// The job.
    pub id: JobId,
    /// New values by dotted path.
    pub updates: Map<String, Value>,
}

/// The response to [`Update`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Updated {
    /// Messages from plugins to the user.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<String>,
}

/// Adds the user's notes to a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Memo {
    /// The job.
    pub id: JobId,
    /// Whether the notes are lost when the manager ends.
    #[serde(default, deserialize_with = "or_default")]
    pub volatile: bool,
    /// The notes; `null` removes a key.
    pub memo: Map<String, Value>,
}

/// Asks what a job waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Why {
    /// The job.
    pub id: JobId,
}

/// The response to [`Why`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Reasons {
    /// The long name of the job's state.
    pub state: String,
    /// The reasons why it waits.
    pub reasons: Vec<Reason>,
}

/// One thing that a job waits for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Reason {
    /// The kind of reason, one word.
    pub kind: String,
    /// A sentence for the user.
    pub text: String,
}

/// Waits for the end of a job that was submitted with the flag `waitable`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Wait {
    /// The job's id. `null` stands for the first job that ends, and so do -1 and 64 set bits, which C
    /// clients send. Decoded by [`job`](Self::job), since Flux refuses a malformed id with its own
    /// message.
    pub id: Option<Value>,
}

impl Wait {
    /// Waits for this job, or for the first one that ends.
    pub fn new(id: Option<JobId>) -> Self {
        Self { id: id.map(|id| id.as_u64().into()) }
    }

    /// The job to wait for; `None` is the first one that ends.
    ///
    /// # Errors
    /// EPROTO for an id that is malformed.
    pub fn job(&self) -> Result<Option<JobId>, RpcError> {
        let id = match &self.id {
            None => return Ok(None),
            Some(id) if id.as_i64() == Some(-1) => return Ok(None),
            Some(id) => JobId::deserialize(id),
        };
        let id = id.map_err(|_| RpcError::proto("malformed wait request"))?;
        Ok(Some(id).filter(|id| id.as_u64() != u64::MAX))
    }
}

/// The response to [`Wait`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Ended {
    /// The job.
    pub id: Option<JobId>,
    /// Whether it succeeded.
    pub success: bool,
    /// How it ended, a sentence.
    pub errstr: String,
}

/// Removes inactive jobs that exceed a limit, starting with those that ended first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Purge {
    /// The maximum age in seconds; -1 is no limit.
    pub age_limit: f64,
    /// The maximum number of inactive jobs; -1 is no limit.
    pub num_limit: i64,
    /// The maximum number of jobs to remove, 1 to 100.
    pub batch: i64,
    /// Whether to remove the jobs, not only count them.
    pub force: bool,
}

impl Purge {
    pub(super) fn audit(&self) -> Option<Audited> {
        let event = Audited { event: "purge", fields: &["age_limit", "num_limit"] };
        self.force.then_some(event)
    }
}

/// Removes one inactive job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PurgeId {
    /// The job.
    pub id: JobId,
    /// Whether it is removed; otherwise the response only says whether it could be.
    #[serde(default, deserialize_with = "or_default")]
    pub force: bool,
}

impl PurgeId {
    pub(super) fn audit(&self) -> Option<Audited> {
        self.force.then_some(Audited { event: "purge", fields: &["id"] })
    }
}

/// The response to [`Purge`] and [`PurgeId`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Purged {
    /// The number of jobs that were removed, or could be.
    pub count: u64,
}

/// Asks for the events of all jobs as a stream, past events first. Each response has `id` and `events`,
/// and with the events `submit` and `alloc` also `jobspec` and `R`; the response with the id
/// [`NO_JOB`](Self::NO_JOB) marks the end of the past events.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventsJournal {
    /// Whether the events of inactive jobs are sent too.
    #[serde(default, deserialize_with = "or_default")]
    pub full: bool,
    /// An object whose keys are the names of the only events to be sent. Decoded by the handler, as is
    /// `deny`, since Flux refuses other values with its own message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Value>,
    /// An object whose keys are the names of events not to be sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny: Option<Value>,
}

impl EventsJournal {
    /// The id that no job has.
    pub const NO_JOB: u64 = u64::MAX;
}

/// Asks for the newest job's id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetInfo {}

/// The response to [`GetInfo`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Info {
    /// The highest id that was given to a job; 0 before the first one.
    pub max_jobid: u64,
}

/// Asks for the manager's statistics: an object of numbers, which `module stats` prints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetStats {}

/// Asks since when the manager has been running, and who owns it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetUptime {}

/// The response to [`GetUptime`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Uptime {
    /// When it was started, in seconds since the UNIX epoch.
    pub starttime: f64,
    /// Its owner.
    pub owner: Uid,
}

/// Restarts the manager.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Restart {}

/// The response to [`Restart`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Restarting {
    /// The manager's process, which stays the same.
    pub pid: Option<i32>,
}
