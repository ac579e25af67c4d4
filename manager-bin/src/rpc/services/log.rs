//! `log.*`: the manager's log.

use serde::{Deserialize, Serialize};

use super::super::payload::or_default;

/// Asks for the lines in memory. As a stream: for each of them, and then for new ones as they come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dmesg {
    /// Whether a stream has only new lines.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub nobacklog: bool,
}

/// The answer to [`Dmesg`]; in a stream each answer is a [`Line`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lines {
    /// The lines, the oldest first.
    pub lines: Vec<Line>,
}

/// A line of the log.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Line {
    /// When it was written, in seconds since the UNIX epoch.
    pub timestamp: f64,
    /// `SERVICE.SEVERITY[RANK]: MESSAGE`.
    pub text: String,
}

/// Removes the lines in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clear {}
