//! What passes between the engine and the host about allocations on demand: commands one way, events the other.
//!
//! For an order the host reports [`Ordered`](AllocationEvent::Ordered) or [`Refused`](AllocationEvent::Refused); after
//! `Ordered` any number of [`Waits`](AllocationEvent::Waits), then [`Started`](AllocationEvent::Started), then
//! [`Joined`](AllocationEvent::Joined) for each node; and at last, at any time after `Ordered`,
//! [`Ended`](AllocationEvent::Ended), with or without an [`End`](AllocationCommand::End) before it. The last report of an
//! allocation is `Refused` or `Ended`.

use crate::allocation::AllocationId;
use crate::job::Timestamp;
use crate::resource::Idset;

/// A request to the host about an allocation.
#[derive(Debug, Clone, PartialEq)]
pub enum AllocationCommand {
    /// Ask the outer job manager of the table for an allocation. The host names it outside such that it finds it again.
    Order {
        /// The allocation.
        id: AllocationId,
        /// The table, by name.
        table: String,
        /// The places of its nodes.
        ranks: Idset,
        /// Its time limit in seconds; `None` leaves it to the outer job manager.
        time_limit: Option<f64>,
        /// An earlier manager may have asked for it before it was killed, so the host looks for it first.
        again: bool,
    },
    /// After a restart: an allocation that an earlier manager has asked for, to be watched as if it had been ordered now.
    /// What has happened meanwhile is reported.
    Follow {
        /// The allocation.
        id: AllocationId,
        /// The table, by name.
        table: String,
        /// The places of its nodes.
        ranks: Idset,
        /// Its id outside.
        job: String,
        /// Whether it was reported as started.
        started: bool,
        /// The nodes that have joined: their ranks and hosts.
        joined: Vec<(u32, String)>,
    },
    /// Cancel it, waiting or running. The host reports that it has ended. After a restart this may come again, without
    /// [`Follow`](Self::Follow): then the host looks for the allocation, and reports the end if there is none.
    End {
        /// The allocation.
        id: AllocationId,
        /// The table, by name.
        table: String,
    },
}

impl AllocationCommand {
    /// The allocation that the command is about.
    pub fn id(&self) -> AllocationId {
        match *self {
            Self::Order { id, .. } | Self::Follow { id, .. } | Self::End { id, .. } => id,
        }
    }
}

/// What the host reports about an allocation.
#[derive(Debug, Clone, PartialEq)]
pub enum AllocationEvent {
    /// The outer job manager has taken the request.
    Ordered {
        /// The allocation.
        id: AllocationId,
        /// Its id outside.
        job: String,
    },
    /// The outer job manager doesn't take the request. Nothing is on order.
    Refused {
        /// The allocation.
        id: AllocationId,
        /// Why, in words.
        reason: String,
    },
    /// It isn't running yet, or before [`Ordered`](Self::Ordered), the outer job manager doesn't answer.
    Waits {
        /// The allocation.
        id: AllocationId,
        /// Why, in the outer job manager's word, such as `Priority` or `QOSMaxJobsPerUser`.
        reason: String,
    },
    /// It runs. Its nodes will join.
    Started {
        /// The allocation.
        id: AllocationId,
        /// When it ends at the latest.
        ends_at: Option<Timestamp>,
    },
    /// A node has joined. The engine takes the rank online.
    Joined {
        /// The allocation.
        id: AllocationId,
        /// The node's place.
        rank: u32,
        /// The name of its host.
        host: String,
    },
    /// It has ended, by itself or as the engine has asked, or there is none any more. The engine takes its ranks offline.
    Ended {
        /// The allocation.
        id: AllocationId,
        /// Why, in words: cancelled, expired, preempted, lost.
        reason: String,
    },
}

impl AllocationEvent {
    /// The allocation that the event is about.
    pub fn id(&self) -> AllocationId {
        match *self {
            Self::Ordered { id, .. }
            | Self::Refused { id, .. }
            | Self::Waits { id, .. }
            | Self::Started { id, .. }
            | Self::Joined { id, .. }
            | Self::Ended { id, .. } => id,
        }
    }
}
