//! Clients on a node: tasks of jobs that submit others, or watch them. Their manager's socket is on another host, so the
//! node has one of its own, and passes each connection on over a channel of its own.
//!
//! The socket is in a directory that only the instance's owner can enter, and to the manager such a client is the owner.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::dial::Manager;
use super::wire::{FromNode, VERSION, node_line};

/// The name of the socket in the node's directory.
const SOCKET: &str = "local-0";

/// How many clients of one node are served at once. More of them wait in the system's queue.
const MOST: usize = 1024;

/// How many clients of one node connect at once. The manager closes what is too much from one address.
const CONNECTING_AT_ONCE: usize = 16;

/// How long the connection to the manager may take.
const CONNECTING: Duration = Duration::from_secs(30);

/// The path of a node's socket for clients.
pub fn socket_in(directory: &Path) -> std::path::PathBuf {
    directory.join(SOCKET)
}

/// Serves the clients of a node for as long as the node runs.
pub(super) async fn serve(directory: &Path, manager: &Manager) -> io::Result<()> {
    let listener = UnixListener::bind(socket_in(directory))?;
    let places = Arc::new(Semaphore::new(MOST));
    let connecting = Arc::new(Semaphore::new(CONNECTING_AT_ONCE));
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return Ok(()) };
        let Ok((client, _)) = listener.accept().await else {
            // Too many open files, for instance.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (manager, connecting) = (manager.clone(), Arc::clone(&connecting));
        tokio::spawn(async move {
            // A client whose connection can't be made sees that it ends.
            let passing = async { drop(pass(client, &manager, &connecting).await) };
            manager.until_vanished(passing).await;
            drop(place);
        });
    }
}

async fn pass(mut client: UnixStream, manager: &Manager, connecting: &Semaphore) -> io::Result<()> {
    let turn = connecting.acquire().await.map_err(io::Error::other)?;
    let connected = timeout(CONNECTING, manager.connect()).await;
    let mut stream = connected.map_err(io::Error::other)??;
    stream.write_all(&node_line(&FromNode::Client { version: VERSION })).await?;
    drop(turn);
    copy_bidirectional(&mut client, &mut stream).await.map(drop)
}

/// The manager's side: the client is one of the manager's own socket.
pub(super) async fn meet(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    socket: &Path,
) -> io::Result<()> {
    let mut manager = UnixStream::connect(socket).await?;
    copy_bidirectional(&mut stream, &mut manager).await.map(drop)
}
