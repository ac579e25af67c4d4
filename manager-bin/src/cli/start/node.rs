//! A process that is a node of an instance whose manager is on another host.

use std::cell::Cell;
use std::time::Duration;

use super::launcher::NodePlace;
use super::signals::Signals;
use crate::cli::common::message::CliError;
use crate::daemon::statedir::{self, StateDir};
use crate::exec::LocalConfig;
use crate::exec::nodes::{NodeInfo, run_node, socket_in};
use crate::rpc::uri;

/// How long a node without a manager keeps its jobs.
const PATIENCE: Duration = Duration::from_secs(300);

/// The same after a signal, which the launcher sends to all processes of its step: the manager decides what it means for
/// the instance, and a node that can't reach it ends.
const AFTER_SIGNAL: Duration = Duration::from_secs(5);

/// Serves the manager until the instance ends.
pub(super) async fn run(place: &NodePlace) -> Result<u8, CliError> {
    let NodePlace { address, identity, info } = place;
    let directory = StateDir::temporary().map_err(CliError::failure)?;
    statedir::remove_leftovers();
    let mut config = LocalConfig::new(directory.path().to_path_buf())?;
    // Its shepherd ends with this process.
    config.temporary = true;
    let socket = socket_in(directory.path());
    let info = NodeInfo { uri: Some(uri::of_path(&socket)), ..info.clone() };
    let mut signals = Signals::new()?;
    let patience = Cell::new(PATIENCE);
    let mut running =
        std::pin::pin!(run_node(*address, identity, &info, &config, || patience.get()));
    let ended = loop {
        tokio::select! {
            ended = &mut running => break ended,
            () = signals.end() => patience.set(AFTER_SIGNAL),
        }
    };
    match ended {
        Ok(()) => Ok(0),
        Err(_) if patience.get() == AFTER_SIGNAL => Ok(0),
        Err(error) => {
            let (host, rank) = (&info.host, info.rank);
            Err(CliError::failure(format!("{host} (rank {rank}): {error}")))
        }
    }
}
