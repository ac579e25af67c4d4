//! How long a start takes with many jobs in the store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::offline::Offline;
use super::throughput::Manager;
use super::{BenchError, CORES, jobspec};
use crate::daemon::statedir::StateDir;
use crate::rpc::services::job_list::GetStats;
use crate::store::{EmbeddedStore, Key, Op, Store as _};

/// How many jobs become inactive together while the store is filled.
const TOGETHER: u64 = 1000;

/// The result of the measurement.
#[derive(Debug, Clone, Copy)]
pub struct Restart {
    /// The number of inactive jobs.
    pub inactive: u64,
    /// The number of jobs that waited for resources.
    pub pending: u64,
    /// The time in which the store was filled, which isn't part of the measurement.
    pub filled: Duration,
    /// The time from the start to a manager that answers.
    pub started: Duration,
    /// The time from there until everything that the start leads to is durable.
    pub settled: Duration,
}

/// Fills a store, starts a manager on it, and counts its jobs.
///
/// # Errors
/// When a job is refused or lost, or the store fails.
pub async fn measure(inactive: u64, pending: u64) -> Result<Restart, BenchError> {
    let statedir = StateDir::temporary()?;
    let begin = Instant::now();
    fill(&statedir, inactive, pending)?;
    let filled = begin.elapsed();
    let begin = Instant::now();
    let manager = Manager::start(statedir).await?;
    let started = begin.elapsed();
    let stats = manager.client.call(GetStats {}).await?;
    let settled = begin.elapsed().saturating_sub(started);
    let states = stats.all.job_states;
    let found = [("inactive", inactive, states.inactive), ("pending", pending, states.sched)];
    manager.end().await;
    for (what, expected, found) in found {
        if expected != found {
            return Err(BenchError::Lost { what, expected, found });
        }
    }
    Ok(Restart { inactive, pending, filled, started, settled })
}

fn fill(statedir: &StateDir, inactive: u64, pending: u64) -> Result<(), BenchError> {
    let store = EmbeddedStore::open(&statedir.path().join("store"))?;
    // The first start makes the index, which isn't to be measured.
    store.commit(vec![Op::Put { key: Key::instance(Key::INDEXED)?, value: b"1".to_vec() }])?;
    let mut manager = Offline::new(Some(Arc::new(store)))?;
    for number in 1..=inactive {
        manager.submit(jobspec(1.0, 1, number)?)?;
        if number % TOGETHER == 0 || number == inactive {
            manager.pass(1.0 + TOGETHER.div_ceil(u64::from(CORES)) as f64)?;
        }
    }
    manager.submit(jobspec(0.0, u64::from(CORES), 0)?)?;
    for number in 1..=pending {
        manager.submit(jobspec(60.0, 1, number)?)?;
    }
    manager.end()
}
