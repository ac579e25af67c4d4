//! A process that is a node of an instance whose manager is on another host.

use std::cell::Cell;
use std::future::pending;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::launcher::{NodePlace, end_of_slurm_job, own_node};
use super::signals::Signals;
use crate::cli::common::message::CliError;
use crate::daemon::statedir::{self, StateDir};
use crate::exec::LocalConfig;
use crate::exec::nodes::{
    Invitation, Leaving, NodeError, NodeInfo, join as join_instance, run_node, socket_in,
};
use crate::rpc::uri;

/// How long a node without a manager keeps its jobs soon after a signal, which the launcher sends to all processes of its step: the manager decides what it means
/// for the instance, and a node that can't reach it ends.
const AFTER_SIGNAL: Duration = Duration::from_secs(5);

/// How long a node of an allocation stays after a signal, until the manager tells it to end.
const LEAVING: Duration = Duration::from_secs(20);

/// How long a signal may be the reason why the manager is gone.
const SOON: Duration = Duration::from_secs(60);

/// Serves the manager until the instance ends.
pub(super) async fn run(place: &NodePlace) -> Result<u8, CliError> {
    let NodePlace { address, identity, info, wait } = place;
    let who = format!("{} (rank {})", info.host, info.rank);
    serve(info, *wait, &who, None, async |info, config, patience| {
        run_node(*address, identity, info, config, patience).await
    })
    .await
}

/// Serves the manager that has ordered the allocation in which this runs, until that is over.
pub(crate) async fn serve_allocation(invitation: &Invitation) -> Result<u8, CliError> {
    // The manager chooses its rank.
    let info = own_node(0).map_err(CliError::failure)?;
    let ends_at = end_of_slurm_job();
    let leaving = Leaving::default();
    let told = Some(&leaving);
    serve(&info, invitation.wait(), &info.host, told, async |info, config, patience| {
        join_instance(invitation, ends_at, info, config, patience, &leaving).await
    })
    .await
}

/// Returns when a node of an allocation has had a signal for as long as it may wait then.
async fn has_left(signaled: &Cell<Option<Instant>>) {
    match signaled.get() {
        Some(at) => sleep(LEAVING.saturating_sub(at.elapsed())).await,
        None => pending().await,
    }
}

/// Runs this host's node by `serving`, with a shepherd of its own. Without its manager it waits so long.
async fn serve(
    info: &NodeInfo,
    wait: Duration,
    who: &str,
    leaving: Option<&Leaving>,
    serving: impl AsyncFnOnce(&NodeInfo, &LocalConfig, &dyn Fn() -> Duration) -> Result<(), NodeError>,
) -> Result<u8, CliError> {
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
    let patience = || if is_signaled() { AFTER_SIGNAL } else { wait };
    let mut running = std::pin::pin!(serving(&info, &config, &patience));
    let ended = loop {
        tokio::select! {
            ended = &mut running => break ended,
            () = signals.end() => {
                signaled.set(Some(Instant::now()));
                leaving.into_iter().for_each(Leaving::begin);
            }
            // The manager has heard of the signal, and its jobs here are over.
            () = has_left(&signaled), if leaving.is_some() => break Ok(()),
        }
    };
    match ended {
        Ok(()) => Ok(0),
        Err(_) if is_signaled() => Ok(0),
        Err(error) => Err(CliError::failure(format!("{who}: {error}"))),
    }
}
