//! The manager of an elastic instance: it starts alone, and listens where the nodes of its allocations find it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::time::Duration;

use jobtap_core::settings::{SettingError, setting};
use serde_json::Value;

use super::admission::{Admission, NoRandom};
use super::channel::own_address;
use super::identity::{Identity, IdentityError};
use super::instance::Nodes;
use super::wire::NodeInfo;

const HOST: &str = "allocation-address.host";
const PORT: &str = "allocation-address.port";

/// How long the manager's own node may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// An address toward which a host's packets take the way to other networks. It is reserved for documentation, and nothing
/// is sent to it.
const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// Where the nodes of allocations connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllocationAddress {
    host: Option<String>,
    port: u16,
}

/// Why an elastic instance can't be started.
#[derive(Debug, thiserror::Error)]
pub enum ElasticError {
    /// A value of the table `[allocation-address]`.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The name has no address.
    #[error("{HOST}: {host} has no address: {reason}")]
    Unknown {
        /// The name.
        host: String,
        /// What the system says.
        reason: io::Error,
    },
    /// It can't listen there.
    #[error(
        "{HOST}: can't listen at {address} for the nodes of allocations: {reason}; name an address of this host that they \
         reach, and a port that is free"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        reason: io::Error,
    },
    /// The identity can't be made.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The secrets can't be made.
    #[error(transparent)]
    Random(#[from] NoRandom),
}

impl AllocationAddress {
    /// Reads `config`, the whole configuration.
    ///
    /// # Errors
    /// Values that can't be used, with their key.
    pub fn read(config: &Value) -> Result<Self, SettingError> {
        let port: Option<u16> = setting(config, PORT)?;
        Ok(Self { host: setting(config, HOST)?, port: port.unwrap_or(0) })
    }

    fn listen(&self, hostname: &str) -> Result<TcpListener, ElasticError> {
        let address = match &self.host {
            Some(host) => first_address(host)
                .map_err(|reason| ElasticError::Unknown { host: host.clone(), reason })?,
            None => address_of(hostname),
        };
        let address = SocketAddr::new(address, self.port);
        TcpListener::bind(address).map_err(|reason| ElasticError::Listen { address, reason })
    }
}

fn first_address(host: &str) -> io::Result<IpAddr> {
    let none = || io::Error::from(io::ErrorKind::NotFound);
    (host, 0).to_socket_addrs()?.next().map(|address| address.ip()).ok_or_else(none)
}

/// The address at which other hosts probably reach this one: that of its name, or if that is the loopback's, as on some
/// systems, that of the interface toward other networks.
fn address_of(hostname: &str) -> IpAddr {
    let named = first_address(hostname).ok().filter(|address| !address.is_loopback());
    let toward_others = || own_address(ELSEWHERE).ok();
    named.or_else(toward_others).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

impl Nodes {
    /// Those of a new elastic instance: `own` is the manager's host, and all others join later. A node that is away for
    /// `grace` is lost.
    ///
    /// # Errors
    /// It can't listen, for instance.
    pub fn elastic(
        address: &AllocationAddress,
        own: NodeInfo,
        grace: Duration,
    ) -> Result<Self, ElasticError> {
        Ok(Self {
            listener: address.listen(&own.host)?,
            identity: Identity::new()?,
            size: 1,
            own,
            patience: PATIENCE,
            grace,
            known: Default::default(),
            admission: Some(Admission::new()?),
        })
    }

    /// Whether nodes join it later.
    pub fn is_elastic(&self) -> bool {
        self.admission.is_some()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_manager_listens_where_the_configuration_says() {
        let listen = |table: Value| {
            let read = AllocationAddress::read(&json!({ "allocation-address": table }));
            read.map_err(ElasticError::from).and_then(|address| address.listen("localhost"))
        };
        let listener = listen(json!({"host": "127.0.0.1"})).unwrap();
        let address = listener.local_addr().unwrap();
        assert!(address.ip().is_loopback() && address.port() != 0);
        let taken = json!({"host": "127.0.0.1", "port": address.port()});
        let refused = listen(taken).unwrap_err().to_string();
        assert!(
            refused.starts_with("allocation-address.host: can't listen at 127.0.0.1:"),
            "{refused}"
        );
        let refused = listen(json!({"host": "no-such-host.invalid"})).unwrap_err().to_string();
        assert!(refused.contains("no-such-host.invalid has no address"), "{refused}");
        let refused = listen(json!({"port": 70000})).unwrap_err().to_string();
        assert!(refused.starts_with("allocation-address.port"), "{refused}");
    }
}
