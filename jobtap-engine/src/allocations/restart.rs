//! How a manager continues with the allocations of an earlier one.

use super::change::{Change, ChangeError};
use super::state::State;
use super::tables::TablesError;
use super::{ALLOCATION_LOG, inventory, loss};
use crate::api::{AllocationCommand, Effect};
use crate::core::Core;
use crate::eventlog::{LogError, decode_log};

/// Why the allocations of an earlier manager aren't known.
#[derive(Debug, thiserror::Error)]
pub enum AllocationLogError {
    /// The log can't be read.
    #[error("{ALLOCATION_LOG} is damaged: {0}")]
    Log(#[from] LogError),
    /// An event of it can't be read.
    #[error("{ALLOCATION_LOG} is damaged: {0}")]
    Event(#[from] ChangeError),
    /// The configuration has no place for an allocation that may still run.
    #[error("{0}; start with the former tables, and wait until it has ended")]
    Tables(String),
}

impl From<TablesError> for AllocationLogError {
    fn from(error: TablesError) -> Self {
        Self::Tables(error.to_string())
    }
}

/// Restores the allocations from their stored log.
pub(crate) fn restore(core: &mut Core, log: &str) -> Result<(), AllocationLogError> {
    let Core { alloc, allocations, .. } = core;
    allocations.lines = log.lines().count() as u64;
    for entry in decode_log(log)? {
        let change = Change::read(&entry)?;
        allocations.apply(entry.timestamp, &change);
    }
    allocations.check_places(&allocations.tables)?;
    if !allocations.tables.is_empty() {
        // The hosts were checked before they were logged.
        inventory::rebuild(allocations, alloc).map_err(TablesError::from)?;
    }
    Ok(())
}

/// Tells the host about the allocations of an earlier manager, and ends the jobs whose nodes were gone before it ended.
pub(crate) fn resume(core: &mut Core) {
    let Core { turn, alloc, timers, allocations, .. } = &mut *core;
    if allocations.tables.is_empty() {
        return;
    }
    inventory::follow(turn, alloc, timers, allocations);
    for (id, known) in &allocations.known {
        let (id, table, ranks) = (*id, known.table.clone(), known.ranks.clone());
        let command = match &known.state {
            State::Asked => {
                let time_limit = known.time_limit;
                AllocationCommand::Order { id, table, ranks, time_limit, again: true }
            }
            State::Waiting { job, .. }
            | State::Running { job, .. }
            | State::Draining { job, .. } => {
                let (job, started) = (job.clone(), known.started().is_some());
                let joined = known.joined.iter().map(|(rank, host)| (*rank, host.clone()));
                let joined = joined.collect();
                AllocationCommand::Follow { id, table, ranks, job, started, joined }
            }
            State::Ending { .. } => AllocationCommand::End { id, table },
        };
        turn.effects.after.push(Effect::Allocation(command));
    }
    loss::end_jobs_without_nodes(core);
}
