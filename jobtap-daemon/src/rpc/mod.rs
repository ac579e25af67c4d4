//! The protocol between the commands and the daemon, used by both ends.
//!
//! Requests and responses go over a Unix stream socket in the form of `message`. Topics and payloads are those of Flux;
//! only the transport is our own. `services` is the table of all services with the types of their requests and
//! responses, `service` defines what a row contains, and `payload` decodes requests.

pub mod errno;
pub mod message;
pub mod openapi;
pub mod payload;
pub mod service;
pub mod services;
pub mod uri;

use serde_json::Value;

/// Version of the protocol. Both ends of a connection must have the same one.
pub const PROTOCOL: u64 = 2;

/// The maximum size of a request without its header, in bytes, unless it submits a job array. A larger one is refused, so
/// that a client can use only a bounded amount of the manager's memory.
pub const MAX_REQUEST: usize = 8 << 20;

/// The maximum size of a request that submits a job array, in bytes: room for a million names of files. The manager reads
/// one such request at a time.
pub const MAX_ARRAY: usize = 96 << 20;

/// The topic of the first request of a connection, in which the ends compare versions and agree on the
/// user.
pub const HELLO: &str = "hello";

/// A refusal: an error number and a sentence for the user.
///
/// It is displayed as the sentence, or as the text of the error number if the sentence is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcError {
    /// The error number that Flux responds with in this case.
    pub errno: i32,
    /// What is wrong. May be empty.
    pub text: String,
    /// Additional messages from plugins to the user.
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
