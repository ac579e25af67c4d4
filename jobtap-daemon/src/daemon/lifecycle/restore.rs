//! Restores the jobs of an earlier run from the store into the engine. A job that cannot be restored is
//! moved out of the way.

use std::ops::ControlFlow;

use jobtap_core::engine::{
    ALLOCATION_LOG, ARRAY, ArrayKey, Engine, INSTANCE_DATA, Level, RESOURCE_LOG, RETAINED, Write,
};
use jobtap_core::job::{Encoding, JobId};
use serde_json::Value;

use super::start_error::StartError;
use super::stored_jobs::{self, Lost};
use crate::daemon::log::Log;
use crate::daemon::writes;
use crate::daemon::writes::index;
use crate::store::{GuestFiles, Key, Op, Store, StoreError};

/// How many rows of the index are written together.
const GROUP: usize = 4096;

/// Restores all jobs into the engine, and returns how many.
pub(super) fn all(
    store: &dyn Store,
    files: &GuestFiles,
    engine: &mut Engine,
    log: &Log,
) -> Result<usize, StartError> {
    let mut restored = 0;
    let mut lost = Vec::new();
    if store.get(&index::mark().map_err(StoreError::from)?)?.is_some() {
        stored_jobs::each(store, |job| match job {
            Ok(job) => {
                engine.restore(job);
                restored += 1;
            }
            Err(job) => lost.push(job),
        })?;
    } else {
        restored = unindexed(store, engine, &mut lost)?;
    }
    for Lost { id, reason } in lost {
        log.write(Level::Error, &format!("job {id} not replayed: {reason}"));
        set_aside(store, files, id)?;
    }
    Ok(restored)
}

