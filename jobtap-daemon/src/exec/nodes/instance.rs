//! What a manager knows of the instance that it is to make of its nodes, and why it can't.

use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jobtap_core::engine::AllocationId;
use jobtap_core::resource::Idset;

use super::admission::Admission;
use super::identity::{Identity, IdentityError};
use super::invitation::Invitation;
use super::wire::NodeInfo;

/// The nodes of an instance, as its manager expects them.
#[derive(Debug)]
pub struct Nodes {
    /// Where nodes connect.
    pub listener: TcpListener,
    /// Who belongs to the instance.
    pub identity: Identity,
    /// How many nodes there are, this one included.
    pub size: u32,
    /// This node, which has rank 0.
    pub own: NodeInfo,
    /// How long nodes may take to join.
    pub patience: Duration,
    /// How long a node may stay away before it is lost.
    pub grace: Duration,
    /// All nodes, once they have joined. A manager that is restarted goes on without those that don't join again.
    pub known: Mutex<Vec<NodeInfo>>,
    /// Who may join beyond these: the nodes of allocations, if the instance is elastic.
    pub admission: Option<Admission>,
}

impl Nodes {
    /// The name of an allocation of an elastic instance in the outer job manager.
    pub fn name_of(&self, id: AllocationId) -> String {
        self.admission.as_ref().map(|admission| admission.name(id)).unwrap_or_default()
    }

    /// What the nodes of an allocation need to join this elastic instance. They wait so long for a manager that is gone.
    pub fn invitation(&self, id: AllocationId, wait: Duration) -> String {
        let (Some(admission), Ok(address)) = (&self.admission, self.listener.local_addr()) else {
            return String::new();
        };
        Invitation::new(address, &self.identity, admission, id, wait).encode()
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Vec<NodeInfo>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nodes can't be used.
#[derive(Debug, thiserror::Error)]
pub enum NodesError {
    /// The system refuses something.
    #[error("the nodes can't be served: {0}")]
    System(#[from] io::Error),
    /// The identity can't be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// A node can't be one of this instance's.
    #[error("{0}")]
    Refused(String),
    /// Nodes are missing.
    #[error(
        "{} of {size} nodes have not joined within {} s: rank{} {missing}; see what the launcher says about them",
        missing.len(), patience.as_secs(), if missing.len() == 1 { "" } else { "s" }
    )]
    Missing {
        /// The size of the instance.
        size: u32,
        /// Their ranks.
        missing: Idset,
        /// How long they were waited for.
        patience: Duration,
    },
    /// The nodes of a killed manager can't be taken over.
    #[error(
        "the nodes of the last manager can't be taken over: {}: {reason}; without that file it starts on this host \
         alone", path.display()
    )]
    Saved {
        /// The file that says where they are.
        path: PathBuf,
        /// What is wrong.
        reason: io::Error,
    },
    /// The manager's own node has failed.
    #[error("this node can't be served")]
    Own,
}
