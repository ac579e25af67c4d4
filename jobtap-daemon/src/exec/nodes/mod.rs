//! Execution on the nodes of an allocation: one process on each node, which the launcher of the allocation has started.
//!
//! The processes find each other by the launcher's PMI. That of rank 0 is the manager and a node, the others are nodes.
//! On each node a shepherd runs the node's parts of jobs.
//!
//! | file | what it holds |
//! |---|---|
//! | `identity` | who belongs to the instance |
//! | `wire` | the lines on a channel |
//! | `instance` | what the manager expects of the nodes |
//! | `admission`, `invitation`, `places` | nodes of allocations on demand: who may join, by what, and with which rank |
//! | `elastic` | the manager that starts without them |
//! | `leaving` | a node that is told to end |
//! | `notice` | what the hub says about them |
//! | `renumber` | their cores and GPUs, as they are numbered there |
//! | `message` | what the hub learns from connections |
//! | `channel`, `dial` | the manager's and the node's side of a connection |
//! | `outputs`, `inputs` | the output of jobs, collected from the nodes; the input that clients send to them |
//! | `hub` | the loop that owns all of it |
//! | `node`, `absence` | a node's side; how long it waits for a manager that it doesn't reach |
//! | `plugin_processes`, `node_processes` | the processes of plugins on nodes: the manager's and the node's side |
//! | `relay` | clients on nodes |
//! | `commands` | commands that clients run on nodes |
//! | `stepped` | the hub as a task of its caller, who plays the nodes |
//! | `played` | nodes that are played, for benchmarks |
//! | `saved` | what a manager needs after `kill -9` |
//!
//! The manager's own node is served as the others are, over a connection within the process.

mod absence;
mod admission;
mod channel;
mod commands;
mod dial;
mod elastic;
#[cfg(feature = "fuzz")]
pub(crate) mod foreign;
mod hub;
mod identity;
mod inputs;
mod instance;
mod invitation;
mod leaving;
mod message;
mod node;
mod node_processes;
mod notice;
mod outputs;
mod places;
mod played;
mod plugin_processes;
mod relay;
mod renumber;
pub mod saved;
pub mod stepped;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::BTreeSet;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use jobtap_core::engine::AllocationId;
use jobtap_core::host::{PluginKey, ProcessCommand};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedSender, WeakUnboundedSender, unbounded_channel};

pub use self::admission::{Admission, NoRandom};
pub use self::channel::own_address;
pub use self::commands::{CREDIT, Command, Data, FromCommand, Output, ToCommand};
pub use self::elastic::{AllocationAddress, ElasticError};
use self::hub::{Complete, Hub, Joining, Own, Request, missing};
pub use self::identity::{Identity, IdentityError};
use self::inputs::Inputs;
pub use self::instance::{Nodes, NodesError};
pub use self::invitation::{Invitation, InvitationError};
pub use self::leaving::Leaving;
pub use self::node::{NodeError, join, run as run_node};
pub use self::notice::Notice;
use self::outputs::Outputs;
pub use self::places::Expected;
pub use self::played::play;
use self::plugin_processes::first_number;
pub use self::relay::socket_in;
pub use self::wire::NodeInfo;
use super::local::LocalConfig;
use super::{Executor, ExecutorReport, HeldJob, JobCommand, StartJob};

/// How many messages of nodes may wait for the hub.
const MOST_WAITING: usize = 1024;

/// The pause before the manager's own node joins again.
const PAUSE: Duration = Duration::from_millis(100);

/// How long the nodes may take to end when the instance can't start.
const PARTING: Duration = Duration::from_secs(2);

/// How long nodes have at least to come back after a restart of the manager.
const BACK: Duration = Duration::from_secs(15);

/// The directory of the manager's own node, in the state directory.
pub const OWN_NODE: &str = "node";

/// Runs jobs on the nodes. Dropping it leaves shepherds and jobs alone.
pub struct NodesExecutor {
    held: Vec<HeldJob>,
    /// Permits the nodes of allocations to connect, after all that is known of them was said.
    accept: Arc<Notify>,
    requests: Option<UnboundedSender<Request>>,
    hub: Option<JoinHandle<()>>,
}

