//! What pending jobs need, in groups of equal jobs, and which tables could run them.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use super::state::State;
use super::{Allocations, Ordered};
use crate::allocation::{AllocationId, Table};
use crate::core::Core;
use crate::job::{JobId, Timestamp};
use crate::jobs::Record;
use crate::jobspec::{Counts, Jobspec};
use crate::plugin::{Demand, Fit, OrderedAllocation, PendingJobs, Supply, TableState};
use crate::resource::{Idset, ResourceSet};
use crate::sched::Pool;

/// The most pending jobs that are looked at. With these, every table has as many allocations as it may have.
const MOST_JOBS: usize = 10_000;

/// The most groups of equal jobs.
const MOST_GROUPS: usize = 200;

/// The most seconds of an allocation that are left for its nodes to join, before a job with a time limit starts; of a short
/// one a tenth is left.
const JOINING: f64 = 60.0;

/// What the instance needs and has.
pub(super) fn gather(core: &Core) -> Demand {
    let now = core.turn.clock.now;
    let (pending, more_pending) = pending(core);
    let allocations = &core.allocations;
    let tables = allocations.tables.iter();
    let drained = core.alloc.nodes.drained_ranks();
    Demand {
        now,
        tables: tables.map(|table| table_state(allocations, table, &drained, now)).collect(),
        pending,
        more_pending,
        allocations: allocations.known.iter().map(|(id, known)| ordered(*id, known)).collect(),
    }
}

fn table_state(
    allocations: &Allocations,
    table: &Table,
    drained: &Idset,
    now: Timestamp,
) -> TableState {
    let history = allocations.histories.get(&table.name);
    let next = history.and_then(|history| history.next_try(now, table.requests_per_hour));
    let free = allocations.free_slots(table, drained).count();
    TableState {
        table: table.clone(),
        free_slots: u32::try_from(free).unwrap_or(u32::MAX),
        refusals: history.map_or(0, |history| history.refusals),
        wait: next.map_or(0.0, |next| next - now),
        core_hours: allocations.core_hours(table, now),
    }
}

fn ordered(id: AllocationId, known: &Ordered) -> OrderedAllocation {
    let supply = match &known.state {
        State::Asked => Supply::OnOrder { reason: None },
        State::Waiting { reason, .. } => Supply::OnOrder { reason: reason.clone() },
        State::Running { ends_at, idle_since, .. } => Supply::Running {
            ends_at: *ends_at,
            joined: u32::try_from(known.joined.len()).unwrap_or(u32::MAX),
            idle_since: *idle_since,
        },
        State::Draining { .. } | State::Ending { .. } => Supply::Leaving,
    };
    let (table, asked, time_limit) = (known.table.clone(), known.asked, known.time_limit);
    OrderedAllocation { id, table, supply, asked, time_limit }
}

/// What makes jobs equal, apart from their constraints.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    counts: Counts,
    time_limit: Option<u64>,
    queue: Option<String>,
}

/// The groups of pending jobs, in the order of their first jobs, and the number of jobs that are in none.
fn pending(core: &Core) -> (Vec<PendingJobs>, u64) {
    let queues = &core.alloc.alloc_queues;
    let mut groups: Vec<PendingJobs> = Vec::new();
    let mut known: FxHashMap<Key, Vec<usize>> = FxHashMap::default();
    let (fitter, mut counted) = (Fitter::new(core), 0);
    let ids = queues.pending().flat_map(|queue| queue.all());
    for record in ids.take(MOST_JOBS).filter_map(|id: JobId| core.jobs.get(id)) {
        let spec = &record.job.kept().jobspec;
        let time_limit = time_limit(spec);
        let key = Key {
            counts: spec.counts(),
            time_limit: time_limit.map(f64::to_bits),
            queue: spec.queue().map(str::to_owned),
        };
        let constraint = spec.constraints();
        let same = |index: &&usize| {
            groups.get(**index).is_some_and(|group| group.constraint.as_ref() == constraint)
        };
        let (at, since) = match known.entry(key) {
            Entry::Occupied(places) if places.get().iter().any(|index| same(&index)) => {
                let at = places.get().iter().find(same).copied();
                (at, record.job.t_submit())
            }
            _ if groups.len() == MOST_GROUPS => continue,
            entry => {
                let key = entry.key();
                let group = PendingJobs {
                    count: 0,
                    counts: key.counts,
                    time_limit,
                    queue: key.queue.clone(),
                    constraint: constraint.cloned(),
                    since: record.job.t_submit(),
                    fits: fitter.fits(spec),
                };
                entry.or_default().push(groups.len());
                groups.push(group);
                (groups.len().checked_sub(1), record.job.t_submit())
            }
        };
        if let Some(group) = at.and_then(|at| groups.get_mut(at)) {
            group.count += 1;
            counted += 1;
            if since < group.since {
                group.since = since;
            }
        }
    }
    // Elements of arrays are pending jobs before they are needed: those that wait would be asked for like these.
    let all = queues.len() as u64 + core.arrays.waiting();
    (groups, all.saturating_sub(counted))
}

