//! Whether the ranks of a manager are hosts. In an allocation each rank is its own host; otherwise all are the manager's.

use jobtap_core::job::TaskMap;

use crate::client::{Client, RpcError};
use crate::daemon::attributes::HOSTS_OF_RANKS;
use crate::rpc::errno::ENOENT;
use crate::rpc::services::attr::Get;

/// Whether each rank of this manager is a host of its own. An older manager, which doesn't say so, has only its own.
///
/// # Errors
/// The manager can't be asked. A guess could run a command on the wrong host.
pub(in crate::cli) async fn are_hosts(manager: &Client) -> Result<bool, RpcError> {
    let mapping = match manager.call(Get { name: HOSTS_OF_RANKS.to_owned() }).await {
        Ok(found) => found.value.parse::<TaskMap>().ok(),
        Err(error) if error.errno == ENOENT => None,
        Err(error) => return Err(error),
    };
    Ok(mapping.is_some_and(|mapping| mapping.nnodes() > 1))
}
