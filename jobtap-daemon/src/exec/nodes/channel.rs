//! The manager's side of a channel to a node.
//!
//! A new connection has to show the identity of the instance by TLS, and then to say in its first line which node it is.
//! Both have to happen in time.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, TcpListener as StdTcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{
    AsyncBufRead, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, Join, ReadHalf, WriteHalf, join,
};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Sender, UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::admission::{Admission, Pass};
use super::message::{Connection, Message, next_number, other_program};
use super::relay;
use super::wire::{self, Frame, FromNode, NodeInfo, ToNode, VERSION, node_line};
use crate::clock::now;
use crate::open_files::OpenFiles;

/// How long a connection may take until it is a node's.
const JOINING: Duration = Duration::from_secs(10);

/// The maximum number of connections from one address that haven't said yet who they are. More of them are closed, so
/// that one host can't keep the nodes on others from connecting.
pub(super) const MOST_OF_ADDRESS: usize = 64;

/// Why a node without a valid pass is refused.
const NOT_ADMITTED: &str = "its allocation is over";

/// A stream of bytes to a node.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + 'static {}
impl<T: AsyncRead + AsyncWrite + Send + 'static> Stream for T {}

/// Accepts connections for as long as the hub runs. With an `admission`, each has to show a pass.
pub(super) async fn accept(
    listener: StdTcpListener,
    tls: TlsAcceptor,
    admission: Option<Admission>,
    inbox: Sender<Message>,
    socket: std::path::PathBuf,
) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    // More of them wait in the system's queue.
    let strangers = Arc::new(Semaphore::new(OpenFiles::of_this_process().strangers()));
    let by_address = Arc::<Mutex<HashMap<IpAddr, usize>>>::default();
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&strangers).acquire_owned().await else {
            return Ok(());
        };
        let Ok((stream, from)) = listener.accept().await else {
            // Too many open files, for instance.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Some(of_address) = Stranger::admit(&by_address, from.ip()) else { continue };
        let (tls, inbox, socket) = (tls.clone(), inbox.clone(), socket.clone());
        let admission = admission.clone();
        tokio::spawn(async move {
            let greeted = async {
                stream.set_nodelay(true).ok()?;
                introduce(tls.accept(stream).await.ok()?, admission.as_ref()).await
            };
            let greeted = timeout(JOINING, greeted).await;
            drop((place, of_address));
            match greeted {
                Ok(Some(Introduced::Node(node))) => serve(node, inbox).await,
                // A client whose manager has ended sees that its connection ends.
                Ok(Some(Introduced::Client(stream))) => {
                    drop(relay::meet(stream, &socket).await);
                }
                Ok(Some(Introduced::Command(number, stream))) => {
                    let channel = Box::pin(stream);
                    // Without a hub, the command ends.
                    let _ = inbox.send(Message::Command { number, channel }).await;
                }
                Ok(None) | Err(_) => {}
            }
        });
    }
}

/// A connection from an address that hasn't said yet who it is.
struct Stranger {
    all: Arc<Mutex<HashMap<IpAddr, usize>>>,
    address: IpAddr,
}

