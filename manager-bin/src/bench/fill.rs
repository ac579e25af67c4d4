//! Fills a store with jobs, as fast as the engine and the store alone allow.

use std::path::Path;
use std::sync::Arc;

use jobtap_core::engine::Writes;
use jobtap_core::host::Registry;

use super::error::BenchError;
use super::offline::{Changes, Offline};
use super::process::ManagerSetup;
use super::{CORES, jobspec};
use crate::store::{EmbeddedStore, Key, Op, Store as _};

/// How many jobs become inactive together.
const TOGETHER: u64 = 1000;

/// Fills the store of a state directory.
///
/// # Errors
/// When a job is refused, or the store fails.
pub(super) fn fill(statedir: &Path, setup: &ManagerSetup) -> Result<(), BenchError> {
    let store = EmbeddedStore::open(&statedir.join("store"))?;
    // Marks the index as complete: otherwise the first start would make it, which must not be measured.
    store.commit(vec![Op::Put { key: Key::instance(Key::INDEXED)?, value: b"1".to_vec() }])?;
    let mut changes = Changes::new(Arc::new(store));
    let mut manager = Offline::new(setup.config.clone(), Registry::linked()?)?;
    for number in 1..=setup.inactive {
        changes.take(manager.submit(jobspec(1.0, 1, number)?)?)?;
        if number.is_multiple_of(TOGETHER) || number == setup.inactive {
            let seconds = 1.0 + TOGETHER.div_ceil(u64::from(CORES)) as f64;
            manager.pass(seconds, |effects| changes.take(effects))?;
        }
    }
    if setup.pending > 0 {
        // This job has all cores, so that all others wait.
        changes.take(manager.submit(jobspec(0.0, u64::from(CORES), 0)?)?)?;
    }
    for number in 1..=setup.pending {
        changes.take(manager.submit(jobspec(60.0, 1, number)?)?)?;
    }
    // The checkpoint that an orderly shutdown writes.
    let checkpoint = manager.engine().checkpoint();
    changes.take(Writes::from(vec![checkpoint]).into())?;
    changes.commit()
}
