//! Restores the jobs of an earlier run from the store into the engine. A job that cannot be restored is
//! moved out of the way.

use std::ops::ControlFlow;

use jobtap_core::engine::{Engine, INSTANCE_DATA, Level, RESOURCE_LOG, RETAINED, StoredJob, Write};
use jobtap_core::job::{Encoding, JobId};
use serde_json::{Map, Value};

use super::StartError;
use super::summaries::{self, Indexed};
use crate::daemon::log::Log;
use crate::daemon::writes;
use crate::daemon::writes::index;
use crate::store::{self, GuestFiles, Key, Op, Store, StoreError};

/// The prefix of the keys of plugins' data on a job.
const DATA: &str = "data.";
/// The key of the annotations of a job that plugins have made durable.
const ANNOTATIONS: &str = "annotations";

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
    let lost = match store.get(&index::mark().map_err(StoreError::from)?)? {
        Some(_) => indexed(store, engine, &mut restored)?,
        None => unindexed(store, engine, &mut restored)?,
    };
    for (id, reason) in lost {
        log.write(Level::Error, &format!("job {id} not replayed: {reason}"));
        set_aside(store, files, id)?;
    }
    Ok(restored)
}

/// The jobs that cannot be restored, with the reasons.
type Lost = Vec<(JobId, String)>;

/// Reads the index, and the keys of active jobs only.
fn indexed(
    store: &dyn Store,
    engine: &mut Engine,
    restored: &mut usize,
) -> Result<Lost, StartError> {
    let mut whole = Vec::new();
    summaries::each(store, |job| match job {
        Indexed::Inactive(job) => {
            engine.restore_inactive(job);
            *restored += 1;
        }
        Indexed::Whole(id) => whole.push(id),
    })?;
    let mut lost = Vec::new();
    for id in whole {
        let job = store.job(id.as_u64(), &wanted)?.unwrap_or_default();
        match restore(engine, store::StoredJob { id: id.as_u64(), ..job }) {
            Ok(_) => *restored += 1,
            Err(reason) => lost.push((id, reason)),
        }
    }
    Ok(lost)
}

