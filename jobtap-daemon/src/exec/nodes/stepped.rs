//! The nodes of an instance without threads: the hub is a task of its caller's runtime, and the caller plays the nodes at the
//! other ends of their channels.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use tokio::io::DuplexStream;
use tokio::sync::mpsc::{Sender, unbounded_channel};

use super::channel::serve_own;
use super::hub::{Hub, Joining, Own, Request};
use super::inputs::Inputs;
use super::message::Message;
use super::outputs::Outputs;
use super::plugin_processes::first_number;
use super::wire::NodeInfo;
use super::{MOST_WAITING, NodesError, NodesExecutor};

/// How many bytes may be on their way through a channel.
const CHANNEL: usize = 1 << 16;

/// An executor whose nodes haven't all joined.
pub struct Gathering {
    executor: NodesExecutor,
    joining: Receiver<Joining>,
}

/// Where nodes connect.
#[derive(Clone)]
pub struct Port(Sender<Message>);

/// What a hub is made for.
pub struct Instance<'a> {
    /// The number of nodes.
    pub size: u32,
    /// How long a node may be away until it is lost.
    pub grace: Duration,
    /// The nodes of an earlier manager.
    pub known: &'a [NodeInfo],
    /// The manager's state directory.
    pub state_dir: &'a Path,
    /// The manager's address.
    pub uri: String,
    /// The version of the manager's program.
    pub program: String,
}

impl Gathering {
    /// Starts the hub as a task of the present runtime.
    ///
    /// # Errors
    /// The state directory can't be used.
    pub fn begin(instance: Instance<'_>) -> std::io::Result<(Self, Port)> {
        let Instance { size, grace, known, state_dir, uri, program } = instance;
        let (joined, joining) = channel();
        let streams = (Inputs::open(state_dir)?, Outputs::open(state_dir)?);
        let own = Own { program, uri, first_process: first_number() };
        let hub = Hub::new(own, size, grace, streams, known, None, joined);
        let (requests, requested) = unbounded_channel();
        let (inbox, messages) = tokio::sync::mpsc::channel(MOST_WAITING);
        drop(tokio::spawn(hub.run(messages, requested)));
        let executor = NodesExecutor {
            held: Vec::new(),
            accept: Arc::default(),
            requests: Some(requests),
            hub: None,
        };
        Ok((Self { executor, joining }, Port(inbox)))
    }

    /// Goes on without the nodes that haven't joined: they are lost.
    pub fn go_on(&self) {
        self.executor.request(Request::GoOn);
    }

    /// The executor, once all nodes have joined or the hub goes on without the others, and what the nodes have.
    ///
    /// # Errors
    /// A node is refused, or the hub has ended.
    pub fn complete(mut self) -> Result<Result<(NodesExecutor, Vec<NodeInfo>), Self>, NodesError> {
        loop {
            match self.joining.try_recv() {
                Ok(Joining::Joined(_)) => {}
                Ok(Joining::Refused(reason)) => return Err(NodesError::Refused(reason)),
                Ok(Joining::Complete(complete)) => {
                    self.executor.held = complete.held;
                    return Ok(Ok((self.executor, complete.nodes)));
                }
                Err(TryRecvError::Empty) => return Ok(Err(self)),
                Err(TryRecvError::Disconnected) => return Err(NodesError::Own),
            }
        }
    }
}

impl Port {
    /// Connects a node, and returns its end of the channel.
    pub fn connect(&self) -> DuplexStream {
        let (here, there) = tokio::io::duplex(CHANNEL);
        drop(tokio::spawn(serve_own(there, self.0.clone())));
        here
    }
}
