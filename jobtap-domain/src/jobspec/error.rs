//! The error of all functions of this module. It names the place and what is expected there, because
//! its text is shown to the submitter.

use std::fmt;

use serde_json::Value;
use thiserror::Error;

/// Why a jobspec, a part of one, or an update of one was refused.
///
/// `Display` writes the message for the submitter. It is Flux's message where Flux has one for the
/// case, so that scripts can rely on it; otherwise it consists of the JSON path and what is expected
/// there. [`path`](Self::path) names the place in either case.
///
/// ```
/// use jobtap_core::jobspec::Jobspec;
///
/// let refused = Jobspec::parse(
///     r#"{"version":1, "resources":[{"type":"slot","count":0}], "tasks":[], "attributes":{}}"#,
/// );
/// let refused = refused.unwrap_err();
/// assert_eq!(refused.to_string(), "node, slot, or core count must be > 0");
/// assert_eq!(refused.path(), "resources[0]");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum JobspecError {
    /// The text isn't JSON. Contains the parser's message.
    #[error("invalid JSON: {0}")]
    Json(String),
    /// The JSON is not a version 1 jobspec (RFC 25).
    #[error("{text}")]
    Invalid {
        /// JSON path of the place, e.g. `resources[0].with[0]`; empty for the whole document.
        path: String,
        /// The message for the submitter.
        text: String,
    },
    /// The amounts of resources can't be determined from the `resources` section.
    #[error("{0}")]
    Counts(String),
    /// A dependency entry or URI is malformed (RFC 26).
    #[error("{0}")]
    Dependency(String),
    /// The options of the tools contradict each other.
    #[error("{0}")]
    Request(String),
    /// An update or attribute path can't be applied (RFC 21, `jobspec-update`).
    #[error("{}", located(.path, .text))]
    Update {
        /// The dotted path as given.
        path: String,
        /// Why it can't be set.
        text: String,
    },
}

impl JobspecError {
    /// The JSON path of the place, or the dotted path of the update; empty if there is neither.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Invalid { path, .. } | Self::Update { path, .. } => path,
            Self::Json(_) | Self::Counts(_) | Self::Dependency(_) | Self::Request(_) => "",
        }
    }

    /// What is wrong. For an update this doesn't include the path.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Invalid { text, .. } | Self::Update { text, .. } => text,
            Self::Json(text)
            | Self::Counts(text)
            | Self::Dependency(text)
            | Self::Request(text) => text,
        }
    }
}

fn located(path: &str, text: &str) -> String {
    if path.is_empty() || text.starts_with(path) {
        text.to_owned()
    } else {
        format!("{path}: {text}")
    }
}

/// A place in the document. It is linked to its parent on the stack, so that the path is only written
/// out if there is an error.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    Root,
    Key(&'a Place<'a>, &'a str),
    Index(&'a Place<'a>, usize),
}

impl<'a> Place<'a> {
    pub(super) fn key(&'a self, name: &'a str) -> Self {
        Self::Key(self, name)
    }

    pub(super) fn index(&'a self, index: usize) -> Self {
        Self::Index(self, index)
    }

    /// An error with a message of jobtap's own, prefixed with the path.
    pub(super) fn refuse(&self, text: impl AsRef<str>) -> JobspecError {
        let path = self.to_string();
        JobspecError::Invalid { text: located(&path, text.as_ref()), path }
    }

    /// An error with Flux's message, which is not changed.
    pub(super) fn error(&self, text: impl Into<String>) -> JobspecError {
        JobspecError::Invalid { path: self.to_string(), text: text.into() }
    }

    /// An error `PATH must be TYPE`, e.g. `a.b must be a string`.
    pub(super) fn must(&self, be: &str) -> JobspecError {
        let path = self.to_string();
        JobspecError::Invalid { text: format!("{path} must be {be}"), path }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Root => Ok(()),
            Place::Key(Place::Root, name) => f.write_str(name),
            Place::Key(parent, name) => write!(f, "{parent}.{name}"),
            Place::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// The name of a JSON value's type in messages.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "real",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_prepended_unless_it_is_there() {
        let system = Place::Root.key("attributes");
        let system = system.key("system");
        let duration = system.key("duration");
        assert_eq!(
            duration.must("a number").to_string(),
            "attributes.system.duration must be a number"
        );
        assert_eq!(duration.refuse("no").to_string(), "attributes.system.duration: no");
        assert_eq!(duration.error("no").to_string(), "no");
        assert_eq!(Place::Root.refuse("Missing key (tasks)").to_string(), "Missing key (tasks)");
        let resources = Place::Root.key("resources");
        let first = resources.index(0);
        let with = first.key("with");
        assert_eq!(with.index(2).refuse("x").path(), "resources[0].with[2]");
        assert_eq!(with.index(2).error("x").path(), "resources[0].with[2]");
    }
}
