//! Allocations on demand: what an elastic instance asks another job manager for, what it does with what it gets, and that
//! it asks for nothing twice.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

mod bounds;
mod configuration;
mod ends;
mod history;
mod orders;
mod restart;

use std::num::NonZeroU64;

use jobtap_core::allocation::AllocationId;
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::{Value, json};

/// Asks for what pending jobs need of the first table that fits, and gives back what is idle.
#[derive(Default)]
struct Asks;

#[jobtap_plugin(name = "asks")]
impl Asks {
    #[on("job.state.priority", "job.priority.get")]
    fn priority(&self, job: &Job) -> Priority {
        Priority::new(u32::from(job.urgency().value()))
    }

    #[on("allocation.plan")]
    fn plan(&self, demand: &Demand) -> Plan {
        let mut plan = Plan::new();
        for table in &demand.tables {
            let (name, idle_time) = (&table.table.name, table.table.idle_time.as_secs());
            let needed = demand.pending.iter().filter_map(|jobs| {
                let fit = jobs.fits.first().filter(|fit| fit.table == *name)?;
                Some(jobs.count as f64 * fit.share())
            });
            let on_order = demand.of_table(name).filter(|known| known.is_on_order()).count();
            let more = (needed.sum::<f64>() - on_order as f64).ceil().max(0.0);
            plan = plan.order(name, more as u32);
            for idle in
                demand.of_table(name).filter(|known| known.idle_for(demand.now) >= idle_time)
            {
                plan = plan.release(idle.id);
            }
        }
        plan
    }
}

fn id(number: u64) -> AllocationId {
    AllocationId(NonZeroU64::new(number).unwrap())
}

/// A table of at most three allocations, each of a node with four cores for an hour.
fn small() -> Value {
    json!({"name": "small", "engine": "slurm", "cores": 4, "max": 3, "time-limit": "1h", "idle-time": "1m"})
}

/// The same table with other values.
fn small_with(more: Value) -> Value {
    let mut table = small();
    table.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    table
}

/// A manager whose allocations wait until the test starts them.
fn start(tables: Value) -> TestManager {
    let config = json!({ "allocation": tables });
    let mut m = TestManager::new().plugin::<Asks>().config(config).start();
    m.let_allocations_wait(f64::INFINITY);
    m
}

/// A job of four tasks, which fills a node.
fn job() -> TestJob {
    TestJob::new().ntasks(4)
}

/// The state of each allocation.
fn states(m: &TestManager) -> Vec<String> {
    let allocations = m.allocations()["allocations"].as_array().unwrap().clone();
    allocations.iter().map(|shown| shown["state"].as_str().unwrap().to_owned()).collect()
}

/// A value that is shown of the first table.
fn shown(m: &TestManager, key: &str) -> Value {
    m.allocations()["tables"][0][key].clone()
}
