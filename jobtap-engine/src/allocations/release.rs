//! Giving an allocation back: because a plan says so, or because its user asks for it.

use super::change::Change;
use super::state::State;
use super::{inventory, posting};
use crate::allocation::AllocationId;
use crate::api::RequestError;
use crate::core::Core;
use crate::host::errno::{EBUSY, ENOENT};
use crate::resource::Idset;

/// `allocation.release`: an allocation on order is cancelled. One that runs is given back when its jobs have ended; no new
/// ones start there.
///
/// # Errors
/// ENOENT if there is no such allocation, EBUSY if it is being given back.
pub(crate) fn release(core: &mut Core, id: AllocationId, reason: &str) -> Result<(), RequestError> {
    let Core { turn, alloc, timers, allocations, .. } = core;
    let Some(known) = allocations.known.get(&id) else {
        return Err(RequestError::new(ENOENT, format!("there is no allocation {id}")));
    };
    let has_jobs = alloc.pool.allocated().ranks().intersects(&known.ranks);
    match known.state {
        State::Running { .. } if has_jobs => {
            posting::post(turn, allocations, &Change::Drain { id, reason: reason.to_owned() });
        }
        State::Asked | State::Waiting { .. } | State::Running { .. } => {
            posting::end(turn, allocations, id, reason);
        }
        State::Draining { .. } | State::Ending { .. } => {
            let text = format!("allocation {id} is being given back already");
            return Err(RequestError::new(EBUSY, text));
        }
    }
    inventory::follow(turn, alloc, timers, allocations);
    Ok(())
}

/// Gives those back that were to be given back when their jobs have ended, and have no job now. `used` are the ranks with
/// jobs.
pub(super) fn end_drained(core: &mut Core, used: &Idset) {
    let Core { turn, allocations, .. } = core;
    let drained = allocations.known.iter().filter_map(|(id, known)| match &known.state {
        State::Draining { reason, .. } if !used.intersects(&known.ranks) => {
            Some((*id, reason.clone()))
        }
        _ => None,
    });
    for (id, reason) in drained.collect::<Vec<_>>() {
        posting::end(turn, allocations, id, &reason);
    }
}
