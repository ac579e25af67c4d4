//! `rexec.*`: commands that administrators run on the nodes, beside the jobs.
//!
//! The manager runs none of them: a client runs them itself, as its own user. It only asks whether it
//! may.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::service::Audited;

/// Announces that a command is about to run on nodes. The audit log records it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Announce {
    /// The nodes, an idset of their ranks.
    pub ranks: String,
    /// The command in readable form.
    pub command: String,
}

impl Announce {
    pub(super) fn audit(&self) -> Option<Audited> {
        Audited::new("exec", &["ranks", "command"])
    }
}
