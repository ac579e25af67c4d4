//! A process that is a node of an instance whose manager is on another host.

use std::net::SocketAddr;
use std::time::Duration;

use super::signals::Signals;
use crate::cli::common::message::CliError;
use crate::daemon::statedir::{self, StateDir};
use crate::exec::LocalConfig;
use crate::exec::nodes::{Identity, NodeInfo, run_node, socket_in};
use crate::rpc::uri;

/// How long a node without a manager keeps its jobs.
const PATIENCE: Duration = Duration::from_secs(300);

/// How long the manager may take to end the instance after a signal, which the launcher sends to all of its processes.
const END: Duration = Duration::from_secs(30);

/// Serves the manager at this address until the instance ends.
pub(super) async fn run(
    address: SocketAddr,
    identity: &Identity,
    info: &NodeInfo,
) -> Result<u8, CliError> {
    let directory = StateDir::temporary().map_err(CliError::failure)?;
    statedir::remove_leftovers();
    let mut config = LocalConfig::new(directory.path().to_path_buf())?;
    // Its shepherd ends with this process.
    config.temporary = true;
    let socket = socket_in(directory.path());
    let info = NodeInfo { uri: Some(uri::of_path(&socket)), ..info.clone() };
    let mut signals = Signals::new()?;
    let signaled = async {
        signals.end().await;
        tokio::time::sleep(END).await;
    };
    tokio::select! {
        ended = run_node(address, identity, &info, &config, PATIENCE) => match ended {
            Ok(()) => Ok(0),
            Err(error) => Err(CliError::failure(format!("{} (rank {}): {error}", info.host, info.rank))),
        },
        () = signaled => Ok(0),
    }
}
