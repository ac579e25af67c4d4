//! The tables in the configuration, at the start and at run time.

use serde_json::Value;

use super::{Allocations, inventory};
use crate::alloc::Allocation;
use crate::allocation::{AllocationId, TableError, Tables};
use crate::resource::{Idset, ResourceError, ResourceSet};
use crate::timers::Timers;
use crate::turn::Turn;

/// Why tables can't come into force.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TablesError {
    #[error("{0}")]
    Table(#[from] TableError),
    /// The instance has nodes of its own.
    #[error(
        "allocation: an instance with such tables has no nodes but the manager's own host, rank 0, and those of its \
         allocations; here it has the ranks {0}: remove resource.config and the like, or the tables"
    )]
    OwnNodes(Idset),
    #[error("allocation: the first table can't be added while the manager runs: start it again")]
    First,
    #[error("allocation: the last table can't be removed while the manager runs: start it again")]
    Last,
    /// An allocation would lose its places.
    #[error(
        "allocation: allocation {id} of {table} has the ranks {ranks}, which the tables give to nothing or to others: \
         release it first (jobtap allocation release {id}), or leave this table and those before it as large as they are"
    )]
    InUse {
        /// The allocation.
        id: AllocationId,
        /// Its table.
        table: String,
        /// Its places.
        ranks: Idset,
    },
    #[error("allocation: {0}")]
    Resources(#[from] ResourceError),
}

/// Reads the tables at the start, and makes the inventory of an elastic instance.
pub(crate) fn at_start(
    config: &Value,
    own: ResourceSet,
) -> Result<(Allocations, ResourceSet), TablesError> {
    let tables = Tables::read(config)?;
    if tables.is_empty() {
        return Ok((Allocations::new(tables), own));
    }
    if own.ranks() != Idset::from(0) {
        return Err(TablesError::OwnNodes(own.ranks()));
    }
    let mut resources = tables.resources(&own, &Default::default())?;
    resources.set_expiration(own.expiration().unwrap_or(0.0))?;
    Ok((Allocations::new(tables), resources))
}

impl Allocations {
    /// Checks that tables leave every allocation its places.
    pub(super) fn check_places(&self, tables: &Tables) -> Result<(), TablesError> {
        let keeps = |name: &str, ranks: &Idset| {
            let new = tables.get(name)?;
            let same = self.tables.get(name).is_none_or(|old| old.children() == new.children());
            let has = (0..new.max).any(|slot| new.slot(slot) == *ranks);
            (same && has).then_some(())
        };
        let lost = self.known.iter().find(|(_, known)| keeps(&known.table, &known.ranks).is_none());
        match lost {
            None => Ok(()),
            Some((id, known)) => Err(TablesError::InUse {
                id: *id,
                table: known.table.clone(),
                ranks: known.ranks.clone(),
            }),
        }
    }
}

/// Brings the tables of a new configuration into force, at run time.
pub(crate) fn reconfigure(
    turn: &mut Turn,
    alloc: &mut Allocation,
    timers: &mut Timers,
    allocations: &mut Allocations,
    config: &Value,
) -> Result<(), TablesError> {
    let tables = Tables::read(config)?;
    if tables == allocations.tables {
        return Ok(());
    }
    match (allocations.tables.is_empty(), tables.is_empty()) {
        (true, false) => return Err(TablesError::First),
        (false, true) => return Err(TablesError::Last),
        _ => allocations.check_places(&tables)?,
    }
    allocations.tables = tables;
    allocations.planner.note_change();
    inventory::rebuild(allocations, alloc)?;
    let ranks = alloc.nodes.inventory.ranks();
    alloc.nodes.offline = alloc.nodes.offline.intersection(&ranks);
    // Other places may have these ranks now.
    let joined = allocations.joined();
    alloc.nodes.drained.retain(|rank, _| *rank == 0 || joined.contains(*rank));
    inventory::take_unjoined_offline(allocations, alloc);
    inventory::define(turn, alloc, timers);
    inventory::follow(turn, alloc, timers, allocations);
    Ok(())
}
