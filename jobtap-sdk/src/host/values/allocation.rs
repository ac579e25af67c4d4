//! What `allocation.plan` passes and returns: the demand for allocations, and the plan that meets it.

use serde_json::Value;

use crate::allocation::{AllocationId, Table};
use crate::job::Timestamp;
use crate::jobspec::Counts;

/// What an elastic instance needs and has, as handlers of `allocation.plan` see it.
///
/// The pending jobs are those that have a priority above 0 in a started queue and that nothing running leaves room for: the
/// scheduler has looked at them before.
///
/// ```
/// # use jobtap_core::prelude::*;
/// /// Asks for one allocation at a time, of the first table that can run a pending job.
/// #[derive(Default)]
/// struct OneByOne;
///
/// #[jobtap_plugin(name = "one-by-one")]
/// impl OneByOne {
///     #[on("allocation.plan")]
///     fn plan(&self, demand: &Demand) -> Plan {
///         let mut plan = Plan::new();
///         for idle in demand.allocations.iter().filter(|a| a.idle_for(demand.now) > 60.0) {
///             plan = plan.release(idle.id);
///         }
///         let on_order = demand.allocations.iter().any(|allocation| allocation.is_on_order());
///         match demand.pending.iter().find_map(|jobs| jobs.fits.first()) {
///             Some(fit) if !on_order => plan.order(&fit.table, 1),
///             _ => plan,
///         }
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Demand {
    /// The time of the call.
    pub now: Timestamp,
    /// The tables `[[allocation]]`, in the order of the configuration.
    pub tables: Vec<TableState>,
    /// The pending jobs, in groups of equal ones.
    pub pending: Vec<PendingJobs>,
    /// Further pending jobs, which aren't in `pending`: at most 10,000 jobs in 200 groups are looked at, and of a job array
    /// only the elements that come next.
    pub more_pending: u64,
    /// The allocations that are on order or running, by id.
    pub allocations: Vec<OrderedAllocation>,
}

impl Demand {
    /// A table by its name.
    pub fn table(&self, name: &str) -> Option<&TableState> {
        self.tables.iter().find(|table| table.table.name == name)
    }

    /// The allocations of a table.
    pub fn of_table(&self, name: &str) -> impl Iterator<Item = &OrderedAllocation> {
        self.allocations.iter().filter(move |allocation| allocation.table == name)
    }
}

/// A table `[[allocation]]`, and what can be asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct TableState {
    /// What the configuration says.
    pub table: Table,
    /// How many more allocations it may have.
    pub free_slots: u32,
    /// How often the outer job manager has refused in a row.
    pub refusals: u32,
    /// The seconds until the table can be asked for an allocation again, after a refusal or too many requests in an hour; 0
    /// if it can be now.
    pub wait: f64,
    /// The core hours of the last 24 hours: what ended allocations have used, and what is granted to the others.
    pub core_hours: f64,
}

impl TableState {
    /// How many allocations with the table's own time limit can be asked for now: within its free slots and its core hours,
    /// none while it has to wait.
    pub fn can_order(&self) -> u32 {
        if self.wait > 0.0 {
            return 0;
        }
        let each =
            self.table.time_limit.map_or(0.0, |limit| self.table.core_hours(limit.as_secs()));
        match self.table.core_hours_per_day {
            Some(most) if each > 0.0 => {
                // `as` saturates, and cuts off.
                let left = ((most - self.core_hours).max(0.0) / each) as u32;
                self.free_slots.min(left)
            }
            Some(most) if self.core_hours >= most => 0,
            _ => self.free_slots,
        }
    }
}

/// Pending jobs that ask for the same.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingJobs {
    /// How many.
    pub count: u64,
    /// What each of them asks for.
    pub counts: Counts,
    /// The time limit of each, in seconds; `None` without one.
    pub time_limit: Option<f64>,
    /// Their queue.
    pub queue: Option<String>,
    /// Their constraint on nodes (RFC 31).
    pub constraint: Option<Value>,
    /// When the first of them was submitted.
    pub since: Timestamp,
    /// The tables whose allocations could run them, in the order of the tables. Empty if none could: then no allocation
    /// should be asked for.
    pub fits: Vec<Fit>,
}

