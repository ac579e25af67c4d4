//! `.allocation-plan`: asks for the allocations that pending jobs need, keeps as many as a table says, and gives back those
//! without a job.
//!
//! Jobs are looked at in their order of priority. What is on order counts first; the rest goes to the first table that could
//! run them and may have more allocations. A plugin that handles `allocation.plan` too has the last word.

use std::collections::BTreeMap;

use jobtap_core::allocation::AllocationId;
use jobtap_core::plugin::{OrderedAllocation, Supply, TableState};
use jobtap_core::prelude::*;

/// The plugin `.allocation-plan`.
#[derive(Debug, Default)]
pub struct AllocationPlan {
    /// Since when no job has needed these, which are on order.
    unneeded: BTreeMap<AllocationId, Timestamp>,
}

#[jobtap_plugin(name = ".allocation-plan")]
impl AllocationPlan {
    #[on("allocation.plan")]
    fn plan(&mut self, demand: &Demand) -> Plan {
        let mut needs: Vec<Need<'_>> =
            demand.tables.iter().map(|table| Need::new(table, demand)).collect();
        cover(&mut needs, demand);
        let before = std::mem::take(&mut self.unneeded);
        for id in needs.iter().flat_map(|need| need.unneeded(demand)) {
            let since = before.get(&id).copied().unwrap_or(demand.now);
            self.unneeded.insert(id, since);
        }
        needs.iter().fold(Plan::new(), |plan, need| need.add_to(plan, demand, &self.unneeded))
    }
}

/// What a table has on order, and what pending jobs need of it, in allocations.
struct Need<'a> {
    table: &'a TableState,
    /// What is on order and has no job planned for it yet.
    coming: f64,
    /// The most that can be asked for.
    room: f64,
    /// What is needed beyond what is on order, and for how many jobs.
    more: f64,
    jobs: u64,
}

impl<'a> Need<'a> {
    fn new(table: &'a TableState, demand: &Demand) -> Self {
        let nodes = f64::from(table.table.nodes);
        let coming = demand.of_table(&table.table.name).map(|allocation| match allocation.supply {
            Supply::OnOrder { .. } => 1.0,
            Supply::Running { joined, .. } => (nodes - f64::from(joined)).max(0.0) / nodes,
            Supply::Leaving => 0.0,
        });
        let room = f64::from(table.can_order());
        Self { table, coming: coming.sum(), room, more: 0.0, jobs: 0 }
    }

    /// Those on order for which no job is planned: the last ones, since the first ones start first.
    fn unneeded(&self, demand: &Demand) -> impl Iterator<Item = AllocationId> {
        let on_order = demand.of_table(&self.table.table.name).filter(|known| known.is_on_order());
        let mut on_order: Vec<AllocationId> = on_order.map(|known| known.id).collect();
        // `as` saturates, and cuts off.
        let count = (self.coming + 1e-9) as usize;
        let first = on_order.len().saturating_sub(count);
        on_order.drain(..first);
        on_order.into_iter()
    }

    /// Adds orders and releases of this table to a plan.
    fn add_to(
        &self,
        plan: Plan,
        demand: &Demand,
        unneeded: &BTreeMap<AllocationId, Timestamp>,
    ) -> Plan {
        let table = &self.table.table;
        let of_table = || demand.of_table(&table.name);
        let present = of_table().filter(|allocation| allocation.supply != Supply::Leaving).count();
        let present = u32::try_from(present).unwrap_or(u32::MAX);
        // Less than a billionth is a rounding error. `as` saturates.
        let needed = match self.jobs >= u64::from(table.backlog) {
            true => (self.more - 1e-9).ceil().max(0.0) as u32,
            false => 0,
        };
        let kept = table.min.saturating_sub(present);
        let count = needed.max(kept).min(self.table.can_order());
        if count > 0 {
            return plan.order(&table.name, count);
        }
        let mut spare = present.saturating_sub(table.min);
        let idle_time = table.idle_time.as_secs();
        of_table().fold(plan, |plan, allocation| {
            let since = unneeded.get(&allocation.id);
            let is_spare = match allocation.supply {
                Supply::OnOrder { .. } => {
                    since.is_some_and(|since| demand.now - *since >= idle_time)
                }
                Supply::Running { .. } => is_idle(allocation, demand, idle_time),
                Supply::Leaving => false,
            };
            if !is_spare || spare == 0 {
                return plan;
            }
            spare -= 1;
            plan.release(allocation.id)
        })
    }
}

/// Whether an allocation has had no job for the idle time of its table.
fn is_idle(allocation: &OrderedAllocation, demand: &Demand, idle_time: f64) -> bool {
    let idle_for = allocation.idle_for(demand.now);
    idle_for > 0.0 && idle_for >= idle_time
}

/// Plans the pending jobs for what is on order, and then for more.
fn cover(needs: &mut [Need<'_>], demand: &Demand) {
    let places: BTreeMap<String, usize> =
        needs.iter().enumerate().map(|(at, need)| (need.table.table.name.clone(), at)).collect();
    for jobs in &demand.pending {
        // As many as are left, also parts of jobs: an allocation may run several.
        let mut left = jobs.count as f64;
        for fit in &jobs.fits {
            let Some(need) = places.get(&fit.table).and_then(|at| needs.get_mut(*at)) else {
                continue;
            };
            let taken = need.coming.min(left * fit.share());
            need.coming -= taken;
            left -= taken / fit.share();
        }
        for fit in &jobs.fits {
            let Some(need) = places.get(&fit.table).and_then(|at| needs.get_mut(*at)) else {
                continue;
            };
            let taken = (need.room - need.more).max(0.0).min(left * fit.share());
            if taken > 0.0 {
                need.more += taken;
                need.jobs += (taken / fit.share()).ceil() as u64;
                left -= taken / fit.share();
            }
        }
    }
}
