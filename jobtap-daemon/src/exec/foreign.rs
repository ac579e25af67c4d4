//! Lines between manager and shepherd, for fuzzers.

use super::protocol::{decode_message, decode_request, encode};

/// A request of a manager, written again.
pub fn shepherd_request(line: &[u8]) -> Option<Vec<u8>> {
    encode(&decode_request(line).ok()?).ok()
}

/// A message of a shepherd, written again.
pub fn shepherd_message(line: &[u8]) -> Option<Vec<u8>> {
    encode(&decode_message(line).ok()?).ok()
}
