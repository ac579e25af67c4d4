//! `log.*`: the manager's log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::payload::or_default;

/// Asks for the lines in memory. As a stream: for each of them, and then for new ones as they come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Dmesg {
    /// Whether a stream has only new lines.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub nobacklog: bool,
}

/// A response to [`Dmesg`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Shown {
    /// The only response.
    All {
        /// The lines, the oldest first.
        lines: Vec<Line>,
    },
    /// One response of a stream.
    One(Line),
}

impl Shown {
    /// The lines of the response.
    pub fn into_lines(self) -> Vec<Line> {
        match self {
            Self::All { lines } => lines,
            Self::One(line) => vec![line],
        }
    }
}

/// A line of the log.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Line {
    /// When it was written, in seconds since the UNIX epoch.
    pub timestamp: f64,
    /// `SERVICE.SEVERITY[RANK]: MESSAGE`.
    pub text: String,
}

/// Removes the lines in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Clear {}
