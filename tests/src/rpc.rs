//! Requests as a client writes them that shares no code with jobtap's own.

use std::fmt::Display;

/// The version of the protocol between commands and manager.
pub const PROTOCOL: u64 = 2;

/// A request with one response, as it goes over the socket. `payload` is displayed as JSON.
#[must_use]
pub fn request(id: u64, topic: &str, payload: &dyn Display) -> String {
    let payload = payload.to_string();
    let size = payload.len();
    format!("{{\"id\":{id},\"topic\":\"{topic}\",\"size\":{size}}}\n{payload}")
}

/// A request for a stream of responses, as it goes over the socket. `payload` is displayed as JSON.
#[must_use]
pub fn stream(id: u64, topic: &str, payload: &dyn Display) -> String {
    let payload = payload.to_string();
    let size = payload.len();
    format!("{{\"id\":{id},\"topic\":\"{topic}\",\"size\":{size},\"stream\":true}}\n{payload}")
}
