//! Reads the stored jobs for a start: inactive ones by their summaries, active ones by their keys.
//!
//! Reading a job takes longer than finding it in the store or giving it to the engine. So at the same time one thread
//! goes through the index of jobs, several read the jobs, and the engine's own thread takes them in the order of their
//! ids.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::string::FromUtf8Error;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use jobtap_core::engine::{ReadJob, RestoreError, StoredJob};
use jobtap_core::job::JobId;
use serde::de::DeserializeOwned;
use serde_json::Map;

use super::start_error::StartError;
use crate::daemon::writes::index;
use crate::store::{self, Store, StoreError};

/// The prefix of the keys of plugins' data on a job.
const DATA: &str = "data.";
/// The key of the annotations of a job that plugins have made durable.
const ANNOTATIONS: &str = "annotations";

/// How many rows are passed from one thread to another together.
const GROUP: usize = 512;
/// How many groups wait in front of each thread, so that none waits for a slow group of another one.
const WAITING: usize = 2;
/// The maximum number of threads that read jobs. With more of them the engine's thread would be the slowest.
const MOST_READERS: usize = 4;

/// A job that can't be restored.
pub(super) struct Lost {
    pub(super) id: JobId,
    pub(super) reason: LostReason,
}

/// Why a job can't be restored.
#[derive(Debug, thiserror::Error)]
pub(super) enum LostReason {
    /// A key is missing.
    #[error("lookup {0}: No such file or directory")]
    Missing(&'static str),
    /// A key is no text.
    #[error("failed to decode {key}: {reason}")]
    Text { key: String, reason: FromUtf8Error },
    /// A key is not the JSON that it should be.
    #[error("{key}: {reason}")]
    Json { key: String, reason: serde_json::Error },
    /// The engine can't replay the job.
    #[error(transparent)]
    Replay(#[from] RestoreError),
}

/// A row of the index: a job and its summary, which is empty while the job is active.
type Row = (JobId, Box<[u8]>);

/// The jobs that a thread has read for a group of rows. An error of the store fails the whole group.
type Read = Result<Vec<Result<ReadJob, Lost>>, StoreError>;

/// Goes through the index, and calls `take` for each job in the order of the ids.
pub(super) fn each(
    store: &dyn Store,
    mut take: impl FnMut(Result<ReadJob, Lost>),
) -> Result<(), StartError> {
    let most = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MOST_READERS);
    thread::scope(|scope| {
        let mut threads = Vec::new();
        let (mut rows, mut groups) = (Vec::new(), Vec::new());
        for _ in 0..most {
            let (send_rows, incoming) = sync_channel::<Vec<Row>>(WAITING);
            let (outgoing, receive) = sync_channel(WAITING);
            let reader = move || read_groups(store, &incoming, &outgoing);
            let builder = thread::Builder::new().name("stored-jobs".into());
            match builder.spawn_scoped(scope, reader) {
                Ok(thread) => threads.push(thread),
                // The others suffice.
                Err(_) if !threads.is_empty() => break,
                Err(error) => return Err(error.into()),
            }
            rows.push(send_rows);
            groups.push(receive);
        }
        let dealer = move || deal(store, &rows);
        let dealer = thread::Builder::new().name("index".into()).spawn_scoped(scope, dealer)?;
        // The groups come from the readers in the order in which they were dealt. The first reader that has no further
        // group shows that all were taken.
        for group in groups.iter().cycle().map_while(|reader| reader.recv().ok()) {
            group?.into_iter().for_each(&mut take);
        }
        // If a reader has panicked, nothing more is taken from the others: they end when they can't send, and so does
        // the dealer.
        drop(groups);
        for thread in threads {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        Ok(dealer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?)
    })
}

/// Gives the rows of the index to the readers in turn, in groups.
fn deal(store: &dyn Store, readers: &[SyncSender<Vec<Row>>]) -> Result<(), StoreError> {
    let mut turns = readers.iter().cycle();
    let mut send = |group| match turns.next().map(|reader| reader.send(group)) {
        Some(Ok(())) => ControlFlow::Continue(()),
        // Nothing takes the jobs any more.
        Some(Err(_)) | None => ControlFlow::Break(()),
    };
    let mut group = Vec::with_capacity(GROUP);
    store.scan_values(index::JOBS, &mut |name, summary| {
        let Some(id) = index::job(name) else { return ControlFlow::Continue(()) };
        group.push((id, summary.into()));
        if group.len() < GROUP {
            return ControlFlow::Continue(());
        }
        send(std::mem::replace(&mut group, Vec::with_capacity(GROUP)))
    })?;
    let _ = send(group);
    Ok(())
}

fn read_groups(store: &dyn Store, incoming: &Receiver<Vec<Row>>, outgoing: &SyncSender<Read>) {
    for group in incoming {
        let group = group.into_iter().map(|(id, summary)| read(store, id, summary)).collect();
        if outgoing.send(group).is_err() {
            return;
        }
    }
}

/// Reads a job, whose summary is empty while it is active. The outer error is the store's.
fn read(
    store: &dyn Store,
    id: JobId,
    summary: Box<[u8]>,
) -> Result<Result<ReadJob, Lost>, StoreError> {
    let summary = String::from_utf8(summary.into()).unwrap_or_default();
    if !summary.is_empty()
        && let Ok(job) = ReadJob::from_summary(id, summary.into_boxed_str())
    {
        return Ok(Ok(job));
    }
    let job = store.job(id.as_u64(), &wanted)?.unwrap_or_default();
    Ok(read_whole(store::StoredJob { id: id.as_u64(), ..job }))
}

/// Reads a job from those of its keys that are [`wanted`].
pub(super) fn read_whole(job: store::StoredJob) -> Result<ReadJob, Lost> {
    let id = JobId::new(job.id);
    let read = stored_job(job).and_then(|job| Ok(ReadJob::from_log(job)?));
    read.map_err(|reason| Lost { id, reason })
}

/// Whether a start needs a job's key of this name.
pub(super) fn wanted(name: &str) -> bool {
    matches!(name, "eventlog" | "jobspec" | "R" | "guest.exec.eventlog" | ANNOTATIONS)
        || name.starts_with(DATA)
}

/// The keys of a job in the form that the engine takes. The error names the key that cannot be used.
fn stored_job(job: store::StoredJob) -> Result<StoredJob, LostReason> {
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
            ANNOTATIONS => annotations = json(&name, &value)?,
            _ => {
                if let Some(plugin) = name.strip_prefix(DATA) {
                    data.insert(plugin.to_owned(), json(&name, &value)?);
                }
            }
        }
    }
    let required = |key, text: Option<String>| text.ok_or(LostReason::Missing(key));
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

fn text(key: &str, value: Vec<u8>) -> Result<String, LostReason> {
    String::from_utf8(value).map_err(|reason| LostReason::Text { key: key.to_owned(), reason })
}

fn json<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T, LostReason> {
    let wrong = |reason| LostReason::Json { key: key.to_owned(), reason };
    serde_json::from_slice(value).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use jobtap_core::engine::Write;
    use jobtap_core::jobspec::JobspecBuilder;

    use super::*;
    use crate::store::memory::MemoryStore;
    use crate::store::{Found, Key, Op, Space, StoredEntry};

    const SUMMARY: &str = r#"{"form":1,"userid":1000,"urgency":16,"flags":0,"priority":16,"t_submit":1.5,"times":[1.5,1.5,1.5,1.5,2.5,2.5,2.5],"lines":10,"exec_lines":4,"events":{"known":3}}"#;

    fn store_with(jobs: u64, summary: impl Fn(u64) -> String) -> MemoryStore {
        let store = MemoryStore::default();
        let row = |id| index::put(JobId::new(id), summary(id)).unwrap();
        store.commit((1..=jobs).map(row).collect()).unwrap();
        store
    }

    /// The jobs in the order in which they come, and those that can't be restored.
    fn found(store: &dyn Store) -> (Vec<JobId>, Vec<JobId>) {
        let (mut all, mut lost) = (Vec::new(), Vec::new());
        each(store, |job| {
            all.push(job.as_ref().map_or_else(|lost| lost.id, ReadJob::id));
            lost.extend(job.err().map(|lost| lost.id));
        })
        .unwrap();
        (all, lost)
    }

    #[test]
    fn jobs_come_in_the_order_of_their_ids_whatever_thread_has_read_them() {
        let groups = 2 * MOST_READERS as u64 * WAITING as u64 + 1;
        for jobs in [0, 1, GROUP as u64, groups * GROUP as u64 + 7] {
            // The first groups take longer to read.
            let padding = |id| " ".repeat(if id < 1000 { 10_000 } else { 0 });
            let store = store_with(jobs, |id| format!("{SUMMARY}{}", padding(id)));
            let expected: Vec<JobId> = (1..=jobs).map(JobId::new).collect();
            assert_eq!(found(&store), (expected, Vec::new()));
        }
    }

    /// The summaries differ from the keys of jobs, so that the test shows which was read.
    #[test]
    fn active_jobs_and_those_whose_summary_is_unreadable_are_read_from_their_keys() {
        let store = store_with(9, |id| match id {
            3 => String::new(),
            5 => "{".to_owned(),
            7 => SUMMARY.replace("\"form\":1", "\"form\":99"),
            _ => SUMMARY.to_owned(),
        });
        for id in [1, 3, 5] {
            let validate = event("validate", "{}");
            let keys = [
                Op::Append { key: Key::eventlog(id), seq: 0, value: SUBMIT.into() },
                Op::Append { key: Key::eventlog(id), seq: 1, value: validate.into() },
                Op::Put { key: Key::jobspec(id), value: "{}".into() },
            ];
            store.commit(keys.into()).unwrap();
        }
        let mut active = Vec::new();
        each(&store, |job| {
            let job = job.ok().filter(|job| matches!(job.row(), Write::Accepted { .. }));
            active.extend(job.map(|job| job.id()));
        })
        .unwrap();
        assert_eq!(active, [3, 5].map(JobId::new));
        let (all, lost) = found(&store);
        assert_eq!(all.len(), 9);
        assert_eq!(lost, [7].map(JobId::new));
    }

    /// A store whose jobs can't be read.
    struct Unreadable {
        rows: MemoryStore,
        how: fn() -> StoreError,
    }

    impl Store for Unreadable {
        fn commit(&self, ops: Vec<Op>) -> Result<(), StoreError> {
            self.rows.commit(ops)
        }

        fn find(&self, _key: &Key) -> Result<Option<Found>, StoreError> {
            Err((self.how)())
        }

        fn read_log(&self, _key: &Key) -> Result<Option<Vec<u8>>, StoreError> {
            Err((self.how)())
        }

        fn scan_jobs(
            &self,
            _wanted: &dyn Fn(&str) -> bool,
            _visit: &mut dyn FnMut(store::StoredJob) -> ControlFlow<()>,
        ) -> Result<(), StoreError> {
            Err((self.how)())
        }

        fn job(
            &self,
            _id: u64,
            _wanted: &dyn Fn(&str) -> bool,
        ) -> Result<Option<store::StoredJob>, StoreError> {
            Err((self.how)())
        }

        fn scan_values(
            &self,
            prefix: &str,
            visit: &mut dyn FnMut(&str, &[u8]) -> ControlFlow<()>,
        ) -> Result<(), StoreError> {
            self.rows.scan_values(prefix, visit)
        }

        fn list(&self, _prefix: &str) -> Result<Vec<Key>, StoreError> {
            Err((self.how)())
        }

        fn instance_keys(&self) -> Result<Vec<Key>, StoreError> {
            Err((self.how)())
        }

        fn free_space(&self) -> Result<Option<Space>, StoreError> {
            Ok(None)
        }
    }

    fn unreadable(how: fn() -> StoreError) -> Unreadable {
        // One active job among many, so that the other threads have work when it fails.
        let summary = |id| if id == 700 { String::new() } else { SUMMARY.to_owned() };
        Unreadable { rows: store_with(100 * GROUP as u64, summary), how }
    }

    #[test]
    fn an_error_of_the_store_ends_the_start() {
        let failed = || StoreError::Failed { path: "/state".into(), detail: "for a test".into() };
        let error = each(&unreadable(failed), drop).unwrap_err();
        assert!(error.to_string().contains("for a test"), "{error}");
    }

    #[test]
    fn a_panic_of_a_reader_ends_the_start_with_its_text() {
        let store = unreadable(|| panic!("a fault in the store"));
        let start = || each(&store, drop);
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(start)).unwrap_err();
        assert_eq!(jobtap_core::host::panic_text(&*panic), "a fault in the store");
    }

    #[test]
    fn a_start_that_fails_for_a_job_ends_the_threads() {
        let store = store_with(100 * GROUP as u64, |_| SUMMARY.to_owned());
        let start = || each(&store, |_| panic!("the engine failed"));
        // It would wait for its threads forever if one of them waited for it.
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(start)).is_err());
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
        assert_eq!(error.to_string(), "lookup jobspec: No such file or directory");
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
        read_whole(job(entries)).err().map(|lost| lost.reason.to_string()).unwrap_or_default()
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
        starts(stored_job(bad_text).unwrap_err().to_string(), "failed to decode eventlog: ");
    }
}
