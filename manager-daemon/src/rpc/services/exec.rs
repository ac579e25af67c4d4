//! `rexec.*`: commands that administrators run on the nodes, beside the jobs.
//!
//! The manager runs none of them: a client does so itself, as its own user. It only asks whether it may.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::service::Audited;

/// Says that a command is about to be run for nodes. The audit log records it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Announce {
    /// The nodes, an idset of their ranks.
    pub ranks: String,
    /// The command, as people read it.
    pub command: String,
}

impl Announce {
    pub(super) fn audit(&self) -> Option<Audited> {
        Audited::new("exec", &["ranks", "command"])
    }
}