impl Stranger {
    /// `None` if there are too many from this address.
    fn admit(all: &Arc<Mutex<HashMap<IpAddr, usize>>>, address: IpAddr) -> Option<Self> {
        let mut counts = all.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(address).or_default();
        if *count >= MOST_OF_ADDRESS {
            return None;
        }
        *count += 1;
        Some(Self { all: Arc::clone(all), address })
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let mut counts = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut count) = counts.entry(self.address) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// Serves a connection within this process.
pub(super) async fn serve_own(stream: impl Stream, inbox: Sender<Message>) {
    serve_node(stream, inbox, None).await;
}

/// Serves a node's connection. With an `admission`, it has to show a pass.
pub(super) async fn serve_node(
    stream: impl Stream,
    inbox: Sender<Message>,
    admission: Option<&Admission>,
) {
    if let Some(Introduced::Node(node)) = introduce(stream, admission).await {
        serve(node, inbox).await;
    }
}

/// A connection whose first line has come.
enum Introduced<S> {
    Node(Introduction<S>),
    /// What follows is for the manager's socket.
    Client(Joined<S>),
    /// What follows is about the command with this number.
    Command(u64, Joined<S>),
}

/// A connection whose first line has been read.
type Joined<S> = Join<BufReader<ReadHalf<S>>, WriteHalf<S>>;

/// A node that joins.
struct Introduction<S> {
    read: BufReader<ReadHalf<S>>,
    write: WriteHalf<S>,
    node: NodeInfo,
    /// By how many seconds its clock is ahead of this host's.
    ahead: f64,
    pass: Option<Pass>,
}

/// Reads the first line, and the pass before it if one is demanded. `None` if it isn't that of a node that this program
/// can work with.
async fn introduce<S: Stream>(stream: S, admission: Option<&Admission>) -> Option<Introduced<S>> {
    let (read, mut write) = tokio::io::split(stream);
    let mut read = BufReader::new(read);
    let pass = match admission {
        Some(admission) => match serde_json::from_slice(&first_line(&mut read).await?).ok()? {
            FromNode::Pass(pass) if admission.admits(&pass) => Some(pass),
            _ => {
                let reason = NOT_ADMITTED.to_owned();
                let _ = write.write_all(&node_line(&ToNode::Refused { reason })).await;
                let _ = write.flush().await;
                return None;
            }
        },
        None => None,
    };
    let line = first_line(&mut read).await?;
    let (version, node, ahead) = match serde_json::from_slice(&line) {
        Ok(FromNode::Join { version, node, time }) => (version, node, time - now().as_secs()),
        // A client is one of a node that has joined, so its version fits.
        Ok(FromNode::Client { .. }) => return Some(Introduced::Client(join(read, write))),
        Ok(FromNode::Command { number, .. }) => {
            return Some(Introduced::Command(number, join(read, write)));
        }
        _ => return None,
    };
    if version != VERSION {
        let reason = other_program(&node.program);
        let _ = write.write_all(&node_line(&ToNode::Refused { reason })).await;
        let _ = write.flush().await;
        return None;
    }
    Some(Introduced::Node(Introduction { read, write, node, ahead, pass }))
}

async fn first_line(read: &mut (impl AsyncBufRead + Unpin)) -> Option<Vec<u8>> {
    match wire::read_first(read).await {
        Ok(Some(Frame::Node(line))) => Some(line),
        _ => None,
    }
}

async fn serve<S: Stream>(introduced: Introduction<S>, inbox: Sender<Message>) {
    let Introduction { read, write, node, ahead, pass } = introduced;
    let (outbox, lines) = unbounded_channel();
    let number = next_number();
    let reading = inbox.clone();
    // The hub starts the reader by its answer: what it reads must come after the joining.
    let (begin, begun) = tokio::sync::oneshot::channel::<u32>();
    let reader = tokio::spawn(async move {
        if let Ok(rank) = begun.await {
            read_all(read, rank, number, &reading).await;
        }
        let _ = reading.send(Message::Left { number }).await;
    });
    let connection = Connection { outbox, reader: reader.abort_handle() };
    let joined = Message::Joined { number, node, ahead, pass, connection, begin };
    if inbox.send(joined).await.is_ok() {
        write_all(write, lines).await;
        // The hub learns from the reader that the connection has ended, unless the hub has ended it.
        reader.abort();
        let _ = inbox.send(Message::Left { number }).await;
    }
}

async fn read_all(
    mut read: BufReader<impl AsyncRead + Unpin>,
    rank: u32,
    number: u64,
    inbox: &Sender<Message>,
) {
    while let Ok(Some(frame)) = wire::read(&mut read).await {
        if inbox.send(Message::Frame { rank, number, frame }).await.is_err() {
            return;
        }
    }
}

/// The maximum number of lines that are written at once.
const MOST_TOGETHER: usize = 64;

async fn write_all(mut write: impl AsyncWrite + Unpin, mut lines: UnboundedReceiver<Vec<u8>>) {
    let mut together = Vec::new();
    while lines.recv_many(&mut together, MOST_TOGETHER).await > 0 {
        let text = together.drain(..).flatten().collect::<Vec<u8>>();
        if write.write_all(&text).await.is_err() || write.flush().await.is_err() {
            return;
        }
    }
    let _ = write.shutdown().await;
}

/// The address at which the other nodes reach this host: that of the interface by which it reaches `other`.
///
/// # Errors
/// This host has no way to the other one.
pub fn own_address(other: IpAddr) -> std::io::Result<IpAddr> {
    let any: IpAddr = match other {
        IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    // Connecting such a socket sends nothing.
    let socket = std::net::UdpSocket::bind((any, 0))?;
    socket.connect((other, 9))?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_limited_number_of_strangers() {
        let all = Arc::default();
        let (here, there) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let admitted = || Stranger::admit(&all, here);
        let mut strangers: Vec<Stranger> = std::iter::from_fn(admitted).take(1000).collect();
        assert_eq!(strangers.len(), MOST_OF_ADDRESS);
        assert!(Stranger::admit(&all, there).is_some());
        strangers.pop();
        assert!(admitted().is_some(), "it has said who it is");
        strangers.clear();
        assert!(all.lock().unwrap().is_empty());
    }
}
