//! `rexec.*`: commands that administrators run on the nodes, beside the jobs.
//!
//! Where all ranks are the manager's own host, a client runs them itself, as its own user, and only asks whether it may.
//! The commands on the other nodes of an allocation are run there, as the instance owner, in the manner of Flux's
//! subprocess protocol (RFC 42).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::service::Audited;
use crate::exec::nodes::{Command, Data, FromCommand};

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

/// Runs a command on the node of a rank. The responses tell what happens to it. It is killed when the client leaves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exec {
    /// The rank.
    pub rank: u32,
    /// The command.
    #[serde(rename = "cmd")]
    pub command: Command,
}

/// A response to [`Exec`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Happened {
    /// The command in requests that are about it.
    pub key: u64,
    /// What has happened.
    #[serde(flatten)]
    pub happened: FromCommand,
}

/// Sends input to a command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Write {
    /// The key of the command.
    pub key: u64,
    /// The input, in base64. There must be room for it: [`FromCommand::AddCredit`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
    /// Whether the input ends here.
    pub eof: bool,
}

/// Sends a signal to a command and the processes of its group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Kill {
    /// The key of the command.
    pub key: u64,
    /// The signal.
    pub signum: i32,
}
