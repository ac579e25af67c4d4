//! How operations change the rows of an ordered byte map, and how a scan reads rows back as jobs. Shared
//! by all stores that are such a map, so that they behave alike.

use std::ops::ControlFlow;

use rustc_hash::FxHashMap;

use super::changes::Changes;
use super::rows::{self, Name, Row};
use super::{Key, KeyError, Op, StoreError, StoredEntry, StoredJob, request};

/// Read access to the stored rows.
pub(super) trait Rows {
    /// The names of all rows that begin with `prefix`.
    fn names(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, StoreError>;
    /// Whether there is a row of this name.
    fn contains(&self, name: &[u8]) -> Result<bool, StoreError>;
}

/// Caches the last sequence number of the eventlogs of recent jobs, so that an append can skip the existence
/// check, whose cost grows with the number of tables. Logs that existed when the store was opened are not in the
/// cache.
#[derive(Default)]
pub(super) struct LogEnds {
    /// The number of the next record of each of [`CACHED`], or [`UNKNOWN`]. 32 bits keep the cache small, which has
    /// an entry for each pending job.
    jobs: FxHashMap<u64, [u32; CACHED.len()]>,
    /// The highest id of a job that has a record.
    newest: Option<u64>,
    /// The highest job id whose logs may be missing from the cache; `None` if the cache has the logs of
    /// all jobs.
    evicted: Option<u64>,
}

/// The logs in the cache.
const CACHED: [&str; 2] = [Key::EVENTLOG, Key::EXEC_EVENTLOG];

/// Stands for a number that isn't known, so that the store is asked whether a record exists. It is higher than any
/// number that a log reaches.
const UNKNOWN: u32 = u32::MAX;

/// The most jobs in the cache, of which most are pending.
const CACHED_JOBS: usize = 1 << 17;

impl LogEnds {
    /// The cache for a store in which no job has a higher id than `newest`.
    pub(super) fn after(newest: Option<u64>) -> Self {
        Self { jobs: FxHashMap::default(), newest, evicted: newest }
    }

    /// Whether a record is known to follow all records of its log.
    fn is_new(&self, key: &Key, seq: u64) -> bool {
        let Some((id, log)) = cached(key) else { return false };
        match self.jobs.get(&id).and_then(|logs| logs.get(log)) {
            Some(next) => *next != UNKNOWN && u64::from(*next) <= seq,
            None => self.covers(id),
        }
    }

    /// Whether the logs of a job would be in the cache if they existed.
    fn covers(&self, id: u64) -> bool {
        self.evicted.is_none_or(|evicted| evicted < id)
    }

    /// Records that a record was added to a log.
    fn note(&mut self, key: &Key, seq: u64) {
        let Some((id, log)) = cached(key) else { return };
        if self.jobs.len() >= CACHED_JOBS {
            self.jobs.clear();
            self.evicted = self.newest;
        }
        self.newest = self.newest.max(Some(id));
        let covered = self.covers(id);
        // A log that is not covered may have higher records than this one, unless this one is its first.
        if !covered && seq != 0 && !self.jobs.contains_key(&id) {
            return;
        }
        let logs = self.jobs.entry(id).or_insert([if covered { 0 } else { UNKNOWN }; CACHED.len()]);
        let Some(end) = logs.get_mut(log) else { return };
        let next = u32::try_from(seq).map_or(UNKNOWN, |seq| seq.saturating_add(1));
        *end = match (*end, seq) {
            (UNKNOWN, 0) => next,
            (end, _) => end.max(next),
        };
    }

