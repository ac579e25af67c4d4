//! One error type for everything that can be wrong with a jobspec: it names the place and says what
//! is expected there, because its text is what the submitter reads.

use std::fmt;

use serde_json::Value;
use thiserror::Error;

/// Why a jobspec, a part of one, or an update of one was refused.
///
/// The `Display` text is the message for the submitter: Flux's own words where Flux has a message for
/// the case, so that what looks for them finds them; else the JSON path of the place and what is
/// expected there. [`path`](Self::path) names the place in either case.
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
    /// The text is no JSON; holds the parser's message.
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
    /// The `resources` section doesn't say how much is asked for.
    #[error("{0}")]
    Counts(String),
    /// A dependency entry or URI is malformed (RFC 26).
    #[error("{0}")]
    Dependency(String),
    /// The tools' options contradict each other, so that no jobspec can be built from them.
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
    /// The JSON path of the place, or the dotted path of the update; empty where there is none.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Invalid { path, .. } | Self::Update { path, .. } => path,
            Self::Json(_) | Self::Counts(_) | Self::Dependency(_) | Self::Request(_) => "",
        }
    }

    /// What is wrong; of an update, without the path.
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

/// A place in the document, linked to its parent on the stack so that a path is only spelled out
/// when something is wrong there.
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

    /// The refusal of this place in our own words, which begin with the place.
    pub(super) fn refuse(&self, text: impl AsRef<str>) -> JobspecError {
        let path = self.to_string();
        JobspecError::Invalid { text: located(&path, text.as_ref()), path }
    }

    /// The refusal of this place in the words that Flux has for it.
    pub(super) fn says(&self, text: impl Into<String>) -> JobspecError {
        JobspecError::Invalid { path: self.to_string(), text: text.into() }
    }

    /// The refusal of this place whose text begins with its path, e.g. `a.b must be a string`.
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

/// The name that messages give to the type of a JSON value.
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
    fn the_path_stands_in_front_unless_the_text_begins_with_it() {
        let system = Place::Root.key("attributes");
        let system = system.key("system");
        let duration = system.key("duration");
        assert_eq!(
            duration.must("a number").to_string(),
            "attributes.system.duration must be a number"
        );
        assert_eq!(duration.refuse("no").to_string(), "attributes.system.duration: no");
        assert_eq!(duration.says("no").to_string(), "no");
        assert_eq!(Place::Root.refuse("Missing key (tasks)").to_string(), "Missing key (tasks)");
        let resources = Place::Root.key("resources");
        let first = resources.index(0);
        let with = first.key("with");
        assert_eq!(with.index(2).refuse("x").path(), "resources[0].with[2]");
        assert_eq!(with.index(2).says("x").path(), "resources[0].with[2]");
    }
}
