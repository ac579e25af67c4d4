//! `job-ingest.*`: submission.

use jobtap_core::job::JobId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Submits a job: `jobspec`, or a signed `J` in its place.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Submit {
    /// The jobspec, as an object or as its text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobspec: Option<Value>,
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

/// The response to [`Submit`], once the job's first events are stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Submitted {
    /// The new job.
    pub id: JobId,
    /// What plugins say to the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<String>,
}