/// A job's time limit in seconds.
fn time_limit(spec: &Jobspec) -> Option<f64> {
    Some(spec.duration()).filter(|limit| *limit > 0.0 && limit.is_finite())
}

/// The tables that could run a job.
pub(super) fn fits_of(core: &Core, record: &Record) -> Vec<Fit> {
    Fitter::new(core).fits(&record.job.kept().jobspec)
}

/// Whether a table would have room for a job, if the job's time limit were shorter.
pub(super) fn fits_but_for_time(core: &Core, record: &Record) -> bool {
    let spec = &record.job.kept().jobspec;
    Fitter::new(core).places.iter().any(|place| place.fit(spec).is_some())
}

/// Finds out which tables could run a job.
struct Fitter<'a> {
    places: Vec<TablePlaces<'a>>,
}

/// The places of a table's nodes as if nothing ran there.
struct TablePlaces<'a> {
    table: &'a Table,
    /// Those of one allocation.
    one: Pool,
    /// All.
    whole: Pool,
}

impl<'a> Fitter<'a> {
    fn new(core: &'a Core) -> Self {
        let all = core.alloc.pool.all();
        let pool = |ranks: &Idset| Pool::new(&all.with_ranks(ranks));
        let places = core.allocations.tables.iter().map(|table| TablePlaces {
            table,
            one: pool(&table.slot(0)),
            whole: pool(&table.ranks()),
        });
        Self { places: places.collect() }
    }

    fn fits(&self, spec: &Jobspec) -> Vec<Fit> {
        let limit = time_limit(spec);
        let long_enough =
            |place: &&TablePlaces<'_>| limit.is_none_or(|limit| limit <= longest_job(place.table));
        self.places.iter().filter(long_enough).filter_map(|place| place.fit(spec)).collect()
    }
}

/// The longest time limit with which a job starts in an allocation of a table, in seconds.
fn longest_job(table: &Table) -> f64 {
    let limit = table.time_limit.map_or(f64::INFINITY, |limit| limit.as_secs());
    limit - JOINING.min(limit / 10.0)
}

impl TablePlaces<'_> {
    fn fit(&self, spec: &Jobspec) -> Option<Fit> {
        let table = self.table.name.clone();
        if let Some(chosen) = self.one.choose_from(self.one.all(), spec) {
            return Some(Fit { table, jobs: self.jobs_at_once(&chosen), allocations: 1 });
        }
        let chosen = self.whole.choose_from(self.whole.all(), spec)?;
        let nodes = u32::try_from(chosen.nnodes()).unwrap_or(u32::MAX);
        Some(Fit { table, jobs: 1, allocations: nodes.div_ceil(self.table.nodes) })
    }

    /// How many jobs one allocation runs at once, if one gets `chosen`.
    fn jobs_at_once(&self, chosen: &ResourceSet) -> u32 {
        let most = |count: fn(&Idset) -> usize, of: fn(&ResourceSet, u32) -> Idset| {
            chosen.ranks().iter().map(|rank| count(&of(chosen, rank))).max().unwrap_or(0)
        };
        let cores = most(Idset::len, |set, rank| {
            set.rank(rank).map(|node| node.cores().clone()).unwrap_or_default()
        });
        let gpus = most(Idset::len, |set, rank| {
            set.rank(rank).map(|node| node.gpus().clone()).unwrap_or_default()
        });
        let times = |all: u32, each: usize| match u32::try_from(each) {
            Ok(each) if each > 0 => all / each,
            _ => u32::MAX,
        };
        // Each node of a job may be shared with so many others.
        let per_node = times(self.table.cores, cores).min(times(self.table.gpus, gpus));
        let nodes = u32::try_from(chosen.nnodes()).unwrap_or(u32::MAX).max(1);
        (u64::from(per_node) * u64::from(self.table.nodes) / u64::from(nodes))
            .clamp(1, u64::from(u32::MAX)) as u32
    }
}