    /// Records that all logs of a job were removed.
    fn removed(&mut self, id: u64) {
        self.jobs.remove(&id);
    }
}

/// The job of a log that may be in the cache, and which of its logs it is.
fn cached(key: &Key) -> Option<(u64, usize)> {
    let log = CACHED.iter().position(|name| *name == key.name())?;
    Some((key.job_id()?, log))
}

/// Computes the changes that `ops`, one after the other, make to the rows. Each row is in the result once,
/// because the engine applies a commit at one instant and not in order.
pub(super) fn resolve(
    stored: &dyn Rows,
    ends: &mut LogEnds,
    ops: Vec<Op>,
) -> Result<Changes, StoreError> {
    let mut changes = Changes::default();
    for op in ops {
        match op {
            Op::Put { key, value } => {
                check_size(&key, value.len())?;
                changes.set(rows::of_value(&key), Some(value));
            }
            Op::Append { key, seq, value } => append(stored, ends, &mut changes, &key, seq, value)?,
            Op::Remove { key } => {
                changes.set(rows::of_value(&key), None);
                remove_all(stored, &mut changes, &rows::of_log(&key))?;
            }
            Op::RemoveJob(id) => {
                remove_all(stored, &mut changes, &rows::of_job(id))?;
                ends.removed(id);
            }
        }
    }
    Ok(changes)
}

fn append(
    stored: &dyn Rows,
    ends: &mut LogEnds,
    changes: &mut Changes,
    key: &Key,
    seq: u64,
    value: Vec<u8>,
) -> Result<(), StoreError> {
    check_size(key, value.len())?;
    let name = rows::of_record(key, seq);
    match changes.get_mut(&name) {
        Some(Some(record)) => {
            check_size(key, record.len().saturating_add(value.len()))?;
            record.extend(value);
        }
        Some(removed) => {
            *removed = Some(value);
            ends.note(key, seq);
        }
        None => {
            if !ends.is_new(key, seq) && stored.contains(&name)? {
                return Err(StoreError::Sequence { key: key.to_string(), seq });
            }
            ends.note(key, seq);
            changes.set(name, Some(value));
        }
    }
    Ok(())
}

fn remove_all(stored: &dyn Rows, changes: &mut Changes, prefix: &[u8]) -> Result<(), StoreError> {
    changes.remove(prefix);
    for name in stored.names(prefix)? {
        changes.set(Name::from_vec(name), None);
    }
    Ok(())
}

fn check_size(key: &Key, bytes: usize) -> Result<(), StoreError> {
    match u32::try_from(bytes) {
        Ok(_) => Ok(()),
        Err(_) => Err(StoreError::TooLarge { key: key.to_string(), bytes }),
    }
}

/// Combines the rows of a scan into jobs.
pub(super) struct JobScan<'a> {
    wanted: &'a dyn Fn(&str) -> bool,
    visit: &'a mut dyn FnMut(StoredJob) -> ControlFlow<()>,
    job: Option<StoredJob>,
}

impl<'a> JobScan<'a> {
    pub(super) fn new(
        wanted: &'a dyn Fn(&str) -> bool,
        visit: &'a mut dyn FnMut(StoredJob) -> ControlFlow<()>,
    ) -> Self {
        Self { wanted, visit, job: None }
    }

    /// Adds the next row, in byte order. The error is the reason why it is not a job's row.
    pub(super) fn row(&mut self, name: &[u8], value: &[u8]) -> Result<ControlFlow<()>, String> {
        let damaged = || format!("the row {} is no job's", name.escape_ascii());
        let row = rows::parse(name).ok_or_else(damaged)?;
        let id = row.job.ok_or_else(damaged)?;
        if self.job.as_ref().is_none_or(|job| job.id != id) {
            if self.finish().is_break() {
                return Ok(ControlFlow::Break(()));
            }
            self.job = Some(StoredJob { id, entries: Vec::new() });
        }
        if (self.wanted)(row.name)
            && let Some(job) = &mut self.job
        {
            add_row(job, row, value);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Visits the last job.
    pub(super) fn finish(&mut self) -> ControlFlow<()> {
        match self.job.take() {
            Some(job) => (self.visit)(job),
            None => ControlFlow::Continue(()),
        }
    }
}

fn add_row(job: &mut StoredJob, row: Row<'_>, value: &[u8]) {
    let next_seq = row.seq.map(|seq| seq.saturating_add(1));
    match job.entries.last_mut() {
        Some(entry) if entry.name == row.name => {
            entry.value.extend_from_slice(value);
            entry.next_seq = next_seq;
        }
        _ => job.entries.push(StoredEntry {
            name: row.name.to_owned(),
            value: request::shown(row.name, value.to_vec()),
            next_seq,
        }),
    }
}

/// Collects the keys with a prefix from rows that may also belong to other keys.
pub(super) struct Listing<'a> {
    prefix: &'a str,
    keys: Vec<Key>,
}

impl<'a> Listing<'a> {
    pub(super) fn new(prefix: &'a str) -> Self {
        Self { prefix, keys: Vec::new() }
    }

    /// Adds the next row. The error is the reason why it is not a key's row.
    pub(super) fn row(&mut self, name: &[u8]) -> Result<(), String> {
        let row = rows::parse(name)
            .ok_or_else(|| format!("the row {} is no key's", name.escape_ascii()))?;
        let known = |key: &Key| key.job_id() == row.job && key.name() == row.name;
        if self.keys.last().is_some_and(known) {
            return Ok(());
        }
        let key = match row.job {
            Some(id) => Key::job(id, row.name),
            None => Key::instance(row.name),
        };
        let key = key.map_err(|err: KeyError| err.to_string())?;
        if key.starts_with(self.prefix) {
            self.keys.push(key);
        }
        Ok(())
    }

