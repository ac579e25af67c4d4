//! The protocol between the commands and the daemon, used by both ends.
//!
//! One JSON object per line on a Unix stream socket. Topics and payloads are Flux's, so that what is
//! known about its services carries over; only the transport is our own.

pub mod errno;
pub mod message;
pub mod payload;
pub mod service;
pub mod services;
pub mod uri;

use serde_json::Value;

/// Version of the protocol. Both ends of a connection must have the same one.
pub const PROTOCOL: u64 = 1;

/// A request of more bytes than this is refused: it bounds what a client can make the manager hold.
pub const MAX_LINE: usize = 8 << 20;

/// Topic of the first request of a connection: the ends compare versions and agree on who asks.
pub const HELLO: &str = "hello";

/// A refusal: an errno and a sentence for the user.
///
/// It prints the sentence, or the errno's own text where there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcError {
    /// The errno that Flux answers with in this case.
    pub errno: i32,
    /// What is wrong; may be empty.
    pub text: String,
}

impl RpcError {
    /// A refusal with this errno and text.
    pub fn new(errno: i32, text: impl Into<String>) -> Self {
        Self { errno, text: text.into() }
    }

    /// A payload that can't be understood (EPROTO); `text` names the field.
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

/// What a request is answered with.
pub type RpcResult = Result<Value, RpcError>;
