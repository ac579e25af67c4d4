//! The errors of this module, one enum for each format. Callers can tell a text that is too large from
//! a malformed one, as RFC 22 and RFC 29 do.

use thiserror::Error;

/// Why a text isn't an idset (RFC 22).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IdsetError {
    /// An item is neither a decimal id without leading zeros nor a range of two such ids.
    #[error("error parsing range '{0}'")]
    Item(String),
    /// An item doesn't start above the one before it, or a range doesn't rise.
    #[error("range '{0}' is out of order")]
    Order(String),
    /// Brackets don't enclose the whole text exactly once.
    #[error("mismatched or nested brackets")]
    Brackets,
    /// An id is above 2147483647.
    #[error("set universe size would exceed maximum")]
    TooLarge,
}

/// Why a text isn't a hostlist (RFC 29).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HostlistError {
    /// Brackets of an item are unbalanced, nested, or there is a second group.
    #[error("'{0}': mismatched, nested or repeated brackets")]
    Brackets(String),
    /// A bracketed item is neither a number nor a rising range of numbers.
    #[error("'{item}': error parsing range '{range}'")]
    Range {
        /// The whole item, such as `foo[3-1]`.
        item: String,
        /// The part of its brackets that is wrong.
        range: String,
    },
    /// A name is empty or has a character that no host name can have.
    #[error("'{0}': not a host name")]
    Name(String),
    /// A range, a bracket or the expanded names exceed the format's limits.
    #[error("'{0}': too many hosts in one range or too many items in one bracket")]
    TooLarge(String),
}

/// Why a resource set (R, RFC 20) was refused.
///
/// The messages are Flux's. Where Flux doesn't name the place, the path of the value comes first.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ResourceError {
    /// The text isn't JSON.
    #[error("invalid JSON: {0}")]
    Json(String),
    /// A required key is absent.
    #[error("{}Object item not found: {key}", prefix(.path))]
    Missing {
        /// Path of the object that lacks the key; empty for R itself.
        path: String,
        /// The absent key.
        key: &'static str,
    },
    /// A value has the wrong JSON type.
    #[error("{}Expected {expected}, got {found}", prefix(.path))]
    Type {
        /// Path of the value; empty for R itself.
        path: String,
        /// The JSON type that RFC 20 asks for.
        expected: &'static str,
        /// The JSON type that was found.
        found: &'static str,
    },
    /// A number is outside the range that its key allows.
    #[error("{path}: {rule}, got {found}")]
    Number {
        /// Path of the value.
        path: String,
        /// What the value must be.
        rule: &'static str,
        /// The value found.
        found: String,
    },
    /// R's version isn't 1.
    #[error("invalid version={0}")]
    Version(i64),
    /// An idset in R is malformed.
    #[error("{path}: invalid idset '{text}': {source}")]
    Idset {
        /// Path of the value.
        path: String,
        /// The text found.
        text: String,
        /// What is wrong with it.
        source: IdsetError,
    },
    /// A hostlist in R is malformed.
    #[error("{path}: invalid hostlist: {source}")]
    Hostlist {
        /// Path of the value.
        path: String,
        /// What is wrong with it.
        source: HostlistError,
    },
    /// The host names and the ranks can't be paired.
    #[error("execution.nodelist: {hosts} hosts for {ranks} ranks, give one host per rank")]
    HostCount {
        /// The number of hosts in `nodelist`.
        hosts: usize,
        /// The number of ranks in `R_lite`.
        ranks: usize,
    },
    /// The expiration is not after the start time.
    #[error("execution.expiration: {expiration} is not after starttime {starttime}")]
    Times {
        /// Start, seconds since the UNIX epoch.
        starttime: f64,
        /// End, seconds since the UNIX epoch.
        expiration: f64,
    },
    /// `properties` isn't an object.
    #[error("properties must be an object")]
    Properties,
    /// The value of a property isn't a string.
    #[error("properties value '{0}' not a string")]
    PropertyValue(String),
    /// A property's name has a character that constraints reserve.
    #[error("invalid character '{character}' in property \"{property}\"")]
    PropertyName {
        /// The reserved character.
        character: char,
        /// The name it occurs in.
        property: String,
    },
    /// The ranks of a property aren't an idset.
    #[error("invalid idset '{idset}' specified for property \"{property}\"")]
    PropertyRanks {
        /// The text found.
        idset: String,
        /// The property's name.
        property: String,
    },
    /// The set doesn't have these ranks.
    #[error("ranks {0} not found in target resource list")]
    UnknownRanks(String),
    /// Resources to append are in the set already.
    #[error("resources {0} are in the set already")]
    Overlap(String),
    /// [`ResourceSet::rerank`](super::ResourceSet::rerank) was given fewer hosts than nodes.
    #[error("Number of hosts ({hosts}) is less than node count ({nodes})")]
    TooFewHosts {
        /// The number of hosts that were given.
        hosts: usize,
        /// The number of nodes in the set.
        nodes: usize,
    },
    /// [`ResourceSet::rerank`](super::ResourceSet::rerank) was given more hosts than nodes.
    #[error("Number of hosts ({hosts}) is greater than node count ({nodes})")]
    TooManyHosts {
        /// The number of hosts that were given.
        hosts: usize,
        /// The number of nodes in the set.
        nodes: usize,
    },
    /// A host given to [`ResourceSet::rerank`](super::ResourceSet::rerank) isn't in the set.
    #[error("Host {0} not found in resources")]
    UnknownHost(String),
}

/// The start of a message: the path of the value, or nothing for R itself.
fn prefix(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("{path}: ") }
}
