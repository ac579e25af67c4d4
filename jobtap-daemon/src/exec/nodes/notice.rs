//! What the hub says about the nodes of allocations.

use jobtap_core::engine::AllocationId;

/// Takes what the hub says.
pub(super) type Notify = Box<dyn Fn(Notice) + Send>;

/// What has happened to the nodes of an allocation.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// A node has joined this manager, and takes jobs.
    Joined {
        /// The allocation.
        id: AllocationId,
        /// The node's place.
        rank: u32,
        /// The name of its host.
        host: String,
        /// When the allocation ends (UNIX seconds), if the node knows.
        ends_at: Option<f64>,
        /// By how many seconds its clock, by which `ends_at` is, is ahead of the manager's; 0 if the two agree by and
        /// large.
        ahead: f64,
    },
    /// Its nodes can't be used.
    Refused {
        /// The allocation.
        id: AllocationId,
        /// Why, in words.
        reason: String,
    },
    /// One of its nodes was told to end, or its connection has ended: the allocation may be over.
    Cut {
        /// The allocation.
        id: AllocationId,
    },
    /// All of its nodes are lost.
    Lost {
        /// The allocation.
        id: AllocationId,
        /// Why, in words.
        reason: String,
    },
    /// Its nodes were told to end, and none of them is connected any more.
    Empty {
        /// The allocation.
        id: AllocationId,
    },
}

impl Notice {
    /// The allocation.
    pub fn id(&self) -> AllocationId {
        match *self {
            Self::Joined { id, .. }
            | Self::Refused { id, .. }
            | Self::Cut { id }
            | Self::Lost { id, .. }
            | Self::Empty { id } => id,
        }
    }
}
