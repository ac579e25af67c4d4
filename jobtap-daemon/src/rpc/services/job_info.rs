//! `job-info.*`: the stored data of a job.

use jobtap_core::job::JobId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::super::payload::or_default;

/// Asks for stored values of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lookup {
    /// The job.
    pub id: JobId,
    /// Keys below the job's directory, such as `jobspec`.
    pub keys: Vec<String>,
    /// [`CURRENT`](Self::CURRENT) or 0.
    #[serde(default, deserialize_with = "or_default")]
    pub flags: u64,
}

impl Lookup {
    /// In `flags`: `jobspec` and `R` with all later updates, not as first stored.
    pub const CURRENT: u64 = 2;

    /// Asks for one value as it was stored.
    pub fn key(id: JobId, key: impl Into<String>) -> Self {
        Self { id, keys: vec![key.into()], flags: 0 }
    }

    /// Asks for these values with all later updates.
    pub fn current(self) -> Self {
        Self { flags: Self::CURRENT, ..self }
    }

    /// Whether later updates are wanted.
    pub fn is_current(&self) -> bool {
        self.flags & Self::CURRENT != 0
    }
}

/// The response to [`Lookup`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Values {
    /// The job.
    pub id: JobId,
    /// The values as text, by key, in the order of the request.
    #[serde(flatten)]
    pub values: Map<String, Value>,
}

impl Values {
    /// The value of a key; empty if it was not asked for.
    pub fn get(&self, key: &str) -> &str {
        self.values.get(key).and_then(Value::as_str).unwrap_or_default()
    }
}

/// Asks for an eventlog of a job and for what is appended to it, as a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Watch {
    /// The job.
    pub id: JobId,
    /// The key of the log, such as `eventlog` or `guest.output`.
    pub path: String,
    /// [`WAITCREATE`](Self::WAITCREATE), [`INITIAL_SENTINEL`](Self::INITIAL_SENTINEL), the sum of both, or
    /// 0.
    #[serde(default, deserialize_with = "or_default")]
    pub flags: u64,
    /// Whether the lines come as [`Event::events`], many in one response.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub batch: bool,
    /// The names of the events to send, at most [`MOST_NAMES`](Self::MOST_NAMES); all if it is empty. A client that only
    /// waits for the ends of many jobs needs no other events of them. It has no effect on `guest.output` and
    /// `guest.input`.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
}

impl Watch {
    /// In `flags`: wait for a log that does not exist yet.
    pub const WAITCREATE: u64 = 1;
    /// In `flags`: send an empty response after the lines that already exist.
    pub const INITIAL_SENTINEL: u64 = 2;
    /// The maximum number of names in `only`, with which each event is compared.
    pub const MOST_NAMES: usize = 32;

    /// A request for all events of a log, one in each response.
    pub fn new(id: JobId, path: &str, flags: u64) -> Self {
        Self { id, path: path.to_owned(), flags, batch: false, only: Vec::new() }
    }
}

/// One response to [`Watch`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Event {
    /// A line of the log.
    pub event: String,
    /// Lines of the log, which are JSON, in place of `event` if the request asks for batches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Value>,
}
