//! A process that is a node of an instance whose manager is on another host.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::launcher::NodePlace;
use super::signals::Signals;
use crate::cli::common::message::CliError;
use crate::daemon::statedir::{self, StateDir};
use crate::exec::LocalConfig;
use crate::exec::nodes::{NodeInfo, run_node, socket_in};
use crate::rpc::uri;

/// How long a node without a manager keeps its jobs soon after a signal, which the launcher sends to all processes of its step: the manager decides what it means
/// for the instance, and a node that can't reach it ends.
const AFTER_SIGNAL: Duration = Duration::from_secs(5);

/// How long a signal may be the reason why the manager is gone.
const SOON: Duration = Duration::from_secs(60);

/// Serves the manager until the instance ends.
pub(super) async fn run(place: &NodePlace) -> Result<u8, CliError> {
    let NodePlace { address, identity, info, wait } = place;
    let directory = StateDir::temporary().map_err(CliError::failure)?;
    statedir::remove_leftovers();
    let mut config = LocalConfig::new(directory.path().to_path_buf())?;
    // Its shepherd ends with this process.
    config.temporary = true;
    let socket = socket_in(directory.path());
    let info = NodeInfo { uri: Some(uri::of_path(&socket)), ..info.clone() };
    let mut signals = Signals::new()?;
    let signaled: Cell<Option<Instant>> = Cell::new(None);
    let is_signaled = || signaled.get().is_some_and(|at| at.elapsed() < SOON);
    let patience = || if is_signaled() { AFTER_SIGNAL } else { *wait };
    let mut running = std::pin::pin!(run_node(*address, identity, &info, &config, patience));
    let ended = loop {
        tokio::select! {
            ended = &mut running => break ended,
            () = signals.end() => signaled.set(Some(Instant::now())),
        }
    };
    match ended {
        Ok(()) => Ok(0),
        Err(_) if is_signaled() => Ok(0),
        Err(error) => {
            let (host, rank) = (&info.host, info.rank);
            Err(CliError::failure(format!("{host} (rank {rank}): {error}")))
        }
    }
}
