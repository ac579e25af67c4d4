//! The channel between manager and nodes, for fuzzers.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::wire::{Frame, FromNode, ToNode, node_line, read_first, to_shepherd};

/// The lines of a channel, each written again.
pub fn node_frames(bytes: &[u8]) -> Vec<u8> {
    let mut rest = bytes;
    let mut written = Vec::new();
    loop {
        // Bytes in memory are always there, so this never waits.
        let read = pin!(read_first(&mut rest)).poll(&mut Context::from_waker(Waker::noop()));
        match read {
            Poll::Ready(Ok(Some(Frame::Shepherd(line)))) => written.extend(to_shepherd(&line)),
            Poll::Ready(Ok(Some(Frame::Node(line)))) => {
                written.push(b'n');
                written.extend(line);
            }
            _ => return written,
        }
    }
}

/// A line from a node, written again.
pub fn from_node(line: &[u8]) -> Option<Vec<u8>> {
    again::<FromNode>(line)
}

/// A line to a node, written again.
pub fn to_node(line: &[u8]) -> Option<Vec<u8>> {
    again::<ToNode>(line)
}

fn again<T: DeserializeOwned + Serialize>(line: &[u8]) -> Option<Vec<u8>> {
    let message: T = serde_json::from_slice(line).ok()?;
    let frame = node_line(&message);
    // Without the letter that says for whom it is.
    frame.get(1..).map(<[u8]>::to_vec)
}