impl NodesExecutor {
    /// Waits until all nodes have joined. Returns what they have, too. `own` describes the shepherd of the manager's own
    /// node, whose directory it makes, in the manager's state directory `state_dir`. `socket` and `uri` are the manager's.
    ///
    /// # Errors
    /// Not all nodes join, or one of them can't.
    pub fn open(
        nodes: &Nodes,
        own: LocalConfig,
        state_dir: PathBuf,
        socket: &Path,
        uri: &str,
    ) -> Result<(Self, Vec<NodeInfo>), NodesError> {
        let mut private = std::fs::DirBuilder::new();
        private.recursive(true).mode(0o700).create(&own.state_dir)?;
        let tls = nodes.identity.acceptor()?;
        let listener = nodes.listener.try_clone()?;
        let (joining, joined) = channel();
        let streams = (Inputs::open(&state_dir)?, Outputs::open(&state_dir)?);
        let (program, uri) = (nodes.own.program.clone(), uri.to_owned());
        let of_manager = Own { program, uri, first_process: first_number() };
        let known = nodes.known().clone();
        let admission = nodes.admission.clone();
        let hub = Hub::new(
            of_manager,
            nodes.size,
            nodes.grace,
            streams,
            &known,
            admission.clone(),
            joining,
        );
        let accept = Arc::<Notify>::default();
        let accepts = Arc::clone(&accept);
        let (requests, requested) = unbounded_channel();
        let (inbox, messages) = tokio::sync::mpsc::channel(MOST_WAITING);
        let (info, socket) = (nodes.own.clone(), socket.to_owned());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let serving = move || {
            runtime.block_on(async move {
                let to_hub = inbox.clone();
                let accepting = tokio::spawn(async move {
                    if admission.is_some() {
                        accepts.notified().await;
                    }
                    channel::accept(listener, tls, admission, to_hub, socket).await
                });
                let own = tokio::spawn(serve_own(info, own, inbox));
                hub.run(messages, requested).await;
                accepting.abort();
                own.abort();
            });
        };
        let hub = std::thread::Builder::new().name("nodes".to_owned()).spawn(serving)?;
        let mut executor =
            Self { held: Vec::new(), accept, requests: Some(requests), hub: Some(hub) };
        match executor.wait_for_all(nodes, &joined) {
            Ok(Complete { nodes: all, held }) => {
                executor.held = held;
                nodes.known().clone_from(&all);
                Ok((executor, all))
            }
            Err(error) => {
                if nodes.known().is_empty() {
                    // Those that have joined need not wait for a manager that won't be. After a restart they have jobs,
                    // and another manager may take them over.
                    executor.shut_down(PARTING);
                }
                Err(error)
            }
        }
    }

    /// Reports to the manager from now on. `report` is called on the executor's thread.
    pub fn begin(&self, report: impl Fn(ExecutorReport) + Send + 'static) {
        self.request(Request::Begin(Box::new(report)));
    }

    /// Returns a function that takes commands about processes of plugins on nodes. It doesn't keep the executor alive.
    pub fn plugin_processes(&self) -> impl Fn(PluginKey, ProcessCommand) + Send + Sync + 'static {
        let requests = self.requests.as_ref().map(UnboundedSender::downgrade);
        move |plugin, command| {
            // Once the executor is gone, the dropped command tells the plugin so.
            if let Some(requests) = requests.as_ref().and_then(WeakUnboundedSender::upgrade) {
                let _ = requests.send(Request::Process(plugin, command));
            }
        }
    }

    /// Returns what the nodes of allocations are handled with. It doesn't keep the executor alive.
    pub fn guests(&self) -> Guests {
        Guests { requests: self.requests.as_ref().map(UnboundedSender::downgrade) }
    }

    /// Returns a function that runs a client's command on the node of a rank. What the client sends and gets goes through
    /// these channels; the command ends when the client drops its ends. It doesn't keep the executor alive.
    pub fn commands(&self) -> impl Fn(u32, Command, CommandEnds) + Send + Sync + 'static {
        let requests = self.requests.as_ref().map(UnboundedSender::downgrade);
        move |rank, command, (to_client, from_client)| {
            // Once the executor is gone, the dropped channels tell the client so.
            if let Some(requests) = requests.as_ref().and_then(WeakUnboundedSender::upgrade) {
                let asked = commands::Asked { rank, command, to_client, from_client };
                let _ = requests.send(Request::Run(Box::new(asked)));
            }
        }
    }

    fn wait_for_all(
        &self,
        nodes: &Nodes,
        joining: &Receiver<Joining>,
    ) -> Result<Complete, NodesError> {
        let is_restart = !nodes.known().is_empty();
        let patience = nodes.patience;
        let until = Instant::now() + patience;
        // After a restart, the others' jobs don't wait for long.
        let until_others = Instant::now() + nodes.grace.max(BACK).min(patience);
        let mut joined = BTreeSet::new();
        loop {
            let goes_on = is_restart && joined.contains(&0);
            let end = if goes_on { until_others } else { until };
            match joining.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Joining::Joined(rank)) => drop(joined.insert(rank)),
                Ok(Joining::Refused(reason)) => return Err(NodesError::Refused(reason)),
                Ok(Joining::Complete(complete)) => return Ok(complete),
                Err(RecvTimeoutError::Timeout) if goes_on => {
                    self.request(Request::GoOn);
                    let complete = joining.iter().find_map(|joining| match joining {
                        Joining::Complete(complete) => Some(complete),
                        Joining::Joined(_) | Joining::Refused(_) => None,
                    });
                    return complete.ok_or(NodesError::Own);
                }
                Err(RecvTimeoutError::Timeout) => {
                    let (size, missing) = (nodes.size, missing(nodes.size, &joined));
                    return Err(NodesError::Missing { size, missing, patience });
                }
                Err(RecvTimeoutError::Disconnected) => return Err(NodesError::Own),
            }
        }
    }

    fn request(&self, request: Request) {
        if let Some(requests) = &self.requests {
            // The hub lives as long as the sender does.
            let _ = requests.send(request);
        }
    }
}

