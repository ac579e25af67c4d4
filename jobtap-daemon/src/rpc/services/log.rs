//! `log.*`: the manager's log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::payload::or_default;

/// Asks for the lines in memory. In a stream, each line is a response, and new lines follow as they
/// come.
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

/// Adds lines to the log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Append {
    /// The name to show in place of the manager's.
    pub appname: String,
    /// Their severity.
    #[serde(default)]
    pub severity: Severity,
    /// The rank of the node that they come from.
    #[serde(default)]
    pub rank: u32,
    /// The lines.
    pub text: String,
}

/// The severity of a line, as in syslog(3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The system is unusable.
    Emerg,
    /// Something must be done at once.
    Alert,
    /// A critical fault.
    Crit,
    /// A fault.
    Err,
    /// A warning.
    Warning,
    /// Normal but significant.
    #[default]
    Notice,
    /// For information.
    Info,
    /// For debugging.
    Debug,
}

impl Severity {
    /// All of them, the most severe first.
    pub const ALL: [Self; 8] = [
        Self::Emerg,
        Self::Alert,
        Self::Crit,
        Self::Err,
        Self::Warning,
        Self::Notice,
        Self::Info,
        Self::Debug,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Emerg => "emerg",
            Self::Alert => "alert",
            Self::Crit => "crit",
            Self::Err => "err",
            Self::Warning => "warning",
            Self::Notice => "notice",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

/// Removes the lines in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Clear {}
