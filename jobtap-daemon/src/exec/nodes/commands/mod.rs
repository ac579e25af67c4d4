//! Commands that clients run on nodes outside of jobs, as `jobtap exec` does.
//!
//! Each command has a channel of its own between its node and the manager, so that output that its client doesn't read
//! holds up nothing else. Through it goes what the client sends and gets, in the terms of Flux's subprocess protocol
//! (RFC 42). The command ends with its channel.

mod manager;
mod node;

use std::collections::BTreeMap;
use std::io;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncBufRead;

pub(super) use self::manager::{Asked, Channel, Commands};
pub(super) use self::node::{answer, serve};
use super::wire::{self, Frame};
use crate::exec::data::{decode_data, encode_data};

/// The number of bytes of input that may wait for a command.
pub const CREDIT: usize = 1 << 20;

/// The command to run on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Command {
    /// The program and its arguments.
    pub cmdline: Vec<String>,
    /// Its whole environment. The manager sets the variables with its own address.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Its directory. Where it doesn't exist, the command runs in /tmp.
    pub cwd: String,
    /// Whether it gets an input. Without one it reads an empty file.
    #[serde(default)]
    pub input: bool,
}

/// What a client sends to its command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToCommand {
    /// Run it. Sent first, exactly once.
    Start(Command),
    /// More input.
    Input(Data),
    /// The end of the input.
    EndOfInput,
    /// A signal to the command and its processes.
    Signal(i32),
}

/// Bytes, in base64.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Data(String);

impl Data {
    /// Encodes bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self(encode_data(bytes))
    }

    /// The bytes.
    ///
    /// # Errors
    /// The text isn't base64.
    pub fn decode(&self) -> io::Result<Vec<u8>> {
        decode_data(&self.0).map_err(io::Error::other)
    }
}

/// An output of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Output {
    /// Its standard output.
    Stdout,
    /// Its standard error.
    Stderr,
}

/// What a client gets from its command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum FromCommand {
    /// It runs.
    Started {
        /// Its process id on its node.
        pid: u32,
    },
    /// It runs in another directory than its own.
    Elsewhere {
        /// Why its own can't be used: the system's number of the error.
        errno: i32,
        /// The directory in which it runs.
        directory: String,
    },
    /// It has printed something.
    Output {
        /// Where.
        stream: Output,
        /// What.
        data: Data,
    },
    /// It has taken input, so that there is room for as many bytes again. At first there is room for [`CREDIT`].
    AddCredit {
        /// The number of bytes.
        bytes: usize,
    },
    /// It has ended. All that it printed has been sent before.
    Finished {
        /// Its wait status.
        status: i32,
    },
    /// It could not be run, or its node is lost.
    Failed {
        /// The system's number of the error.
        errno: i32,
        /// The error in words, if the number doesn't say it.
        #[serde(default)]
        reason: String,
    },
}

impl FromCommand {
    /// Whether nothing follows.
    pub fn is_last(&self) -> bool {
        matches!(self, Self::Finished { .. } | Self::Failed { .. })
    }
}

/// Reads the next message; `None` at the end of the channel.
async fn next<T: DeserializeOwned>(
    from: &mut (impl AsyncBufRead + Unpin),
) -> io::Result<Option<T>> {
    match wire::read(from).await? {
        Some(Frame::Node(line)) => Ok(Some(serde_json::from_slice(&line)?)),
        Some(Frame::Shepherd(_)) => Err(io::ErrorKind::InvalidData.into()),
        None => Ok(None),
    }
}
