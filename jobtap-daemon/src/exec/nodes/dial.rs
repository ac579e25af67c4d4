//! Connections from a node to the manager.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::admission::Pass;
use super::identity::{Identity, IdentityError};
use super::wire::{FromNode, node_line};

/// How long the manager's host may take to answer.
const REACHING: Duration = Duration::from_secs(5);

/// Where the manager is, and how it is recognized.
#[derive(Clone)]
pub(super) struct Manager {
    pub(super) address: SocketAddr,
    pub(super) connector: TlsConnector,
    pub(super) name: ServerName<'static>,
    /// What is shown on each connection to the manager of an elastic instance.
    pass: Option<Pass>,
    /// Ends the connections for commands and clients: a host that vanishes closes none.
    vanished: Arc<Notify>,
}

impl Manager {
    /// That of an instance, at this address. A node of an allocation has a pass.
    pub(super) fn new(
        address: SocketAddr,
        identity: &Identity,
        pass: Option<Pass>,
    ) -> Result<Self, IdentityError> {
        let (connector, name) = identity.connector()?;
        Ok(Self { address, connector, name, pass, vanished: Arc::default() })
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
        let mut stream = self.connector.connect(self.name.clone(), stream).await?;
        if let Some(pass) = &self.pass {
            stream.write_all(&node_line(&FromNode::Pass(pass.clone()))).await?;
        }
        Ok(stream)
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
