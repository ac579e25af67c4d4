//! Whether the ranks of a manager are hosts: of an instance in an allocation they are, and else all are the manager's own
//! host.

use jobtap_core::job::TaskMap;

use crate::client::Client;
use crate::daemon::attributes::HOSTS_OF_RANKS;
use crate::rpc::services::attr::Get;

/// Whether each rank of this manager is a host of its own. A manager that doesn't say so has only its own.
pub(in crate::cli) async fn are_hosts(manager: &Client) -> bool {
    let mapping = manager.call(Get { name: HOSTS_OF_RANKS.to_owned() }).await;
    let mapping = mapping.ok().and_then(|found| found.value.parse::<TaskMap>().ok());
    mapping.is_some_and(|mapping| mapping.nnodes() > 1)
}