/// The nodes of allocations, for those who order and end allocations.
#[derive(Clone, Default)]
pub struct Guests {
    requests: Option<WeakUnboundedSender<Request>>,
}

impl Guests {
    /// `notify` is told what happens to the nodes of allocations from now on, on the executor's thread.
    pub fn begin(&self, notify: impl Fn(Notice) + Send + 'static) {
        self.request(Request::Notify(Box::new(notify)));
    }

    /// The nodes of an allocation may join from now on.
    pub fn expect(&self, id: AllocationId, expected: Expected) {
        self.request(Request::Expect(id, expected));
    }

    /// Ends the nodes of an allocation; [`Notice::Empty`] says when they have ended.
    pub fn dismiss(&self, id: AllocationId) {
        self.request(Request::Dismiss(id));
    }

    /// An allocation is over. What jobs still have on its nodes is lost.
    pub fn forget(&self, id: AllocationId) {
        self.request(Request::Forget(id));
    }

    fn request(&self, request: Request) {
        if let Some(requests) = self.requests.as_ref().and_then(WeakUnboundedSender::upgrade) {
            // The hub lives as long as a sender does.
            let _ = requests.send(request);
        }
    }
}

/// The channels to a client and from it.
pub type CommandEnds =
    (tokio::sync::mpsc::Sender<FromCommand>, tokio::sync::mpsc::Receiver<ToCommand>);

/// Serves the manager's own node.
async fn serve_own(
    info: NodeInfo,
    config: LocalConfig,
    inbox: tokio::sync::mpsc::Sender<message::Message>,
) {
    loop {
        let (here, there) = tokio::io::duplex(1 << 18);
        let hub_side = channel::serve_own(here, inbox.clone());
        let node_side = node::serve(there, &info, &config, None, None);
        let (ended, ()) = tokio::join!(node_side, hub_side);
        if !matches!(ended, Ok(node::End::Cut(_) | node::End::Silent)) {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

impl Executor for NodesExecutor {
    fn start(&self, job: StartJob) {
        self.request(Request::Start(Box::new(job)));
    }

    fn command(&self, command: JobCommand) {
        self.request(Request::Command(command));
    }

    fn held(&self) -> &[HeldJob] {
        &self.held
    }

    fn settled(&self) {
        self.accept.notify_one();
    }

    fn shut_down(&self, limit: Duration) -> bool {
        let (done, ended) = channel::<()>();
        self.request(Request::Shutdown { done });
        // The hub drops its end when all nodes are gone.
        matches!(ended.recv_timeout(limit), Err(RecvTimeoutError::Disconnected))
    }
}

impl Drop for NodesExecutor {
    /// Waits until all requests are sent to the nodes that are connected.
    fn drop(&mut self) {
        self.requests = None;
        if let Some(hub) = self.hub.take() {
            let _ = hub.join();
        }
    }
}
