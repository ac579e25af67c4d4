//! Why the tables `[[allocation]]` are refused: each error names the key.

use crate::job::FsdError;
use crate::resource::ResourceError;

/// Why the tables can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// `allocation` is not an array of tables.
    #[error("allocation: must be an array of tables, each written as [[allocation]]")]
    NotTables,
    /// A table has a key that doesn't exist.
    #[error("{key}: there is no such key{}", meant(.nearest.as_deref()))]
    UnknownKey {
        /// The key, such as `allocation[0].node`.
        key: String,
        /// The key that was probably meant.
        nearest: Option<String>,
    },
    /// A required key is absent.
    #[error("{key}: is missing: {why}")]
    Missing {
        /// The key.
        key: String,
        /// What it says.
        why: &'static str,
    },
    /// The value has another type.
    #[error("{key}: {reason}")]
    Type {
        /// The key.
        key: String,
        /// The types that were found and expected.
        reason: serde_json::Error,
    },
    /// A number is too small or too large.
    #[error("{key}: {value} is not in the range from {least} to {most}")]
    Range {
        /// The key.
        key: String,
        /// What is there.
        value: u64,
        /// The smallest number that is allowed.
        least: u32,
        /// The largest one.
        most: u32,
    },
    /// A duration can't be read, or isn't a finite time above zero.
    #[error("{key}: {reason}")]
    NoDuration {
        /// The key.
        key: String,
        /// What is wrong.
        reason: FsdError,
    },
    /// A duration is zero or infinite.
    #[error("{key}: must be a time above zero, such as \"4h\"")]
    NoTime {
        /// The key.
        key: String,
    },
    /// A number of core hours is zero, negative or no number.
    #[error("{key}: must be a number above zero")]
    NotAboveZero {
        /// The key.
        key: String,
    },
    /// The cap is below what a single allocation has.
    #[error(
        "{key}: {most} is less than the {needed} core hours of one allocation, so that none could be asked for"
    )]
    CapBelowOne {
        /// The key.
        key: String,
        /// The cap.
        most: f64,
        /// The core hours of an allocation of the full time limit.
        needed: f64,
    },
    /// `min` is greater than `max`.
    #[error("{key}: {min} is more than max, which is {max}")]
    MinAboveMax {
        /// The key.
        key: String,
        /// The smallest number of allocations.
        min: u32,
        /// The largest one.
        max: u32,
    },
    /// The name can't be that of a table.
    #[error(
        "{key}: {name:?} can't be a name: it has to begin with a letter and to consist of at most 60 letters, digits, \
         hyphens and underscores"
    )]
    Name {
        /// The key.
        key: String,
        /// The name.
        name: String,
    },
    /// Two tables have the same name.
    #[error("{key}: allocation[{other}] is called {name:?} too: give each table a name of its own")]
    SameName {
        /// The key.
        key: String,
        /// The name.
        name: String,
        /// The index of the other table.
        other: usize,
    },
    /// `command` without `engine = "command"`, or that engine without a command.
    #[error("{key}: belongs to engine = \"command\", and is needed there")]
    Command {
        /// The key.
        key: String,
    },
    /// A property can't be that of a node.
    #[error("{key}: {reason}")]
    Property {
        /// The key.
        key: String,
        /// What is wrong.
        reason: ResourceError,
    },
    /// The tables have more nodes than an instance can have.
    #[error("{key}: with this table there are {nodes} nodes, and at most {most} are possible")]
    TooManyNodes {
        /// The table.
        key: String,
        /// The nodes of this table and those before it.
        nodes: u64,
        /// The largest number.
        most: u32,
    },
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map(|key| format!("; did you mean {key}?")).unwrap_or_default()
}
