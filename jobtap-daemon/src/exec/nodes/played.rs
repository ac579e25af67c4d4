//! Nodes that are played, for benchmarks: they join over the network as others do, and their shepherds say that each part
//! of a job has started and ended at once.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use jobtap_core::engine::ExecEvent;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::sync::Semaphore;

use super::channel::MOST_OF_ADDRESS;
use super::dial::Manager;
use super::identity::Identity;
use super::node::NodeError;
use super::wire::{Frame, FromNode, NodeInfo, ToNode, VERSION, node_line, read, to_shepherd};
use crate::clock::now;
use crate::exec::protocol::{
    ShepherdMessage, ShepherdRequest, VERSION as SHEPHERD, decode_request, encode,
};

/// Plays these nodes until the instance ends.
///
/// # Errors
/// The identity can't be used, the manager can't be reached, or it refuses a node.
pub async fn play(
    address: SocketAddr,
    identity: &Identity,
    nodes: Vec<NodeInfo>,
) -> Result<(), NodeError> {
    let manager = Manager::new(address, identity, None)?;
    let mut playing = tokio::task::JoinSet::new();
    // The manager limits how many unknown connections it takes from one address, and all nodes have the same.
    let connecting = Arc::new(Semaphore::new(MOST_OF_ADDRESS));
    for node in nodes {
        let (manager, connecting) = (manager.clone(), Arc::clone(&connecting));
        playing.spawn(async move {
            let gone = |reason| NodeError::Gone { address, seconds: 0, reason };
            play_one(&manager, &connecting, node).await.map_err(gone)
        });
    }
    while let Some(ended) = playing.join_next().await {
        // None of them panics or is aborted.
        ended.unwrap_or(Ok(()))?;
    }
    Ok(())
}

async fn play_one(manager: &Manager, connecting: &Semaphore, node: NodeInfo) -> io::Result<()> {
    let place = connecting.acquire().await.map_err(io::Error::other)?;
    let (read_half, mut write) = tokio::io::split(manager.connect().await?);
    let mut lines = BufReader::new(read_half);
    write
        .write_all(&node_line(&FromNode::Join { version: VERSION, node, time: now().as_secs() }))
        .await?;
    write.flush().await?;
    let mut place = Some(place);
    while let Some(frame) = read(&mut lines).await? {
        // The manager knows it now.
        place.take();
        let answer = match frame {
            Frame::Node(line) => match serde_json::from_slice(&line)? {
                ToNode::Ping => node_line(&FromNode::Pong),
                ToNode::Refused { reason } => return Err(io::Error::other(reason)),
                ToNode::End => return Ok(()),
                _ => continue,
            },
            Frame::Shepherd(line) => answer_of_shepherd(&line)?,
        };
        write.write_all(&answer).await?;
        write.flush().await?;
    }
    Ok(())
}

/// What a shepherd says whose tasks take no time.
fn answer_of_shepherd(line: &[u8]) -> io::Result<Vec<u8>> {
    let said = match decode_request(line)? {
        ShepherdRequest::Hello { .. } => {
            vec![ShepherdMessage::Hello { version: SHEPHERD, pid: std::process::id() }]
        }
        ShepherdRequest::List => vec![ShepherdMessage::List { jobs: Vec::new() }],
        ShepherdRequest::Start(job) => {
            let id = job.id;
            let events = [
                ExecEvent::Started { id },
                ExecEvent::Finished { id, status: 0 },
                ExecEvent::Released { id },
            ];
            events.map(ShepherdMessage::Event).into()
        }
        ShepherdRequest::Resume { .. } | ShepherdRequest::Shutdown | ShepherdRequest::Job(_) => {
            Vec::new()
        }
    };
    let mut answer = Vec::new();
    for message in said {
        answer.extend(to_shepherd(&encode(&message)?));
    }
    Ok(answer)
}
