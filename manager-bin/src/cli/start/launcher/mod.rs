//! The launcher of this process, if it has started one on each node of an allocation: `srun`, `flux run` or `mpiexec`.
//!
//! The processes of such a step are one instance. They learn from PMI who they are, and the first hands the others its
//! address and the identity of the instance, which nobody outside of the step can read.

mod descriptor;
#[cfg(feature = "fuzz")]
pub(in crate::cli) mod foreign;
mod pmi;
mod resources;

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobtap_core::job::TaskMap;
use jobtap_core::resource::ResourceSet;

use self::pmi::{Pmi, PmiError};
pub(super) use self::resources::{end_of_allocation, end_of_slurm_job, own_node};
use crate::cli::common::message::CliError;
use crate::exec::nodes::{Identity, IdentityError, NodeInfo, Nodes, own_address};

/// How long the other processes of the step may take to start, and then to join.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long nodes wait for a manager whose state is there for another one.
const WAIT_FOR_NEXT: Duration = Duration::from_secs(300);

/// How long a node may be away before its jobs are lost.
pub(super) const GRACE: Duration = Duration::from_secs(30);

/// The key of the address of the first process.
const ADDRESS: &str = "jobtap.address";

/// The key of the time that nodes wait for a manager that is gone, in seconds.
const WAIT: &str = "jobtap.wait";

/// The key of the instance's identity.
const IDENTITY: &str = "jobtap.identity";

/// The key of a process's host.
fn host_key(rank: u32) -> String {
    format!("jobtap.host.{rank}")
}

/// The key of the network that a process sees.
fn network_key(rank: u32) -> String {
    format!("jobtap.network.{rank}")
}

/// A name for the network that this process sees: that of its kernel's boot, and that of the network namespace. Processes
/// with the same name reach each other by the loopback.
fn own_network() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    let name = format!("{}/{}", boot.trim(), namespace.display());
    // A value of PMI has no blanks.
    name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-")
}

/// What this process is in the instance of its step.
pub(super) enum Place {
    /// The manager, and a node.
    Manager(Arc<Nodes>),
    /// A node.
    Node(Box<NodePlace>),
}

/// A node of the manager at this address.
pub(super) struct NodePlace {
    pub(super) address: SocketAddr,
    pub(super) identity: Identity,
    pub(super) info: NodeInfo,
    /// How long the node waits for a manager that is gone.
    pub(super) wait: Duration,
}

/// What this process knows of its step before it meets the others.
pub(super) struct Step<'a> {
    /// The connection to the launcher.
    pub(super) pmi: Option<File>,
    /// The resources of the job of another manager that the step is.
    pub(super) given: Option<&'a ResourceSet>,
    /// How long a node may be away before it is lost.
    pub(super) grace: Duration,
    /// Whether another manager can take over the state of this one.
    pub(super) is_kept: bool,
}

/// Why the processes of a step don't become an instance.
#[derive(Debug, thiserror::Error)]
pub(super) enum LauncherError {
    /// The launcher has started several processes, but serves no PMI.
    #[error(
        "this is task {rank} of a step of {size}, and its launcher offers no PMI, by which the tasks would find each \
         other: start it with `srun --mpi=pmi2`"
    )]
    NoPmi { rank: u32, size: u32 },
    /// PMI doesn't work.
    #[error("the launcher's PMI: {0}")]
    Pmi(#[from] PmiError),
    /// The identity can't be made or read.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Two processes are on one host.
    #[error(
        "tasks {first} and {second} are both on {host}: start one on each node, as with --ntasks-per-node=1"
    )]
    SameHost { first: u32, second: u32, host: String },
    /// A job has not one task for each of its nodes.
    #[error(
        "this job has {size} tasks on {nodes} nodes: an instance has one on each, as with --tasks-per-node=1"
    )]
    NotOnePerNode { size: u32, nodes: usize },
    /// The tasks of a job are in another order than its nodes.
    #[error(
        "task {rank} of this job is on its node number {node}: the tasks of an instance have the order of its nodes, as \
         they have without `-o taskmap`"
    )]
    OtherOrder { rank: u32, node: u64 },
    /// A job of several nodes has no PMI.
    #[error(
        "this job has {nodes} nodes, and offers no PMI, by which they would find each other: leave out `-o pmi=off`"
    )]
    NoPmiOfJob { nodes: usize },
    /// The first process says nothing that makes sense.
    #[error("the first task says how long to wait: {0:?}, which is no number")]
    BadWait(String),
    /// This host can't be reached by the others.
    #[error("no address at which the other nodes reach this host: {0}")]
    Address(std::io::Error),
    /// Another host is known by its name only.
    #[error(
        "task {rank} is on {host}, a name without an address here: the hosts of a step have to know each other by name, as \
         in /etc/hosts"
    )]
    UnknownHost { rank: u32, host: String },
    /// The address that the first process has handed over isn't one.
    #[error("the first task has handed over no address: {0:?}")]
    BadAddress(String),
    /// The resources of this node can't be found out.
    #[error(transparent)]
    Resources(#[from] crate::daemon::resources::ResourceError),
}

