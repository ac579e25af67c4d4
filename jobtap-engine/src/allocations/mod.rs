//! Allocations on demand: an elastic instance asks another job manager for nodes as its queue needs them.
//!
//! Everything that happens to an allocation is an event in `allocation.eventlog`, which is durable before the outer job
//! manager is asked for anything; a replay of that log gives the state. So a manager that is killed orders nothing twice and
//! forgets nothing.
//!
//! | file | what it holds |
//! |---|---|
//! | `change`, `state`, `history` | the events; what they make of an allocation; what they leave behind for its table |
//! | this one | the part of the engine that owns all of these |
//! | `inventory` | which nodes are there, by which names and until when |
//! | `loss` | what becomes of jobs whose nodes are gone |
//! | `posting` | the way to change an allocation |
//! | `reports` | what the host reports |
//! | `demand`, `planning` | what pending jobs need; when plugins are asked for a plan, and how it is carried out |
//! | `tables` | the configuration, at the start and at run time |
//! | `restart` | how a manager continues |
//! | `listing`, `why` | what clients read |

mod change;
mod demand;
mod history;
pub(super) mod inventory;
pub(super) mod listing;
pub(super) mod loss;
pub(super) mod planning;
mod posting;
pub(super) mod release;
pub(super) mod reports;
pub(super) mod restart;
mod state;
pub(super) mod tables;
pub(super) mod why;

pub use restart::AllocationLogError;

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use self::change::Change;
use self::history::History;
use self::planning::Planner;
use self::state::{Ordered, State};
use crate::allocation::{AllocationId, Table, Tables};
use crate::job::Timestamp;
use crate::resource::Idset;

/// The instance key of the eventlog of allocations.
pub const ALLOCATION_LOG: &str = "allocation.eventlog";

/// The tables of an elastic instance, and the allocations that it has asked for.
#[derive(Debug, Default)]
pub(super) struct Allocations {
    pub(super) tables: Tables,
    /// The allocations that haven't ended.
    known: BTreeMap<AllocationId, Ordered>,
    /// What has happened with each table, by its name.
    histories: BTreeMap<String, History>,
    /// The highest id so far.
    newest: u64,
    /// The number of events in the log.
    lines: u64,
    planner: Planner,
}

impl Allocations {
    pub(super) fn new(tables: Tables) -> Self {
        Self { tables, ..Self::default() }
    }

    /// The id of the next allocation.
    fn next_id(&self) -> AllocationId {
        // No instance ever asks 2^64 times.
        AllocationId(NonZeroU64::MIN.saturating_add(self.newest))
    }

    /// Applies one event, to an allocation in a state that allows it; in another it changes nothing.
    fn apply(&mut self, at: Timestamp, change: &Change) {
        let id = change.id();
        if let Change::Order { table, ranks, time_limit, .. } = change {
            self.newest = self.newest.max(id.0.get());
            self.histories.entry(table.clone()).or_default().requests.push_back(at);
            self.known.insert(id, Ordered::new(table, ranks, *time_limit, at));
            return;
        }
        let Some(allocation) = self.known.get_mut(&id) else { return };
        let history = self.histories.entry(allocation.table.clone()).or_default();
        let wanted = matches!(allocation.state, State::Ending { .. });
        match change {
            Change::Refused { reason, .. } if !wanted => history.note_refusal(at, reason),
            Change::Joined { .. } => history.note_success(),
            Change::Ended { reason, .. } => {
                if allocation.joined.is_empty() && !wanted {
                    history.note_refusal(at, reason);
                }
                let cores = self.tables.get(&allocation.table).map_or(0, |table| table.cores);
                if let Some(from) = allocation.started() {
                    let cores = u64::from(cores) * allocation.ranks.len() as u64;
                    history.note_use(from, at, cores);
                }
            }
            _ => {}
        }
        match change.is_last() {
            true => drop(self.known.remove(&id)),
            false => allocation.apply(at, change),
        }
    }

    /// The allocations of a table.
    fn of_table(&self, name: &str) -> impl Iterator<Item = (AllocationId, &Ordered)> {
        let of_table = move |(_, known): &(&AllocationId, &Ordered)| known.table == name;
        self.known.iter().filter(of_table).map(|(id, known)| (*id, known))
    }

    /// The places of a table that no allocation has, each as ranks. Those of which some are `drained` are left out.
    fn free_slots<'a>(
        &'a self,
        table: &'a Table,
        drained: &Idset,
    ) -> impl Iterator<Item = Idset> + use<'a> {
        let known = self.of_table(&table.name);
        let taken = known.fold(drained.clone(), |ranks, (_, known)| ranks.union(&known.ranks));
        (0..table.max).map(|slot| table.slot(slot)).filter(move |slot| !slot.intersects(&taken))
    }

    /// The core hours of a table in the last 24 hours: what ended allocations have used, and what is granted to the others.
    fn core_hours(&self, table: &Table, now: Timestamp) -> f64 {
        let used = self.histories.get(&table.name).map_or(0.0, |history| history.core_hours(now));
        let granted = self.of_table(&table.name).map(|(_, known)| {
            let limit = known.time_limit.unwrap_or(0.0);
            table.core_hours(known.started().map_or(limit, |from| limit.max(now - from)))
        });
        used + granted.sum::<f64>()
    }
}
