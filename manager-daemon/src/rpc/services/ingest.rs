//! `job-ingest.*`: submission.

use std::fmt;

use jobtap_core::job::JobId;
use jobtap_core::jobspec::Jobspec;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// Submits a job: `jobspec`, or a signed `J` in its place.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Submit {
    /// The jobspec, as an object or as its text. The text of an object is what is signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub jobspec: Option<SentJobspec>,
    /// A signed jobspec (RFC 16's `J`).
    #[serde(rename = "J", skip_serializing_if = "Option::is_none")]
    pub signed: Option<String>,
    /// 0 to 31, 16 if it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub urgency: Option<i64>,
    /// Bits of [`Flags`](jobtap_core::job::Flags).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flags: Option<u32>,
}

/// The jobspec of a [`Submit`].
///
/// The manager takes the text as it is, since that is what is signed, and decodes it once: it is by far the
/// largest part of most requests.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum SentJobspec {
    /// As a client makes it.
    Made(Value),
    /// As the manager receives it.
    Received(Box<RawValue>),
    /// As the manager has read it already.
    #[serde(serialize_with = "ReadJobspec::serialize")]
    Read(ReadJobspec),
}

/// A jobspec that was read, with its text.
#[derive(Debug, Clone)]
pub struct ReadJobspec {
    /// The text, which is what is signed.
    pub text: String,
    /// What it says.
    pub jobspec: Jobspec,
}

impl ReadJobspec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.jobspec.serialize(serializer)
    }
}

impl SentJobspec {
    /// The jobspec of a client, which may still change it.
    pub fn made(&mut self) -> Option<&mut Value> {
        match self {
            Self::Made(value) => Some(value),
            Self::Received(_) | Self::Read(_) => None,
        }
    }
}

impl From<Value> for SentJobspec {
    fn from(jobspec: Value) -> Self {
        Self::Made(jobspec)
    }
}

impl fmt::Display for SentJobspec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Made(value) => value.fmt(f),
            Self::Received(text) => f.write_str(text.get()),
            Self::Read(read) => f.write_str(&read.text),
        }
    }
}

impl<'de> Deserialize<'de> for SentJobspec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::Received)
    }
}

/// The response to [`Submit`], once the job's first events are stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Submitted {
    /// The new job.
    pub id: JobId,
    /// What plugins say to the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<String>,
}
