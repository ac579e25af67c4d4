//! What goes through the channel between the manager and a node: the lines of the shepherd's protocol, and lines between
//! the manager and the node itself.
//!
//! A line begins with the letter that says for whom it is. A node passes the shepherd's lines on as they are.

use std::io;

use jobtap_core::job::JobId;
use jobtap_core::resource::Idset;
use serde::{Deserialize, Serialize};

use super::admission::Pass;
use super::plugin_processes::{Happening, Order};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

/// The version of these lines. Nodes of another version are refused: all nodes of an instance run the same program.
pub(super) const VERSION: u32 = 1;

/// The longest line, in bytes. The longest is the start of a job: its command, environment and files.
const LONGEST: u64 = 64 << 20;

/// The longest line of a node that hasn't joined yet.
const LONGEST_FIRST: u64 = 64 << 10;

const SHEPHERD: u8 = b's';
const NODE: u8 = b'n';

/// What a node has for jobs, as it says when it joins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// Its rank in the instance.
    pub rank: u32,
    /// Its name.
    pub host: String,
    /// Its cores.
    pub cores: Idset,
    /// Its GPUs.
    pub gpus: Idset,
    /// Its version of jobtap.
    pub program: String,
    /// The address at which its tasks reach the manager, if it isn't the manager's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
}

/// A line from a node itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub(super) enum FromNode {
    /// What a node of an allocation shows before the first line of each connection.
    Pass(Pass),
    /// The first line of a connection that is a client's.
    Client { version: u32 },
    /// The first line of a connection for the command with this number.
    Command { version: u32, number: u64 },
    /// The first line, with the time by the node's clock (UNIX seconds).
    Join {
        version: u32,
        node: NodeInfo,
        #[serde(default)]
        time: f64,
    },
    /// The output of a job's tasks from this offset on: whole entries of `guest.output`.
    Output { id: JobId, at: u64, text: String },
    /// What has happened to a process of a plugin. These are numbered, and kept until the manager confirms them.
    Process { seq: u64, key: u64, happening: Happening },
    /// The response to [`ToNode::Ping`].
    Pong,
    /// The outer job manager has told this node of an allocation to end.
    Leaving,
}

/// A line to a node itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub(super) enum ToNode {
    /// The node has joined, and its shepherd's lines follow.
    Welcome,
    /// The node can't join.
    Refused { reason: String },
    /// Send the output of this job from this offset on.
    Follow { id: JobId, from: u64 },
    /// The output of this job isn't needed any more.
    Unfollow { id: JobId },
    /// Run a process of a plugin, unless it is known.
    Run { key: u64, order: Order },
    /// Connect for a command of a client, with this number.
    Command { number: u64 },
    /// Send a signal to a process of a plugin.
    SignalProcess { key: u64, signum: i32 },
    /// These are the processes that the manager waits for; others are killed. What has happened since `seen` is to be said
    /// again.
    Processes { seen: u64, keys: Vec<u64> },
    /// The manager has what has happened up to this number.
    Seen { seq: u64 },
    /// Respond, to show that the channel works.
    Ping,
    /// The instance ends.
    End,
}

/// A line.
#[derive(Debug, PartialEq)]
pub(super) enum Frame {
    /// For the shepherd, or from it, with its newline.
    Shepherd(Vec<u8>),
    /// For the node, or from it.
    Node(Vec<u8>),
}

/// Encodes a line of the shepherd's protocol, which has a newline already.
pub(super) fn to_shepherd(line: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(line.len() + 1);
    frame.push(SHEPHERD);
    frame.extend_from_slice(line);
    frame
}

/// Encodes a line to a node or from it.
pub(super) fn node_line(message: &impl Serialize) -> Vec<u8> {
    let mut frame = vec![NODE];
    // Can't fail: these types have no maps, and writing to a vector succeeds.
    let _ = serde_json::to_writer(&mut frame, message);
    frame.push(b'\n');
    frame
}

/// Reads the next line; `None` at the end of the channel.
///
/// # Errors
/// The channel is broken, or what came isn't a line.
pub(super) async fn read(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Frame>> {
    read_up_to(from, LONGEST).await
}

/// As [`read`], for the first line.
pub(super) async fn read_first(
    from: &mut (impl AsyncBufRead + Unpin),
) -> io::Result<Option<Frame>> {
    read_up_to(from, LONGEST_FIRST).await
}

async fn read_up_to(
    from: &mut (impl AsyncBufRead + Unpin),
    longest: u64,
) -> io::Result<Option<Frame>> {
    let mut line = Vec::new();
    if from.take(longest).read_until(b'\n', &mut line).await? == 0 {
        return Ok(None);
    }
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    if line.last() != Some(&b'\n') {
        return match line.len() as u64 >= longest {
            true => Err(invalid()),
            // The other end died while it wrote.
            false => Ok(None),
        };
    }
    match line.first() {
        Some(&SHEPHERD) => Ok(Some(Frame::Shepherd(line.split_off(1)))),
        Some(&NODE) => Ok(Some(Frame::Node(line.split_off(1)))),
        _ => Err(invalid()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(bytes: &[u8]) -> (Vec<Frame>, bool) {
        let mut reader = bytes;
        let mut frames = Vec::new();
        let read = async {
            while let Some(frame) = read_first(&mut reader).await? {
                frames.push(frame);
            }
            Ok::<_, io::Error>(())
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let ok = runtime.block_on(read).is_ok();
        (frames, ok)
    }

    #[test]
    fn lines_are_told_apart_and_an_unfinished_one_is_dropped() {
        let mut bytes = to_shepherd(b"{\"op\":\"list\"}\n");
        bytes.extend(node_line(&ToNode::Ping));
        bytes.extend(b"s{\"op\":");
        let frames = [
            Frame::Shepherd(b"{\"op\":\"list\"}\n".to_vec()),
            Frame::Node(b"{\"op\":\"ping\"}\n".to_vec()),
        ];
        assert_eq!(all(&bytes), (frames.into(), true));
    }

    #[test]
    fn what_is_no_line_is_an_error() {
        assert_eq!(all(b"GET / HTTP/1.1\r\n"), (Vec::new(), false));
        assert_eq!(all(&vec![b's'; LONGEST_FIRST as usize + 1]), (Vec::new(), false));
        assert_eq!(all(b"\n"), (Vec::new(), false));
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_reader(bytes: Vec<u8>) {
            let (frames, _) = all(&bytes);
            let used: usize = frames.iter().map(|frame| match frame {
                Frame::Shepherd(line) | Frame::Node(line) => line.len() + 1,
            }).sum();
            prop_assert!(used <= bytes.len());
        }

        #[test]
        fn an_output_comes_as_it_was_sent(id: u64, at: u64, text: String) {
            let message = FromNode::Output { id: JobId::new(id), at, text };
            let (frames, ok) = all(&node_line(&message));
            prop_assert!(ok);
            let Some(Frame::Node(line)) = frames.first() else { panic!("no line") };
            prop_assert_eq!(serde_json::from_slice::<FromNode>(line).unwrap(), message);
        }
    }
}