/// Reads the keys of every job, and makes the index.
fn unindexed(
    store: &dyn Store,
    engine: &mut Engine,
    restored: &mut usize,
) -> Result<Lost, StoreError> {
    let (mut lost, mut ops) = (Vec::new(), Vec::new());
    let mut failed = None;
    store.scan_jobs(&wanted, &mut |job| {
        let id = JobId::new(job.id);
        match restore(engine, job) {
            Ok(write) => {
                *restored += 1;
                failed = index_rows(store, write, &mut ops).err();
            }
            Err(reason) => lost.push((id, reason)),
        }
        if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    ops.push(Op::Put { key: index::mark()?, value: b"1".to_vec() });
    store.commit(ops)?;
    Ok(lost)
}

fn index_rows(store: &dyn Store, write: Write, ops: &mut Vec<Op>) -> Result<(), StoreError> {
    writes::push_ops(write, ops)?;
    if ops.len() < GROUP {
        return Ok(());
    }
    store.commit(std::mem::take(ops))
}

fn restore(engine: &mut Engine, job: store::StoredJob) -> Result<Write, String> {
    engine.restore(stored_job(job)?).map_err(|error| error.to_string())
}

/// What the last run put down beside the jobs' own logs.
pub(super) fn checkpoint(store: &dyn Store) -> Result<Option<Value>, StoreError> {
    let bytes = store.get(&Key::checkpoint())?;
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
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

fn wanted(name: &str) -> bool {
    matches!(name, "eventlog" | "jobspec" | "R" | "guest.exec.eventlog" | ANNOTATIONS)
        || name.starts_with(DATA)
}

/// The keys of a job in the form that the engine takes. The error names the key that cannot be used.
fn stored_job(job: store::StoredJob) -> Result<StoredJob, String> {
    let (mut eventlog, mut jobspec, mut resources) = (None, None, None);
    let mut exec_lines = 0;
    let (mut data, mut annotations) = (Map::new(), Map::new());
    for store::StoredEntry { name, value, .. } in job.entries {
        match name.as_str() {
            "eventlog" => eventlog = Some(text(&name, value)?),
            "jobspec" => jobspec = Some(text(&name, value)?),
            "R" => resources = Some(text(&name, value)?),
            "guest.exec.eventlog" => {
                exec_lines = value.iter().filter(|byte| **byte == b'\n').count() as u64;
            }
            ANNOTATIONS => {
                annotations =
                    serde_json::from_slice(&value).map_err(|error| format!("{name}: {error}"))?;
            }
            _ => {
                if let Some(plugin) = name.strip_prefix(DATA) {
                    let value = serde_json::from_slice(&value)
                        .map_err(|error| format!("{name}: {error}"))?;
                    data.insert(plugin.to_owned(), value);
                }
            }
        }
    }
    let required = |name, text: Option<String>| {
        text.ok_or_else(|| format!("lookup {name}: No such file or directory"))
    };
    Ok(StoredJob {
        id: JobId::new(job.id),
        eventlog: required("eventlog", eventlog)?,
        jobspec: required("jobspec", jobspec)?,
        resources,
        exec_lines,
        data,
        annotations,
    })
}

fn text(name: &str, value: Vec<u8>) -> Result<String, String> {
    String::from_utf8(value).map_err(|error| format!("failed to decode {name}: {error}"))
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
    use std::time::Instant;

    use jobtap_core::engine::{HostCheck, Setup};
    use jobtap_core::host::{Registry, RemoteCall, RemoteSink, Ticks};
    use jobtap_core::job::{Timestamp, Uid};
    use jobtap_core::jobspec::JobspecBuilder;
    use jobtap_core::resource::{Idset, ResourceSet};

    use super::*;
    use crate::store::memory::MemoryStore;
    use crate::store::{EmbeddedStore, StoredEntry};

    struct Nowhere;

    impl RemoteSink for Nowhere {
        fn send(&self, _call: RemoteCall) {}
    }

    fn engine() -> Engine {
        let setup = Setup {
            owner: Uid::new(0),
            resources: ResourceSet::single_host("host", Idset::from_iter([0])).unwrap(),
            config: Value::Null,
            config_directory: None,
            registry: Registry::default(),
            remote: Arc::new(Nowhere),
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
        let error = stored_job(job(&[("eventlog", "")])).unwrap_err();
        assert_eq!(error, "lookup jobspec: No such file or directory");
    }

    #[test]
    fn data_of_plugins_come_back_by_plugin() {
        let stored = stored_job(job(&[
            ("data.fairshare", "{\"n\":1}"),
            ("eventlog", "x"),
            ("guest.exec.eventlog", "a\nb\n"),
            ("jobspec", "{}"),
        ]))
        .unwrap();
        assert_eq!(stored.data["fairshare"]["n"], 1);
        assert_eq!(stored.exec_lines, 2);
        assert_eq!(stored.resources, None);
        assert!(stored_job(job(&[("data.x", "{"), ("eventlog", ""), ("jobspec", "")])).is_err());
    }

    const SUBMIT: &str = "{\"timestamp\":1.0,\"name\":\"submit\",\"context\":{\"userid\":1,\"urgency\":16,\"flags\":0,\"version\":1}}\n";

    fn event(name: &str, context: &str) -> String {
        format!("{{\"timestamp\":1.0,\"name\":\"{name}\",\"context\":{context}}}\n")
    }

    /// Why a job with these keys is not replayed; empty when it is.
    fn reason(entries: &[(&str, &str)]) -> String {
        let outcome = stored_job(job(entries))
            .and_then(|job| engine().restore(job).map_err(|error| error.to_string()));
        outcome.err().unwrap_or_default()
    }

    #[test]
    fn each_missing_or_malformed_key_is_named() {
        let jobspec = JobspecBuilder::new(["true"]).build().unwrap().value().to_string();
        let log = format!("{SUBMIT}{}", event("validate", "{}"));
        let with = |log: &str| reason(&[("eventlog", log), ("jobspec", &jobspec)]);
        assert_eq!(with(&log), "");
        let missing = |key| format!("lookup {key}: No such file or directory");
        assert_eq!(reason(&[("jobspec", &jobspec)]), missing("eventlog"));
        assert_eq!(reason(&[("eventlog", &log)]), missing("jobspec"));
        let starts = |found: String, expected: &str| {
            assert!(found.starts_with(expected), "{found:?} is not {expected:?}");
        };
        starts(reason(&[("eventlog", &log), ("jobspec", "{")]), "failed to decode jobspec: ");
        let bad_r = [("eventlog", log.as_str()), ("jobspec", &jobspec), ("R", "[]")];
        starts(reason(&bad_r), "failed to decode R: ");
        starts(with("{\n"), "failed to decode eventlog: ");
        assert_eq!(with(&event("alloc", "{}")), "first event is alloc not submit");
        let version = SUBMIT.replace("\"version\":1", "\"version\":7");
        assert_eq!(with(&version), "eventlog v7 is unsupported");
        assert_eq!(with(&format!("{SUBMIT}{SUBMIT}")), "could not apply submit");
        assert_eq!(with(SUBMIT), "job state (NEW) is invalid after replay");
        let bad_text = StoredEntry { name: "eventlog".into(), value: vec![0xff], next_seq: None };
        let bad_text = store::StoredJob { id: 7, entries: vec![bad_text] };
        starts(stored_job(bad_text).unwrap_err(), "failed to decode eventlog: ");
    }

    /// An inactive job as the manager stores it after `jobtap submit`.
    fn inactive(id: u64) -> Vec<Op> {
        let jobspec = JobspecBuilder::new(["hostname"]).build().unwrap();
        let mut signed = jobspec.value().clone();
        let variable = |n| (format!("VARIABLE_{n}"), "/a/value/of/usual/length".into());
        let environment = (0..40).map(variable).collect();
        signed["attributes"]["system"]["environment"] = Value::Object(environment);
        let events = [
            ("submit", r#"{"userid":1000,"urgency":16,"flags":0,"version":1}"#),
            ("validate", ""),
            ("depend", ""),
            ("priority", r#"{"priority":16}"#),
            ("alloc", r#"{"annotations":{"sched":{"resource_summary":"rank0/core0"}}}"#),
            ("start", ""),
            ("finish", r#"{"status":0}"#),
            ("release", r#"{"ranks":"all","final":true}"#),
            ("free", ""),
            ("clean", ""),
        ];
        let mut ops = vec![
            Op::Put { key: Key::job(id, "J").unwrap(), value: signed.to_string().into() },
            Op::Put { key: Key::jobspec(id), value: jobspec.value().to_string().into() },
            Op::Put {
                key: Key::job(id, "R").unwrap(),
                value: r#"{"version":1,"execution":{"R_lite":[{"rank":"0","children":{"core":"0"}}],"starttime":1700000000.0,"expiration":1700003600.0,"nodelist":["host"]}}"#.into(),
            },
        ];
        for (seq, (name, context)) in (0..).zip(events) {
            let context =
                if context.is_empty() { String::new() } else { format!(",\"context\":{context}") };
            let line = format!(
                "{{\"timestamp\":{}.125,\"name\":\"{name}\"{context}}}\n",
                1_700_000_000 + seq
            );
            ops.push(Op::Append { key: Key::eventlog(id), seq, value: line.into() });
        }
        for seq in 0..4 {
            let line = "{\"timestamp\":1700000005.5,\"name\":\"shell.init\"}\n";
            ops.push(Op::Append {
                key: Key::guest(id, "exec.eventlog").unwrap(),
                seq,
                value: line.into(),
            });
        }
        ops
    }

    /// A measurement: prints how long each step of a start takes. Run it in release with `--ignored`.
    #[test]
    #[ignore = "a measurement"]
    fn where_the_time_of_a_restart_goes() {
        let jobs: u64 = std::env::var("JOBS").map_or(20_000, |jobs| jobs.parse().unwrap());
        let dir = tempfile::tempdir().unwrap();
        {
            let store = EmbeddedStore::open(dir.path()).unwrap();
            for first in (1..=jobs).step_by(100) {
                store
                    .commit((first..first + 100).flat_map(|n| inactive(n << 24)).collect())
                    .unwrap();
            }
        }
        let lap = |what: &str, since: Instant| {
            let micros = since.elapsed().as_micros() as f64;
            println!("{what:32} {:8.1} ms  {:7.2} us a job", micros / 1e3, micros / jobs as f64);
        };
        let start = Instant::now();
        let store = EmbeddedStore::open(dir.path()).unwrap();
        lap("open", start);
        let start = Instant::now();
        store.scan_jobs(&wanted, &mut |_| ControlFlow::Continue(())).unwrap();
        lap("scan", start);
        let start = Instant::now();
        store
            .scan_jobs(&wanted, &mut |job| {
                std::hint::black_box(stored_job(job).unwrap());
                ControlFlow::Continue(())
            })
            .unwrap();
        lap("scan and take apart", start);
        let mut engine = engine();
        let start = Instant::now();
        assert_eq!(
            all(&store, &GuestFiles::new(dir.path()), &mut engine, &Log::new(Level::Error)).unwrap()
                as u64,
            jobs
        );
        lap("scan, take apart and replay", start);
        let start = Instant::now();
        engine.start(Timestamp::from_secs(2.0));
        lap("start", start);
    }
}
