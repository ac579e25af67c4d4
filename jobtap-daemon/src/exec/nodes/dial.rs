//! Connections from a node to the manager.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::identity::{Identity, IdentityError};

/// How long the manager's host may take to answer.
const REACHING: Duration = Duration::from_secs(5);

/// Where the manager is, and how it is recognized.
#[derive(Clone)]
pub(super) struct Manager {
    pub(super) address: SocketAddr,
    pub(super) connector: TlsConnector,
    pub(super) name: ServerName<'static>,
    /// Ends the connections for commands and clients: a host that vanishes closes none.
    vanished: Arc<Notify>,
}

impl Manager {
    /// That of an instance, at this address.
    pub(super) fn new(address: SocketAddr, identity: &Identity) -> Result<Self, IdentityError> {
        let (connector, name) = identity.connector()?;
        Ok(Self { address, connector, name, vanished: Arc::default() })
    }

    /// Makes a connection.
    pub(super) async fn connect(&self) -> io::Result<TlsStream<TcpStream>> {
        self.greet(self.reach().await?).await
    }

    /// Makes a connection to its address.
    pub(super) async fn reach(&self) -> io::Result<TcpStream> {
        timeout(REACHING, TcpStream::connect(self.address)).await.map_err(io::Error::from)?
    }

    /// Makes sure of both ends.
    pub(super) async fn greet(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        stream.set_nodelay(true)?;
        self.connector.connect(self.name.clone(), stream).await
    }

    /// Does this work until it is done, or the manager [has vanished](Self::note_vanished).
    pub(super) async fn until_vanished(&self, work: impl Future<Output = ()>) {
        tokio::select! {
            () = work => {}
            () = self.vanished.notified() => {}
        }
    }

    /// The manager can't be reached for long: ends all work that waits for it.
    pub(super) fn note_vanished(&self) {
        self.vanished.notify_waiters();
    }
}