    /// The keys in byte order. Rows are ordered differently: all rows of the instance precede those of jobs.
    pub(super) fn finish(mut self) -> Vec<Key> {
        self.keys.sort();
        self.keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_longer_than_the_engine_takes_is_refused() {
        let key = Key::eventlog(1);
        check_size(&key, u32::MAX as usize).unwrap();
        let error = check_size(&key, u32::MAX as usize + 1).unwrap_err();
        assert!(matches!(error, StoreError::TooLarge { .. }), "{error}");
    }

    struct Nothing;

    impl Rows for Nothing {
        fn names(&self, _: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
            Ok(Vec::new())
        }
        fn contains(&self, _: &[u8]) -> Result<bool, StoreError> {
            Ok(false)
        }
    }

    /// Has every row there can be.
    struct Everything;

    impl Rows for Everything {
        fn names(&self, _: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
            Ok(Vec::new())
        }
        fn contains(&self, _: &[u8]) -> Result<bool, StoreError> {
            Ok(true)
        }
    }

    #[test]
    fn only_records_that_may_exist_are_looked_up() {
        let mut ends = LogEnds::after(Some(8));
        let one = |id, seq| vec![append_op(id, seq, "x\n")];
        assert!(resolve(&Everything, &mut ends, one(7, 0)).is_err());
        resolve(&Nothing, &mut ends, one(7, 0)).unwrap();
        resolve(&Everything, &mut ends, one(7, 1)).unwrap();
        resolve(&Everything, &mut ends, one(7, 3)).unwrap();
        for seq in [3, 2, 0] {
            assert!(resolve(&Everything, &mut ends, one(7, seq)).is_err());
        }
        // A log that existed before may have records after the appended one.
        resolve(&Nothing, &mut ends, one(8, 4)).unwrap();
        assert!(resolve(&Everything, &mut ends, one(8, 5)).is_err());
        // The log of a new job has no records but the appended ones.
        resolve(&Everything, &mut ends, one(9, 2)).unwrap();
        resolve(&Everything, &mut ends, one(9, 3)).unwrap();
        assert!(resolve(&Everything, &mut ends, one(9, 3)).is_err());
    }

    #[test]
    fn the_logs_of_a_job_have_numbers_of_their_own() {
        let mut ends = LogEnds::after(None);
        let exec = |seq| {
            let key = Key::guest(1, "exec.eventlog").unwrap();
            vec![Op::Append { key, seq, value: b"x\n".to_vec() }]
        };
        resolve(&Everything, &mut ends, vec![append_op(1, 5, "x\n")]).unwrap();
        resolve(&Everything, &mut ends, exec(0)).unwrap();
        assert!(resolve(&Everything, &mut ends, exec(0)).is_err());
        resolve(&Everything, &mut ends, vec![append_op(1, 6, "x\n")]).unwrap();
        // Too high for the cache.
        resolve(&Nothing, &mut ends, exec(u64::from(u32::MAX))).unwrap();
        assert!(resolve(&Everything, &mut ends, exec(u64::MAX)).is_err());
        // Others are not in the cache.
        let key = Key::guest(1, "other.eventlog").unwrap();
        let other = vec![Op::Append { key, seq: 9, value: b"x\n".to_vec() }];
        assert!(resolve(&Everything, &mut ends, other).is_err());
    }

    #[test]
    fn an_evicted_log_is_looked_up() {
        let mut ends = LogEnds::after(None);
        for id in 0..=CACHED_JOBS as u64 {
            resolve(&Nothing, &mut ends, vec![append_op(id, 0, "x\n")]).unwrap();
        }
        for id in [0, CACHED_JOBS as u64] {
            assert!(resolve(&Everything, &mut ends, vec![append_op(id, 0, "x\n")]).is_err());
        }
        assert!(resolve(&Everything, &mut ends, vec![append_op(0, 1, "x\n")]).is_err());
        let newest = CACHED_JOBS as u64 + 1;
        resolve(&Everything, &mut ends, vec![append_op(newest, 0, "x\n")]).unwrap();
    }

    fn append_op(id: u64, seq: u64, text: &str) -> Op {
        Op::Append { key: Key::eventlog(id), seq, value: text.into() }
    }

    #[test]
    fn a_row_written_and_removed_in_one_commit_is_gone() {
        let ops = vec![
            append_op(1, 0, "a"),
            append_op(2, 0, "b"),
            Op::RemoveJob(1),
            append_op(1, 1, "c"),
        ];
        let changes = resolve(&Nothing, &mut LogEnds::after(None), ops).unwrap();
        let values: Vec<_> = changes.into_iter().map(|(_, change)| change).collect();
        assert_eq!(values, [None, Some(b"c".to_vec()), Some(b"b".to_vec())]);
    }

    #[test]
    fn a_record_written_after_a_removal_in_one_commit_is_known() {
        let mut ends = LogEnds::after(None);
        let ops = vec![append_op(1, 0, "a"), Op::RemoveJob(1), append_op(1, 0, "b")];
        resolve(&Nothing, &mut ends, ops).unwrap();
        assert!(resolve(&Everything, &mut ends, vec![append_op(1, 0, "c")]).is_err());
    }

    #[test]
    fn an_invalid_row_ends_the_scan_with_its_name() {
        let (wanted, mut visit) = (|_: &str| true, |_: StoredJob| ControlFlow::Continue(()));
        let mut scan = JobScan::new(&wanted, &mut visit);
        let err = scan.row(b"jx\xff", b"").unwrap_err();
        assert_eq!(err, "the row jx\\xff is no job's");
        assert!(scan.row(b"ia", b"").is_err());
        assert!(Listing::new("").row(b"j").is_err());
    }
}
