//! Connections from a node to the manager.

use std::io;
use std::net::SocketAddr;

use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Where the manager is, and how it is recognized.
#[derive(Clone)]
pub(super) struct Manager {
    pub(super) address: SocketAddr,
    pub(super) connector: TlsConnector,
    pub(super) name: ServerName<'static>,
}

impl Manager {
    /// Makes a connection.
    pub(super) async fn connect(&self) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        self.connector.connect(self.name.clone(), stream).await
    }
}
