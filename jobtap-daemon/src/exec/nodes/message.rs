//! What the hub learns from connections to nodes.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::admission::Pass;
use super::commands::Channel;
use super::wire::{Frame, NodeInfo};

/// A node's connection, as the hub has it. Dropping it closes the connection.
pub(super) struct Connection {
    /// Lines to the node.
    pub(super) outbox: UnboundedSender<Vec<u8>>,
    /// The work that reads from it.
    pub(super) reader: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// A number for the next connection.
pub(super) fn next_number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// What comes from nodes.
pub(super) enum Message {
    /// A node has connected. The connection is read once `begin` is sent, with the rank that the node has.
    Joined {
        number: u64,
        node: NodeInfo,
        /// By how many seconds its clock is ahead of this host's.
        ahead: f64,
        /// What a node of an allocation has shown.
        pass: Option<Pass>,
        connection: Connection,
        begin: oneshot::Sender<u32>,
    },
    /// A line of a node.
    Frame { rank: u32, number: u64, frame: Frame },
    /// A node has connected for a command.
    Command { number: u64, channel: Pin<Box<dyn Channel>> },
    /// A connection has ended.
    Left { number: u64 },
}

/// Why a node with another program is refused.
pub(super) fn other_program(version: &str) -> String {
    format!("it runs jobtap {version}, not the manager's program: use the same on all nodes")
}
