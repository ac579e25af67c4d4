//! The jobs of an earlier run: read from the store, given to the engine, and set aside one by one
//! where that is impossible.

use std::ops::ControlFlow;

use jobtap_core::engine::{Engine, INSTANCE_DATA, Level, StoredJob};
use jobtap_core::job::{Encoding, JobId};
use serde_json::{Map, Value};

use super::log::Log;
use crate::store::{self, Key, Op, Store, StoreError};

/// Prefix of a plugin's data on a job.
const DATA: &str = "data.";
/// Where jobs go that can't be restored.
const LOST: &str = "job-lost+found.job.";

/// Restores all jobs into the engine; returns how many.
pub(super) fn all(store: &dyn Store, engine: &mut Engine, log: &Log) -> Result<usize, StoreError> {
    let mut restored = 0;
    let mut lost = Vec::new();
    store.scan_jobs(&wanted, &mut |job| {
        let id = JobId::new(job.id);
        let outcome =
            stored_job(&job).and_then(|job| engine.restore(job).map_err(|error| error.to_string()));
        match outcome {
            Ok(()) => restored += 1,
            Err(reason) => lost.push((id, reason)),
        }
        ControlFlow::Continue(())
    })?;
    for (id, reason) in lost {
        log.write(Level::Error, &format!("job {id} not replayed: {reason}"));
        set_aside(store, id)?;
    }
    Ok(restored)
}

/// What the last run put down beside the jobs' own logs.
pub(super) fn checkpoint(store: &dyn Store) -> Result<Option<Value>, StoreError> {
    let bytes = store.get(&Key::checkpoint())?;
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

/// Gives the engine what plugins stored on the instance.
pub(super) fn instance_data(store: &dyn Store, engine: &mut Engine) -> Result<(), StoreError> {
    for key in store.list(INSTANCE_DATA)? {
        if let (Some(plugin), Some(value)) =
            (key.as_str().strip_prefix(INSTANCE_DATA), store.get(&key)?)
        {
            engine.restore_instance_data(plugin, &String::from_utf8_lossy(&value));
        }
    }
    Ok(())
}

fn wanted(name: &str) -> bool {
    matches!(name, "eventlog" | "jobspec" | "R" | "guest.exec.eventlog") || name.starts_with(DATA)
}

/// A job's keys in the form that the engine takes; the error says which key is unusable.
fn stored_job(job: &store::StoredJob) -> Result<StoredJob, String> {
    let text = |name: &str| {
        job.get(name)
            .map(|bytes| {
                String::from_utf8(bytes.to_vec()).map_err(|error| format!("{name}: {error}"))
            })
            .transpose()
    };
    let required =
        |name: &str| text(name)?.ok_or_else(|| format!("lookup {name}: No such file or directory"));
    let exec_lines = job.get("guest.exec.eventlog").unwrap_or_default();
    let mut data = Map::new();
    for entry in &job.entries {
        let Some(plugin) = entry.name.strip_prefix(DATA) else {
            continue;
        };
        let value = serde_json::from_slice(&entry.value)
            .map_err(|error| format!("{}: {error}", entry.name))?;
        data.insert(plugin.to_owned(), value);
    }
    Ok(StoredJob {
        id: JobId::new(job.id),
        eventlog: required("eventlog")?,
        jobspec: required("jobspec")?,
        resources: text("R")?,
        exec_lines: exec_lines.iter().filter(|byte| **byte == b'\n').count() as u64,
        data,
    })
}

/// Moves all keys of a job out of the way, so that the next start doesn't meet them again and the
/// owner can look at them.
fn set_aside(store: &dyn Store, id: JobId) -> Result<(), StoreError> {
    let mut ops = Vec::new();
    for key in store.list(&format!("{}.", id.encode(Encoding::Kvs)))? {
        let value = match store.get(&key)? {
            Some(value) => Some(value),
            None => store.read_log(&key)?,
        };
        let place = format!("{LOST}{}.{}", id.encode(Encoding::F58), key.name());
        if let (Some(value), Ok(key)) = (value, Key::instance(&place)) {
            ops.push(Op::Put { key, value });
        }
    }
    ops.push(Op::RemoveJob(id.as_u64()));
    store.commit(ops)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
    use std::sync::Arc;

    use jobtap_core::engine::Setup;
    use jobtap_core::job::{Timestamp, Uid};
    use jobtap_core::jobspec::JobspecBuilder;
    use jobtap_core::plugin::{Registry, RemoteCall, RemoteSink, Ticks};
    use jobtap_core::resource::{Idset, ResourceSet};

    use super::*;
    use crate::store::StoredEntry;
    use crate::store::memory::MemoryStore;

    struct Nowhere;

    impl RemoteSink for Nowhere {
        fn send(&self, _call: RemoteCall) {}
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
        let setup = Setup {
            owner: Uid::new(0),
            resources: ResourceSet::single_host("host", Idset::from_iter([0])).unwrap(),
            config: Value::Null,
            registry: Registry::default(),
            remote: Arc::new(Nowhere),
            ticks: Ticks::default(),
        };
        let mut engine = Engine::new(Timestamp::from_secs(2.0), setup).unwrap();
        let log = Log::new(Level::Error);
        assert_eq!(all(&store, &mut engine, &log).unwrap(), 1);
        assert_eq!(store.job_ids().unwrap(), [2]);
        let lost = store.list(LOST).unwrap();
        let names: Vec<&str> = lost.iter().map(Key::as_str).collect();
        assert_eq!(names, ["job-lost+found.job.ƒ2.eventlog", "job-lost+found.job.ƒ2.jobspec"]);
        let lines = log.lines();
        assert!(lines[0].text.starts_with("job ƒ2 not replayed: "), "{}", lines[0].text);
    }

    fn job(entries: &[(&str, &str)]) -> store::StoredJob {
        let entries = entries.iter().map(|(name, value)| StoredEntry {
            name: (*name).to_owned(),
            value: value.as_bytes().to_vec(),
            next_seq: None,
        });
        store::StoredJob { id: 7, entries: entries.collect() }
    }

    #[test]
    fn a_job_without_jobspec_is_named_by_the_missing_key() {
        let error = stored_job(&job(&[("eventlog", "")])).unwrap_err();
        assert_eq!(error, "lookup jobspec: No such file or directory");
    }

    #[test]
    fn data_of_plugins_come_back_by_plugin() {
        let stored = stored_job(&job(&[
            ("data.fairshare", "{\"n\":1}"),
            ("eventlog", "x"),
            ("guest.exec.eventlog", "a\nb\n"),
            ("jobspec", "{}"),
        ]))
        .unwrap();
        assert_eq!(stored.data["fairshare"]["n"], 1);
        assert_eq!(stored.exec_lines, 2);
        assert_eq!(stored.resources, None);
        assert!(stored_job(&job(&[("data.x", "{"), ("eventlog", ""), ("jobspec", "")])).is_err());
    }
}
