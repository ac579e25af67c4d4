//! What the host reports about allocations. A report that says nothing new is dropped, so that the host can repeat one.

use super::change::Change;
use super::state::State;
use super::{inventory, loss, posting};
use crate::allocation::AllocationId;
use crate::api::{AllocationEvent, Level};
use crate::core::Core;
use crate::job::Timestamp;
use crate::resource::{Hostlist, Idset};

/// Handles a report.
pub(crate) fn handle(core: &mut Core, event: AllocationEvent) {
    let id = event.id();
    let Some(known) = core.allocations.known.get_mut(&id) else {
        // An earlier report was the last one.
        return;
    };
    match event {
        AllocationEvent::Ordered { job, .. } => {
            if known.job().is_none() {
                posting::post(&mut core.turn, &mut core.allocations, &Change::Ordered { id, job });
            }
        }
        AllocationEvent::Refused { reason, .. } => refused(core, id, reason),
        AllocationEvent::Waits { reason, .. } => match &mut known.state {
            State::Waiting { reason: known, .. } => *known = Some(reason),
            State::Asked => known.unanswered = Some(reason),
            State::Running { .. } | State::Draining { .. } | State::Ending { .. } => {}
        },
        AllocationEvent::Started { ends_at, .. } => started(core, id, ends_at),
        AllocationEvent::Joined { rank, host, .. } => joined(core, id, rank, host),
        AllocationEvent::Ended { reason, .. } => ended(core, id, reason),
    }
}

fn refused(core: &mut Core, id: AllocationId, reason: String) {
    let Some(known) = core.allocations.known.get(&id) else { return };
    if known.started().is_some() {
        return ended(core, id, reason);
    }
    let text = format!("allocation {id} of {} is refused: {reason}", known.table);
    let Core { turn, alloc, timers, allocations, .. } = core;
    turn.effects.log(Level::Warning, text);
    posting::post(turn, allocations, &Change::Refused { id, reason });
    inventory::follow(turn, alloc, timers, allocations);
}

fn started(core: &mut Core, id: AllocationId, ends_at: Option<Timestamp>) {
    let Core { turn, alloc, timers, allocations, .. } = core;
    let Some(known) = allocations.known.get(&id) else { return };
    let is_new = match known.state {
        State::Asked | State::Waiting { .. } => true,
        State::Running { .. } | State::Draining { .. } => known.ends_at() != ends_at,
        State::Ending { .. } => false,
    };
    if is_new {
        let ends_at = ends_at.map(Timestamp::as_secs);
        posting::post(turn, allocations, &Change::Started { id, ends_at });
        inventory::follow(turn, alloc, timers, allocations);
    }
}

fn joined(core: &mut Core, id: AllocationId, rank: u32, host: String) {
    // A node shows that its allocation runs, even if the outer job manager hasn't said so.
    if core.allocations.known.get(&id).is_some_and(|known| known.is_on_order()) {
        started(core, id, None);
    }
    let Core { turn, alloc, timers, allocations, .. } = core;
    let Some(known) = allocations.known.get(&id) else { return };
    let is_new = known.joined.get(&rank) != Some(&host);
    let is_name = host.parse::<Hostlist>().is_ok_and(|hosts| hosts.len() == 1);
    if !known.ranks.contains(rank) || !is_name || matches!(known.state, State::Ending { .. }) {
        let text = format!("allocation {id}: node {host:?} can't have rank {rank}");
        return turn.effects.log(Level::Error, text);
    }
    if is_new {
        posting::post(turn, allocations, &Change::Joined { id, rank, host });
    }
    if is_new || alloc.nodes.offline.contains(rank) {
        inventory::take_online(turn, alloc, timers, allocations, rank);
    }
}

/// Handles the end of an allocation.
fn ended(core: &mut Core, id: AllocationId, reason: String) {
    let Core { turn, allocations, .. } = &mut *core;
    let Some(known) = allocations.known.get(&id) else { return };
    let ranks = known.ranks.clone();
    let joined: Idset = known.joined.keys().copied().collect();
    turn.effects
        .log(Level::Info, format!("allocation {id} of {} has ended: {reason}", known.table));
    posting::post(turn, allocations, &Change::Ended { id, reason });
    allocations.planner.note_loss();
    // Before its hosts lose their names.
    loss::end_jobs_on(core, &ranks);
    let Core { turn, alloc, timers, allocations, .. } = core;
    inventory::take_away(turn, alloc, timers, allocations, &ranks, &joined);
}
