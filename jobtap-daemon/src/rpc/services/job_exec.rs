//! `job-exec.*`: the tasks of a job.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jobtap_core::job::JobId;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::super::payload::or_default;
use crate::exec::TaskProcess;

/// Asks which processes the tasks of a running job are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Proctable {
    /// The job.
    pub id: JobId,
}

/// The response to [`Proctable`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Tasks {
    /// The tasks that run.
    #[schemars(with = "Vec<ListedTask>")]
    pub tasks: Vec<TaskProcess>,
}

/// The schema of a [`TaskProcess`].
#[derive(JsonSchema)]
#[schemars(rename = "TaskProcess")]
#[expect(dead_code, reason = "only its schema is used")]
struct ListedTask {
    /// The task's rank in the job.
    rank: u32,
    /// Its process id on its host.
    pid: i32,
}

/// Starts or ends a job whose execution is simulated and which was submitted to wait for this
/// request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Override {
    /// The job.
    pub jobid: JobId,
    /// `start` or `finish`.
    pub event: String,
    /// The wait status of `finish`, 0 if it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<i32>,
}

/// Writes to the standard input of a job's tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stdin {
    /// The job.
    pub id: JobId,
    /// The bytes; base64 on the wire.
    #[serde(default, serialize_with = "encoded", deserialize_with = "decoded")]
    #[schemars(with = "String", extend("contentEncoding" = "base64"))]
    pub data: Vec<u8>,
    /// Whether the input ends after these bytes.
    #[serde(default, deserialize_with = "or_default")]
    pub eof: bool,
    /// The task; without one, all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
}

/// Sets the size of the terminals of a job's tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Resize {
    /// The job.
    pub id: JobId,
    /// The lines.
    pub rows: u16,
    /// The characters in a line.
    pub columns: u16,
}

fn encoded<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&BASE64_STANDARD.encode(bytes))
}

fn decoded<'de, D: Deserializer<'de>>(field: D) -> Result<Vec<u8>, D::Error> {
    let text: Option<String> = Option::deserialize(field)?;
    BASE64_STANDARD.decode(text.unwrap_or_default()).map_err(serde::de::Error::custom)
}