/// Reads the keys of every job, and makes the index. Returns how many jobs are restored.
fn unindexed(
    store: &dyn Store,
    engine: &mut Engine,
    lost: &mut Vec<Lost>,
) -> Result<usize, StoreError> {
    let mut restored = 0;
    let (mut ops, mut failed) = (Vec::new(), None);
    store.scan_jobs(&stored_jobs::wanted, &mut |job| {
        match stored_jobs::read_whole(job) {
            Ok(job) => {
                failed = index_rows(store, job.row(), &mut ops).err();
                engine.restore(job);
                restored += 1;
            }
            Err(job) => lost.push(job),
        }
        if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    ops.push(Op::Put { key: index::mark()?, value: b"1".to_vec() });
    store.commit(ops)?;
    Ok(restored)
}

fn index_rows(store: &dyn Store, write: Write, ops: &mut Vec<Op>) -> Result<(), StoreError> {
    writes::push_ops(write, ops)?;
    if ops.len() < GROUP {
        return Ok(());
    }
    store.commit(std::mem::take(ops))
}

/// Returns the checkpoint: what the last run stored beside the jobs' own eventlogs.
pub(super) fn checkpoint(store: &dyn Store) -> Result<Option<Value>, StoreError> {
    let bytes = store.get(&Key::checkpoint())?;
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

/// Restores the allocations of an elastic instance. Without them the manager must not start: it could ask for one twice.
pub(super) fn allocations(store: &dyn Store, engine: &mut Engine) -> Result<(), StartError> {
    let key = Key::instance(ALLOCATION_LOG).map_err(StoreError::from)?;
    let text = store.read_log(&key)?.unwrap_or_default();
    Ok(engine.restore_allocations(&String::from_utf8_lossy(&text))?)
}

/// Restores the eventlog of nodes.
pub(super) fn nodes(store: &dyn Store, engine: &mut Engine, log: &Log) -> Result<(), StoreError> {
    let Ok(key) = Key::instance(RESOURCE_LOG) else { return Ok(()) };
    let text = store.read_log(&key)?.unwrap_or_default();
    if let Err(reason) = engine.restore_nodes(&String::from_utf8_lossy(&text)) {
        log.write(Level::Error, &format!("no node counts as drained any more: {reason}"));
    }
    Ok(())
}

/// Restores the data of plugins on the instance.
pub(super) fn instance_data(store: &dyn Store, engine: &mut Engine) -> Result<(), StoreError> {
    for key in store.list(INSTANCE_DATA)? {
        if let (Some(plugin), Some(value)) =
            (key.name().strip_prefix(INSTANCE_DATA), store.get(&key)?)
        {
            engine.restore_instance_data(plugin, &String::from_utf8_lossy(&value));
        }
    }
    Ok(())
}

/// Restores the resources that plugins retain.
pub(super) fn kept(store: &dyn Store, engine: &mut Engine, log: &Log) -> Result<(), StoreError> {
    for key in store.list(RETAINED)? {
        let (Some(of), Some(text)) = (key.name().strip_prefix(RETAINED), store.get(&key)?) else {
            continue;
        };
        if let Err(reason) = engine.restore_retained(of, &String::from_utf8_lossy(&text)) {
            log.write(Level::Error, &format!("{key}: no plugin keeps it any more: {reason}"));
        }
    }
    Ok(())
}

/// Restores the job arrays. The keys of one that can't be restored stay as they are, since its jobs refer to them.
pub(super) fn arrays(store: &dyn Store, engine: &mut Engine, log: &Log) -> Result<(), StoreError> {
    for key in store.list(ARRAY)? {
        let Some(id) = ArrayKey::array_of_log(key.name()) else { continue };
        let text = |bytes: Option<Vec<u8>>| String::from_utf8(bytes.unwrap_or_default());
        let value = |key: ArrayKey| -> Result<String, StoreError> {
            let stored = store.get(&Key::instance(&key.of(id))?)?;
            Ok(text(stored).unwrap_or_default())
        };
        let eventlog = text(store.read_log(&key)?).unwrap_or_default();
        let (jobspec, elements) = (value(ArrayKey::Jobspec)?, value(ArrayKey::Elements)?);
        if let Err(reason) = engine.restore_array(id, jobspec, &elements, &eventlog) {
            let text = format!("array {id}: no more of its elements become jobs: {reason}");
            log.write(Level::Error, &text);
        }
    }
    Ok(())
}

/// Moves all keys of a job below `job-lost+found`, so that the next start does not read them again and the
/// owner can examine them.
fn set_aside(store: &dyn Store, files: &GuestFiles, id: JobId) -> Result<(), StoreError> {
    let mut ops = Vec::new();
    let place = |name: &str| {
        Key::instance(&format!("{}{}.{name}", Key::LOST_JOB, id.encode(Encoding::F58)))
    };
    for key in store.list(&format!("{}.", id.encode(Encoding::Kvs)))? {
        let value = match store.get(&key)? {
            Some(value) => Some(value),
            None => store.read_log(&key)?,
        };
        if let (Some(value), Ok(key)) = (value, place(key.name())) {
            ops.push(Op::Put { key, value });
        }
    }
    for name in GuestFiles::names() {
        // A file that cannot be read would be of no use there.
        let value = files.read(id.as_u64(), name).ok().flatten();
        if let (Some(value), Ok(key)) = (value, place(name)) {
            ops.push(Op::Put { key, value });
        }
    }
    writes::push_ops(Write::Remove { id }, &mut ops)?;
    store.commit(ops)?;
    files.remove(id.as_u64());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jobtap_core::engine::{HostCheck, Setup};
    use jobtap_core::host::{NoReturn, Registry, Ticks};
    use jobtap_core::job::{Timestamp, Uid};
    use jobtap_core::jobspec::JobspecBuilder;
    use jobtap_core::resource::{Idset, ResourceSet};

    use super::*;
    use crate::store::memory::MemoryStore;

    fn engine() -> Engine {
        let setup = Setup {
            owner: Uid::new(0),
            resources: ResourceSet::single_host("host", Idset::from_iter([0])).unwrap(),
            config: Value::Null,
            config_directory: None,
            registry: Registry::default(),
            remote: Arc::new(NoReturn),
            ticks: Ticks::default(),
            host_check: HostCheck::default(),
        };
        Engine::new(Timestamp::from_secs(2.0), setup).unwrap()
    }

    #[test]
    fn a_damaged_job_is_set_aside_and_the_others_are_not() {
        let store = MemoryStore::default();
        let good = "{\"timestamp\":1.0,\"name\":\"submit\",\"context\":{\"userid\":1,\"urgency\":16,\"flags\":0,\"version\":1}}\n\
                    {\"timestamp\":1.0,\"name\":\"validate\"}\n";
        let jobspec = JobspecBuilder::new(["true"]).build().unwrap().value().to_string();
        for (id, log) in [(1, "garbage\n"), (2, good)] {
            let ops = vec![
                Op::Append { key: Key::eventlog(id), seq: 0, value: log.into() },
                Op::Put { key: Key::jobspec(id), value: jobspec.clone().into() },
            ];
            store.commit(ops).unwrap();
        }
        let dir = tempfile::tempdir().unwrap();
        let files = GuestFiles::new(dir.path());
        let output = files.path(1, "guest.output").unwrap();
        std::fs::create_dir(output.parent().unwrap()).unwrap();
        std::fs::write(&output, "hi").unwrap();
        let mut engine = engine();
        let log = Log::new(Level::Error);
        assert_eq!(all(&store, &files, &mut engine, &log).unwrap(), 1);
        assert!(!output.exists());
        assert_eq!(store.job_ids().unwrap(), [2]);
        let lost = store.list(Key::LOST_JOB).unwrap();
        let names: Vec<String> = lost.iter().map(Key::to_string).collect();
        let kept = ["eventlog", "guest.output", "jobspec"];
        assert_eq!(names, kept.map(|name| format!("job-lost+found.job.ƒ2.{name}")));
        let lines = log.lines();
        assert!(lines[0].text.starts_with("job ƒ2 not replayed: "), "{}", lines[0].text);
    }
}
