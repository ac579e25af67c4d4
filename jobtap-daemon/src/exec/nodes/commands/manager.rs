//! The manager's side: it passes messages between a client and the node that runs its command.

use std::collections::BTreeMap;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use super::{Command, FromCommand, ToCommand, next};
use crate::exec::nodes::message::next_number;
use crate::exec::nodes::wire::node_line;
use crate::open_files::OpenFiles;

/// How long a node may take to connect for a command.
const CONNECTING: Duration = Duration::from_secs(30);

/// Why a command ends that its node doesn't end.
const LOST: &str = "the connection to its node is lost";

/// How a channel ended that its client hasn't left.
enum Ended {
    /// The client knows.
    Told,
    /// The channel broke, or the node is lost.
    Lost,
}

/// A client's request to run a command on a node, with the client's ends of its messages.
pub(in crate::exec::nodes) struct Asked {
    pub(in crate::exec::nodes) rank: u32,
    pub(in crate::exec::nodes) command: Command,
    pub(in crate::exec::nodes) to_client: Sender<FromCommand>,
    pub(in crate::exec::nodes) from_client: Receiver<ToCommand>,
}

impl Asked {
    /// Tells the client that its command doesn't run.
    pub(in crate::exec::nodes) fn refuse(self, errno: Errno, reason: String) {
        refuse(&self.to_client, errno, reason);
    }
}

/// Fails only if the client has left: the first message has room.
fn refuse(client: &Sender<FromCommand>, errno: Errno, reason: String) {
    let _ = client.try_send(FromCommand::Failed { errno: errno.raw_os_error(), reason });
}

/// The commands whose nodes haven't connected yet.
pub(in crate::exec::nodes) struct Commands {
    waiting: BTreeMap<u64, Waiting>,
    /// Per rank, what ends its commands when it is dropped: a node that vanishes closes no channel.
    nodes: BTreeMap<u32, watch::Sender<()>>,
    /// For as many as may run at once on all nodes together.
    places: Arc<Semaphore>,
    most: usize,
}

struct Waiting {
    asked: Asked,
    place: OwnedSemaphorePermit,
    since: Instant,
}

/// A channel to a node, for one command.
pub(in crate::exec::nodes) trait Channel:
    AsyncRead + AsyncWrite + Send
{
}
impl<T: AsyncRead + AsyncWrite + Send> Channel for T {}

impl Commands {
    /// Lets as many run at once as there is room for.
    pub(in crate::exec::nodes) fn new(open_files: &OpenFiles) -> Self {
        let most = open_files.commands();
        let places = Arc::new(Semaphore::new(most));
        Self { waiting: BTreeMap::new(), nodes: BTreeMap::new(), places, most }
    }

    /// Keeps a request until the node connects with the number that is returned. `None` if too many commands run.
    pub(in crate::exec::nodes) fn expect(&mut self, asked: Asked) -> Option<u64> {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            let reason = format!(
                "{} commands are already running on nodes: try again when some have ended",
                self.most
            );
            asked.refuse(Errno::AGAIN, reason);
            return None;
        };
        let number = next_number();
        self.waiting.insert(number, Waiting { asked, place, since: Instant::now() });
        Some(number)
    }

    /// Passes messages through the channel with this number until its command has ended. Closes the channel if no client
    /// waits for it.
    pub(in crate::exec::nodes) fn begin(&mut self, number: u64, channel: Pin<Box<dyn Channel>>) {
        if let Some(Waiting { asked, place, .. }) = self.waiting.remove(&number) {
            let node = self.nodes.entry(asked.rank).or_default();
            let mut node = node.subscribe();
            tokio::spawn(async move {
                // Nothing is ever sent: this resolves when the node is lost.
                let lost = async move { drop(node.changed().await) };
                pass(channel, asked, lost).await;
                drop(place);
            });
        }
    }

    /// Ends the commands of a node that is lost.
    pub(in crate::exec::nodes) fn lose(&mut self, rank: u32) {
        self.nodes.remove(&rank);
        let is_there = |_: &u64, waiting: &mut Waiting| waiting.asked.rank == rank;
        for (_, waiting) in self.waiting.extract_if(.., is_there) {
            waiting.asked.refuse(Errno::HOSTUNREACH, LOST.to_owned());
        }
    }

    /// Gives up nodes that have not connected in time.
    pub(in crate::exec::nodes) fn patrol(&mut self) {
        let is_late = |_: &u64, waiting: &mut Waiting| waiting.since.elapsed() > CONNECTING;
        for (_, late) in self.waiting.extract_if(.., is_late) {
            let reason = format!("the node didn't connect within {} s", CONNECTING.as_secs());
            late.asked.refuse(Errno::HOSTUNREACH, reason);
        }
    }
}

/// Passes messages until the command has ended, its node is lost, or the client has left. The command ends with the
/// channel.
async fn pass(channel: Pin<Box<dyn Channel>>, asked: Asked, lost: impl Future<Output = ()>) {
    let Asked { command, to_client, mut from_client, .. } = asked;
    let (read, mut write) = tokio::io::split(channel);
    let mut read = BufReader::new(read);
    let sending = async {
        let mut message = Some(ToCommand::Start(command));
        while let Some(next) = message {
            if write.write_all(&node_line(&next)).await.is_err() || write.flush().await.is_err() {
                // The other direction ends, too.
                break;
            }
            message = from_client.recv().await;
        }
        pending::<()>().await;
    };
    let receiving = async {
        while let Ok(Some(message)) = next::<FromCommand>(&mut read).await {
            let is_last = message.is_last();
            if to_client.send(message).await.is_err() || is_last {
                return Ended::Told;
            }
        }
        Ended::Lost
    };
    let ended = tokio::select! {
        ended = receiving => ended,
        () = lost => Ended::Lost,
        () = sending => return,
        () = to_client.closed() => return,
    };
    if matches!(ended, Ended::Lost) {
        let errno = Errno::HOSTUNREACH.raw_os_error();
        let _ = to_client.send(FromCommand::Failed { errno, reason: LOST.to_owned() }).await;
    }
}