/// How jobs fit into the allocations of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The table's name.
    pub table: String,
    /// How many of the jobs one allocation runs at once, at least 1.
    pub jobs: u32,
    /// How many allocations one job needs: 1, unless it has more nodes than an allocation.
    pub allocations: u32,
}

impl Fit {
    /// The part of an allocation that one job needs.
    pub fn share(&self) -> f64 {
        f64::from(self.allocations) / f64::from(self.jobs.max(1))
    }
}

/// An allocation that was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderedAllocation {
    /// Its id.
    pub id: AllocationId,
    /// Its table's name.
    pub table: String,
    /// Where it is.
    pub supply: Supply,
    /// When it was asked for.
    pub asked: Timestamp,
    /// Its time limit in seconds, if it was asked for with one.
    pub time_limit: Option<f64>,
}

/// What an allocation gives.
#[derive(Debug, Clone, PartialEq)]
pub enum Supply {
    /// Nothing yet: the outer job manager has not answered, or lets it wait.
    OnOrder {
        /// Why it waits, in the outer job manager's word.
        reason: Option<String>,
    },
    /// It runs, and jobs start there.
    Running {
        /// When it ends at the latest.
        ends_at: Option<Timestamp>,
        /// How many of its nodes have joined.
        joined: u32,
        /// Since when it has had no job.
        idle_since: Option<Timestamp>,
    },
    /// It is being given back: no job starts there any more.
    Leaving,
}

impl OrderedAllocation {
    /// Whether it is on order, so that pending jobs can count on it.
    pub fn is_on_order(&self) -> bool {
        matches!(self.supply, Supply::OnOrder { .. })
    }

    /// For how many seconds it has had no job; 0 if it has one, or doesn't run.
    pub fn idle_for(&self, now: Timestamp) -> f64 {
        match self.supply {
            Supply::Running { idle_since: Some(since), .. } => now - since,
            _ => 0.0,
        }
    }
}

/// What to do about allocations: the return value of a handler of `allocation.plan`.
///
/// The manager carries it out within the bounds of each table (`max`, `core-hours-per-day`, `requests-per-hour`, the delay
/// after refusals): what goes beyond is left out.
///
/// ```
/// use jobtap_core::plugin::Plan;
///
/// let plan = Plan::new().order("small", 2).order_for("large", 1, 3600.0);
/// assert_eq!(plan.orders()[1].time_limit, Some(3600.0));
/// assert!(plan.releases().is_empty());
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    orders: Vec<PlannedOrder>,
    releases: Vec<AllocationId>,
}

/// Allocations to ask for.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedOrder {
    /// The table's name.
    pub table: String,
    /// How many.
    pub count: u32,
    /// The time limit of each in seconds; `None` is that of the table. A longer one than the table's is cut.
    pub time_limit: Option<f64>,
}

impl Plan {
    /// Nothing is asked for, and nothing given back.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for allocations of a table, with the table's time limit.
    pub fn order(mut self, table: &str, count: u32) -> Self {
        self.orders.push(PlannedOrder { table: table.to_owned(), count, time_limit: None });
        self
    }

    /// Asks for allocations with a time limit of so many seconds.
    pub fn order_for(mut self, table: &str, count: u32, seconds: f64) -> Self {
        let time_limit = Some(seconds);
        self.orders.push(PlannedOrder { table: table.to_owned(), count, time_limit });
        self
    }

    /// Gives an allocation back. If it is on order it is cancelled; if it has jobs, no new ones start there, and it is
    /// given back when they have ended.
    pub fn release(mut self, id: AllocationId) -> Self {
        self.releases.push(id);
        self
    }

    /// What is asked for, in this order.
    pub fn orders(&self) -> &[PlannedOrder] {
        &self.orders
    }

    /// What is given back.
    pub fn releases(&self) -> &[AllocationId] {
        &self.releases
    }
}
