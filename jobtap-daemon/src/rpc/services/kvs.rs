//! `kvs.*`: read access to the stored keys as a tree.

use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::payload::or_default;

/// Asks for the value of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lookup {
    /// The key, such as `checkpoint.job-manager`.
    pub key: String,
}

/// The response to [`Lookup`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Found {
    /// A value that is text.
    Text {
        /// The text.
        value: String,
    },
    /// A value that is not UTF-8.
    Bytes {
        /// The bytes in base64.
        base64: String,
    },
}

impl Found {
    /// The response that has this value.
    pub fn new(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(value) => Self::Text { value },
            Err(error) => Self::Bytes { base64: BASE64_STANDARD.encode(error.as_bytes()) },
        }
    }

    /// The value.
    ///
    /// # Errors
    /// Fails if the base64 is invalid.
    pub fn into_bytes(self) -> Result<Vec<u8>, base64::DecodeError> {
        match self {
            Self::Text { value } => Ok(value.into_bytes()),
            Self::Bytes { base64 } => BASE64_STANDARD.decode(base64),
        }
    }
}

/// Asks for the value of a key, and for each new value as it is stored, as a stream. Values that are stored in
/// quick succession may be left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Watch {
    /// The key.
    pub key: String,
    /// Whether to wait for a key that doesn't exist yet.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub waitcreate: bool,
}

/// Asks for the keys of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct List {
    /// The directory; `.` is the root.
    pub key: String,
    /// Whether to include the keys of all directories below it.
    #[serde(default, deserialize_with = "or_default")]
    pub recursive: bool,
}

/// The response to [`List`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Keys {
    /// Whole keys in byte order; those of directories end in a dot.
    pub keys: Vec<String>,
}

/// Writes everything that is stored into an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Dump {
    /// The file, an absolute path.
    pub file: PathBuf,
}

/// The response to [`Dump`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Dumped {
    /// The number of jobs that were written.
    pub jobs: u64,
    /// The number of keys that were written.
    pub keys: u64,
}
