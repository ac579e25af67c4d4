//! Which nodes are there, by which names and until when, as far as allocations decide that.

use std::collections::BTreeMap;

use serde_json::{Map, json};

use super::Allocations;
use crate::alloc::{Allocation, node_events};
use crate::resource::{Idset, ResourceError};
use crate::timers::Timers;
use crate::turn::Turn;

impl Allocations {
    /// The ranks whose nodes have joined.
    pub(super) fn joined(&self) -> Idset {
        self.known.values().flat_map(|known| known.joined.keys().copied()).collect()
    }

    /// The hosts of the nodes that have joined, by rank.
    fn hosts(&self) -> BTreeMap<u32, String> {
        let joined = self.known.values().flat_map(|known| &known.joined);
        joined.map(|(rank, host)| (*rank, host.clone())).collect()
    }
}

/// Makes the inventory of the tables and of the hosts that have joined. Jobs keep what they have.
pub(super) fn rebuild(
    allocations: &Allocations,
    alloc: &mut Allocation,
) -> Result<(), ResourceError> {
    let before = &alloc.nodes.inventory;
    let mut resources = allocations.tables.resources(before, &allocations.hosts())?;
    resources.set_expiration(before.expiration().unwrap_or(0.0))?;
    alloc.pool.set_inventory(&resources, &alloc.nodes.excluded);
    alloc.nodes.inventory = resources;
    Ok(())
}

/// Takes the ranks offline whose nodes haven't joined. No event says so: at the start of a manager they are, and what
/// happens to them later is logged.
pub(crate) fn take_unjoined_offline(allocations: &Allocations, alloc: &mut Allocation) {
    let (ranks, joined) = (allocations.tables.ranks(), allocations.joined());
    let unjoined = ranks.difference(&joined);
    alloc.nodes.offline = alloc.nodes.offline.union(&unjoined);
}

/// Tells the pool which nodes take no new jobs, and when nodes will be gone.
pub(super) fn follow(
    turn: &mut Turn,
    alloc: &mut Allocation,
    timers: &mut Timers,
    allocations: &Allocations,
) {
    let leaving = allocations.known.values().filter(|known| known.is_leaving());
    alloc.nodes.closed = leaving.fold(Idset::new(), |ranks, known| ranks.union(&known.ranks));
    let ends = allocations.known.values();
    alloc
        .pool
        .set_ends(ends.filter_map(|known| Some((known.ranks.clone(), known.ends_at()?.as_secs()))));
    node_events::refresh_pool(turn, alloc, timers);
}

/// Shows the inventory to those who watch the nodes.
pub(super) fn define(turn: &mut Turn, alloc: &mut Allocation, timers: &mut Timers) {
    let context = [("method", json!("allocation"))];
    node_events::define(turn, alloc, timers, context);
}

/// Takes a node online that has joined under its own name.
pub(super) fn take_online(
    turn: &mut Turn,
    alloc: &mut Allocation,
    timers: &mut Timers,
    allocations: &Allocations,
    rank: u32,
) {
    // The name was checked before it was logged.
    if rebuild(allocations, alloc).is_ok() {
        define(turn, alloc, timers);
    }
    node_events::post(turn, alloc, timers, "online", &Idset::from(rank), Map::new());
    follow(turn, alloc, timers, allocations);
}

/// Takes the nodes of an allocation that has ended out of use. The places of those that had `joined` are those of other hosts
/// from now on, so that they are not drained either.
pub(super) fn take_away(
    turn: &mut Turn,
    alloc: &mut Allocation,
    timers: &mut Timers,
    allocations: &Allocations,
    ranks: &Idset,
    joined: &Idset,
) {
    let drained = alloc.nodes.drained_ranks().intersection(joined);
    node_events::post(turn, alloc, timers, "undrain", &drained, Map::new());
    let online = ranks.difference(&alloc.nodes.offline);
    node_events::post(turn, alloc, timers, "offline", &online, Map::new());
    if !online.is_empty() || !drained.is_empty() {
        let rebuilt = rebuild(allocations, alloc);
        if rebuilt.is_ok() {
            define(turn, alloc, timers);
        }
    }
    follow(turn, alloc, timers, allocations);
}
