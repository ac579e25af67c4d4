//! The way to change an allocation: an event is written to the log, and applied.

use super::change::Change;
use super::{ALLOCATION_LOG, Allocations};
use crate::allocation::AllocationId;
use crate::api::{AllocationCommand, Effect, Level, Write};
use crate::turn::Turn;

/// Logs an event about an allocation, and applies it.
pub(super) fn post(turn: &mut Turn, allocations: &mut Allocations, change: &Change) {
    let at = turn.clock.now;
    allocations.apply(at, change);
    let (key, seq, line) =
        (ALLOCATION_LOG.to_owned(), allocations.lines, change.entry(at).encode());
    allocations.lines += 1;
    turn.effects.writes.push(Write::AppendInstance { key, seq, line });
    allocations.planner.note_change();
}

/// Gives an allocation back now.
pub(super) fn end(turn: &mut Turn, allocations: &mut Allocations, id: AllocationId, reason: &str) {
    let Some(known) = allocations.known.get(&id) else { return };
    let table = known.table.clone();
    turn.effects.log(Level::Info, format!("allocation {id} of {table} is given back: {reason}"));
    post(turn, allocations, &Change::End { id, reason: reason.to_owned() });
    turn.effects.after.push(Effect::Allocation(AllocationCommand::End { id, table }));
}
