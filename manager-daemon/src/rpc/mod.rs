//! The protocol between the commands and the daemon, used by both ends.
//!
//! A message is one JSON object on one line of a Unix stream socket (`message`). Topics and payloads are
//! those of Flux; only the transport is our own. `services` is the table of all services with the types of
//! their requests and responses, `service` says what a row has, and `payload` decodes requests that were
//! `received`.

pub mod errno;
pub mod message;
pub mod openapi;
pub mod payload;
pub(crate) mod received;
pub mod service;
pub mod services;
pub mod uri;

use serde_json::Value;

/// Version of the protocol. Both ends of a connection must have the same one.
pub const PROTOCOL: u64 = 1;

/// The longest request in bytes. A longer one is refused, so that a client can use a bounded amount of the
/// manager's memory only.
pub const MAX_LINE: usize = 8 << 20;

/// The topic of the first request of a connection, by which the ends compare versions and agree on the
/// user.
pub const HELLO: &str = "hello";

/// A refusal: an error number and a sentence for the user.
///
/// It prints the sentence, or the text of the error number if the sentence is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcError {
    /// The error number that Flux responds with in this case.
    pub errno: i32,
    /// What is wrong. May be empty.
    pub text: String,
    /// What plugins say to the user beside it.
    pub messages: Vec<String>,
}

impl RpcError {
    /// A refusal with this error number and text.
    pub fn new(errno: i32, text: impl Into<String>) -> Self {
        Self { errno, text: text.into(), messages: Vec::new() }
    }

    /// The refusal of a malformed payload (EPROTO). `text` names the field.
    pub fn proto(text: impl Into<String>) -> Self {
        Self::new(errno::EPROTO, text)
    }
}

impl std::fmt::Display for RpcError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.text.is_empty() {
            f.write_str(&errno::strerror(self.errno))
        } else {
            f.write_str(&self.text)
        }
    }
}

impl std::error::Error for RpcError {}

/// The result of a request.
pub type RpcResult = Result<Value, RpcError>;
