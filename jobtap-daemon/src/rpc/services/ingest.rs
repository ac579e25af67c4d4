//! `job-ingest.*`: submission.

use jobtap_core::array::Elements;
use jobtap_core::job::JobId;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
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
    /// 0 to 31, 16 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub urgency: Option<i64>,
    /// Bits of [`Flags`](jobtap_core::job::Flags).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flags: Option<u32>,
}

impl Submit {
    /// Takes the jobspec out, as text.
    pub(super) fn take_jobspec(&mut self) -> Option<String> {
        self.jobspec.take().map(SentJobspec::into_text)
    }
}

/// Submits a job array: jobs that share what [`Submit`] has, and differ in a few texts.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SubmitArray {
    /// What the elements share.
    #[serde(flatten)]
    pub submit: Submit,
    /// The elements.
    pub elements: Elements,
}

impl SubmitArray {
    /// Takes the jobspec out, as text.
    pub(super) fn take_jobspec(&mut self) -> Option<String> {
        self.submit.take_jobspec()
    }
}

/// The jobspec of a [`Submit`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum SentJobspec {
    /// As a client makes it.
    Made(Value),
    /// As the manager receives it. It takes the text as it is, since that is what is signed, and decodes it once: it is
    /// by far the largest part of most requests.
    Text(String),
}

impl SentJobspec {
    /// The jobspec of a client, which may still change it.
    pub fn made(&mut self) -> Option<&mut Value> {
        match self {
            Self::Made(value) => Some(value),
            Self::Text(_) => None,
        }
    }

    /// The text, which is what is signed.
    pub fn into_text(self) -> String {
        match self {
            Self::Made(Value::String(text)) | Self::Text(text) => text,
            Self::Made(value) => value.to_string(),
        }
    }
}

impl From<Value> for SentJobspec {
    fn from(jobspec: Value) -> Self {
        Self::Made(jobspec)
    }
}

impl<'de> Deserialize<'de> for SentJobspec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let sent = <Box<RawValue>>::deserialize(deserializer)?;
        let text: Box<str> = sent.into();
        if !text.starts_with('"') {
            return Ok(Self::Text(text.into_string()));
        }
        serde_json::from_str(&text).map(Self::Text).map_err(D::Error::custom)
    }
}

/// The response to [`Submit`] and [`SubmitArray`], once the first events are stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Submitted {
    /// The new job, or the new array.
    pub id: JobId,
    /// Messages from plugins to the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<String>,
}
