//! The manager's side: it passes messages between a client and the node that runs its command.

use std::collections::BTreeMap;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::{Command, FromCommand, ToCommand, next};
use crate::exec::nodes::message::next_number;
use crate::exec::nodes::wire::node_line;

/// How many commands run at once, on all nodes together. Each has one or two open files in the manager.
const MOST: usize = 1024;

/// How long a node may take to connect for a command.
const CONNECTING: Duration = Duration::from_secs(30);

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
    places: Arc<Semaphore>,
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

impl Default for Commands {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), places: Arc::new(Semaphore::new(MOST)) }
    }
}

impl Commands {
    /// Keeps a request until the node connects with the number that is returned. `None` if too many commands run.
    pub(in crate::exec::nodes) fn expect(&mut self, asked: Asked) -> Option<u64> {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            let reason =
                format!("{MOST} commands run on nodes already: try again when some have ended");
            asked.refuse(Errno::AGAIN, reason);
            return None;
        };
        let number = next_number();
        self.waiting.insert(number, Waiting { asked, place, since: Instant::now() });
        Some(number)
    }

    /// Passes messages through the channel with this number, until its command has ended. A channel that nobody waits for
    /// any more is closed.
    pub(in crate::exec::nodes) fn begin(&mut self, number: u64, channel: Pin<Box<dyn Channel>>) {
        if let Some(Waiting { asked, place, .. }) = self.waiting.remove(&number) {
            tokio::spawn(async move {
                pass(channel, asked).await;
                drop(place);
            });
        }
    }

    /// Gives up nodes that have not connected in time.
    pub(in crate::exec::nodes) fn patrol(&mut self) {
        let is_late = |_: &u64, waiting: &mut Waiting| waiting.since.elapsed() > CONNECTING;
        for (_, late) in self.waiting.extract_if(.., is_late) {
            let reason = format!("the node doesn't answer within {} s", CONNECTING.as_secs());
            late.asked.refuse(Errno::HOSTUNREACH, reason);
        }
    }
}

/// Passes messages until the command has ended or the client has left. The command ends with the channel.
async fn pass(channel: Pin<Box<dyn Channel>>, asked: Asked) {
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
                return;
            }
        }
        let reason = "the connection to its node is lost".to_owned();
        let errno = Errno::HOSTUNREACH.raw_os_error();
        let _ = to_client.send(FromCommand::Failed { errno, reason }).await;
    };
    tokio::select! {
        () = receiving => {}
        () = sending => {}
        () = to_client.closed() => {}
    }
}