impl From<LauncherError> for CliError {
    fn from(error: LauncherError) -> Self {
        Self::failure(error)
    }
}

/// The connection to the launcher that the environment names, if it is open.
pub(super) fn take_descriptor() -> Option<File> {
    let number = std::env::var("PMI_FD").ok()?.parse().ok()?;
    descriptor::take(number)
}

/// The place of this process in a step of several; `None` if it is alone.
///
/// # Errors
/// The others can't be found, or can't be nodes of one instance.
pub(super) fn place(step: Step<'_>) -> Result<Option<Place>, LauncherError> {
    let Step { pmi, given, grace, is_kept } = step;
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    if number("PMI_SIZE") == Some(1) {
        if let Some(given) = given {
            return Err(LauncherError::NotOnePerNode { size: 1, nodes: given.nnodes() });
        }
        // Not a word to the launcher: a program that comes after this one in the same task may want to use PMI.
        return Ok(None);
    }
    let Some(mut pmi) = pmi.map(Pmi::connect_as_told).transpose()? else {
        if let Some(given) = given {
            return Err(LauncherError::NoPmiOfJob { nodes: given.nnodes() });
        }
        // Slurm has many ways to start the tasks of a step, of which only this one lets them find each other.
        return match (number("SLURM_STEP_NUM_TASKS"), number("SLURM_PROCID")) {
            (Some(size), Some(rank)) if size > 1 => Err(LauncherError::NoPmi { rank, size }),
            _ => Ok(None),
        };
    };
    let (rank, size) = (pmi.rank(), pmi.size());
    let info = match given {
        Some(given) => {
            let nodes = given.nnodes();
            let one = || usize::try_from(size).ok().filter(|size| *size == nodes);
            let found = one().and_then(|_| resources::given_node(given, rank));
            let found = found.ok_or(LauncherError::NotOnePerNode { size, nodes })?;
            check_order(size, pmi.task_map().as_ref())?;
            found
        }
        None => own_node(rank)?,
    };
    pmi.put(&host_key(rank), &info.host)?;
    pmi.put(&network_key(rank), &own_network())?;
    pmi.barrier(PATIENCE)?;
    let place = if rank == 0 {
        let hosts = (0..size).map(|rank| pmi.get(&host_key(rank)));
        let hosts: Vec<String> = hosts.collect::<Result<_, _>>()?;
        check_hosts(&hosts)?;
        let networks = (0..size).map(|rank| pmi.get(&network_key(rank)));
        let networks: Vec<String> = networks.collect::<Result<_, _>>()?;
        let listener = listen(&hosts, &networks)?;
        let address = listener.local_addr().map_err(LauncherError::Address)?;
        let identity = Identity::new()?;
        pmi.put(ADDRESS, &address.to_string())?;
        pmi.put(IDENTITY, &identity.encode())?;
        // Nobody comes for a temporary state.
        let wait = if is_kept { WAIT_FOR_NEXT.max(grace) } else { grace };
        pmi.put(WAIT, &wait.as_millis().div_ceil(1000).to_string())?;
        pmi.barrier(PATIENCE)?;
        let patience = PATIENCE;
        let nodes = Nodes {
            listener,
            identity,
            size,
            own: info,
            patience,
            grace,
            known: Mutex::default(),
            admission: None,
        };
        Place::Manager(Arc::new(nodes))
    } else {
        pmi.barrier(PATIENCE)?;
        let address = pmi.get(ADDRESS)?;
        let address = address.parse().map_err(|_| LauncherError::BadAddress(address.clone()))?;
        let identity = Identity::decode(&pmi.get(IDENTITY)?)?;
        let wait = pmi.get(WAIT)?;
        let wait = wait.parse().map_err(|_| LauncherError::BadWait(wait.clone()))?;
        let wait = Duration::from_secs(wait);
        Place::Node(Box::new(NodePlace { address, identity, info, wait }))
    };
    pmi.finalize()?;
    Ok(Some(place))
}

