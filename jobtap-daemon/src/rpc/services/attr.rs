//! `attr.*`: the attributes of the manager, by the names of Flux's broker attributes, and `shutdown.start`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::payload::or_default;
use super::super::service::Audited;

/// Asks for the value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Get {
    /// Its name, such as `size`.
    pub name: String,
}

/// The response to [`Get`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Found {
    /// The value.
    pub value: String,
}

/// Sets an attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Set {
    /// Its name.
    pub name: String,
    /// Its new value.
    pub value: String,
}

impl Set {
    pub(super) fn audit(&self) -> Option<Audited> {
        Audited::new("setattr", &["name", "value"])
    }
}

/// Asks for the names of all attributes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct List {}

/// The response to [`List`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Names {
    /// The names in byte order.
    pub names: Vec<String>,
}

/// Ends the manager.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Shutdown {
    /// An archive to write at the end, an absolute path.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub dump: Option<PathBuf>,
}

impl Shutdown {
    pub(super) fn audit(&self) -> Option<Audited> {
        Audited::new("shutdown", &["dump"])
    }
}

/// The response to [`Shutdown`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Ending {
    /// The process of the manager, which is about to exit.
    pub pid: Option<i32>,
}
