//! `config.*`: the configuration of the instance.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::service::Audited;

/// Asks for the configuration in force, which is the response. Guests get the tables about how jobs are treated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Get {}

/// Puts another configuration in force, which is the whole payload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Load(pub Value);

impl Load {
    pub(super) fn audit(&self) -> Option<Audited> {
        Audited::new("config-load", &[])
    }
}

/// The configuration is in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Loaded {
    /// Notes on settings that have no effect, or take effect only at the next start or when a plugin is reloaded.
    /// Settings that the previous configuration already had are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Reads the files and options of the start again, and puts the result in force.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reload {}

impl Reload {
    pub(super) fn audit(&self) -> Option<Audited> {
        Audited::new("config-reload", &[])
    }
}