/// Checks that each task is on the node of its number. All tasks come to the same result, so that none waits for others.
fn check_order(size: u32, map: Option<&TaskMap>) -> Result<(), LauncherError> {
    let Some(map) = map else { return Ok(()) };
    let place = |rank: u32| map.node_of(rank.into()).map(|node| (rank, node));
    let mut places = (0..size).filter_map(place);
    match places.find(|(rank, node)| u64::from(*rank) != *node) {
        Some((rank, node)) => Err(LauncherError::OtherOrder { rank, node }),
        None => Ok(()),
    }
}

fn check_hosts(hosts: &[String]) -> Result<(), LauncherError> {
    let mut seen = std::collections::BTreeMap::new();
    for (rank, host) in (0..).zip(hosts) {
        if let Some(first) = seen.insert(host, rank) {
            let host = host.clone();
            return Err(LauncherError::SameHost { first, second: rank, host });
        }
    }
    Ok(())
}

/// Listens where the other hosts reach this one.
fn listen(hosts: &[String], networks: &[String]) -> Result<TcpListener, LauncherError> {
    let is_elsewhere = |network: &String| Some(network) != networks.first();
    let other = (0..).zip(hosts).zip(networks).find(|(_, network)| is_elsewhere(network));
    let own = match other {
        Some(((rank, host), _)) => {
            let unknown = || LauncherError::UnknownHost { rank, host: host.clone() };
            let other = addresses(host).into_iter().next().ok_or_else(unknown)?;
            own_address(other).map_err(LauncherError::Address)?
        }
        // Nodes that are simulated on this host.
        None => IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    TcpListener::bind((own, 0)).map_err(LauncherError::Address)
}

fn addresses(host: &str) -> Vec<IpAddr> {
    let found = (host, 0).to_socket_addrs();
    found.into_iter().flatten().map(|address| address.ip()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_tasks_on_a_host_are_refused_by_their_ranks() {
        let hosts = ["n1", "n2", "n1"].map(str::to_owned);
        let refused = check_hosts(&hosts).unwrap_err().to_string();
        assert!(refused.starts_with("tasks 0 and 2 are both on n1: "), "{refused}");
        assert!(check_hosts(&hosts[..2]).is_ok());
    }

    #[test]
    fn tasks_in_another_order_than_their_nodes_are_refused() {
        let order = |map: &str| check_order(2, Some(&map.parse().unwrap()));
        assert!(check_order(2, None).is_ok() && order("(vector,(0,2,1))").is_ok());
        let refused = order("(vector,(1,1,1),(0,1,1))").unwrap_err().to_string();
        assert!(refused.starts_with("task 0 of this job is on its node number 1: "), "{refused}");
    }

    #[test]
    fn nodes_of_this_host_meet_on_its_loopback() {
        let hosts = ["n1", "n2"].map(str::to_owned);
        let networks = [own_network(), own_network()];
        assert!(listen(&hosts, &networks).unwrap().local_addr().unwrap().ip().is_loopback());
    }

    #[test]
    fn another_host_without_an_address_is_named() {
        let hosts = ["n1", "n2", "no-such-host.invalid"].map(str::to_owned);
        let networks = ["a", "a", "b"].map(str::to_owned);
        let refused = listen(&hosts, &networks).unwrap_err().to_string();
        assert!(refused.starts_with("task 2 is on no-such-host.invalid, "), "{refused}");
    }
}
