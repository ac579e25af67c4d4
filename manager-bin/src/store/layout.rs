//! What commits do to the rows of an ordered byte map, and how a scan reads rows back as jobs:
//! shared by all stores that are such a map, so that they cannot differ.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::ops::{Bound, ControlFlow};

use rustc_hash::FxHashMap;

use super::rows::{self, Row};
use super::{Key, KeyError, Op, StoreError, StoredEntry, StoredJob};

/// What a commit does to rows: the value to set, or none to remove the row.
pub(super) type Effects = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// The rows that a commit meets.
pub(super) trait Rows {
    /// The names of all rows that begin with `prefix`.
    fn names(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, StoreError>;
    /// Whether there is a row of this name.
    fn contains(&self, name: &[u8]) -> Result<bool, StoreError>;
}

/// How far the logs go that were begun lately, by their rows' names: what comes behind that can't be
/// there, and needs no look at the store, which costs the more the more tables there are. Of a log that
/// was there before nobody knows here how far it goes.
#[derive(Default)]
pub(super) struct Ends {
    logs: FxHashMap<Vec<u8>, u64>,
    /// The job with the highest id that has a record.
    newest: Option<u64>,
    /// All logs of jobs with a higher id are among those above; without one, all jobs' are.
    forgotten: Option<u64>,
}

/// How many logs are remembered. More of them are seldom written to at the same time.
const REMEMBERED: usize = 1 << 15;

impl Ends {
    /// Those of a store in which no job has a higher id than `newest`.
    pub(super) fn behind(newest: Option<u64>) -> Self {
        Self { logs: FxHashMap::default(), newest, forgotten: newest }
    }

    /// Whether a record is behind all that its log has.
    fn is_behind(&self, key: &Key, log: &[u8], seq: u64) -> bool {
        match self.logs.get(log) {
            Some(last) => *last < seq,
            None => self.is_known(key),
        }
    }

    fn is_known(&self, key: &Key) -> bool {
        key.job_id().is_some_and(|id| self.forgotten.is_none_or(|forgotten| forgotten < id))
    }

    /// A record is new.
    fn note(&mut self, key: &Key, log: Vec<u8>, seq: u64) {
        if self.logs.len() >= REMEMBERED {
            self.logs.clear();
            self.forgotten = self.newest;
        }
        self.newest = self.newest.max(key.job_id());
        let begins = seq == 0 || self.is_known(key);
        match self.logs.entry(log) {
            Entry::Occupied(mut last) => {
                last.insert(seq.max(*last.get()));
            }
            Entry::Vacant(entry) if begins => {
                entry.insert(seq);
            }
            Entry::Vacant(_) => {}
        }
    }
}

/// Works out what `ops`, one after the other, do to the rows: an engine that applies a commit at
/// one instant must see each row once.
pub(super) fn resolve(
    stored: &dyn Rows,
    ends: &mut Ends,
    ops: Vec<Op>,
) -> Result<Effects, StoreError> {
    let mut effects = Effects::new();
    for op in ops {
        match op {
            Op::Put { key, value } => {
                check_size(&key, value.len())?;
                effects.insert(rows::of_value(&key), Some(value));
            }
            Op::Append { key, seq, value } => append(stored, ends, &mut effects, &key, seq, value)?,
            Op::Remove { key } => {
                effects.insert(rows::of_value(&key), None);
                remove_all(stored, &mut effects, &rows::of_log(&key))?;
            }
            Op::RemoveJob(id) => remove_all(stored, &mut effects, &rows::of_job(id))?,
        }
    }
    Ok(effects)
}

fn append(
    stored: &dyn Rows,
    ends: &mut Ends,
    effects: &mut Effects,
    key: &Key,
    seq: u64,
    value: Vec<u8>,
) -> Result<(), StoreError> {
    check_size(key, value.len())?;
    let name = rows::of_record(key, seq);
    match effects.get_mut(&name) {
        Some(Some(record)) => {
            check_size(key, record.len().saturating_add(value.len()))?;
            record.extend(value);
        }
        Some(removed) => *removed = Some(value),
        None => {
            let log = rows::of_log(key);
            if !ends.is_behind(key, &log, seq) && stored.contains(&name)? {
                return Err(StoreError::Sequence { key: key.to_string(), seq });
            }
            ends.note(key, log, seq);
            effects.insert(name, Some(value));
        }
    }
    Ok(())
}

fn remove_all(stored: &dyn Rows, effects: &mut Effects, prefix: &[u8]) -> Result<(), StoreError> {
    let end = rows::after(prefix);
    let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let range = (Bound::Included(prefix), end);
    for (_, effect) in effects.range_mut::<[u8], _>(range) {
        *effect = None;
    }
    for name in stored.names(prefix)? {
        effects.insert(name, None);
    }
    Ok(())
}

fn check_size(key: &Key, bytes: usize) -> Result<(), StoreError> {
    match u32::try_from(bytes) {
        Ok(_) => Ok(()),
        Err(_) => Err(StoreError::TooLarge { key: key.to_string(), bytes }),
    }
}

/// Puts the rows of a scan together to jobs.
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

    /// Takes the next row, in byte order. `Err` carries what is wrong with the row.
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
            value: value.to_vec(),
            next_seq,
        }),
    }
}

/// Collects the keys that begin with a text from rows that may be others' too.
pub(super) struct Listing<'a> {
    prefix: &'a str,
    keys: Vec<Key>,
}

impl<'a> Listing<'a> {
    pub(super) fn new(prefix: &'a str) -> Self {
        Self { prefix, keys: Vec::new() }
    }

    /// Takes the next row. `Err` carries what is wrong with it.
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
        if key.as_str().starts_with(self.prefix) {
            self.keys.push(key);
        }
        Ok(())
    }

    /// The keys in byte order, which the order of rows is not where the instance's meet jobs'.
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
    fn only_what_may_be_there_is_looked_for() {
        let mut ends = Ends::behind(Some(8));
        let one = |id, seq| vec![append_op(id, seq, "x\n")];
        assert!(resolve(&Everything, &mut ends, one(7, 0)).is_err());
        resolve(&Nothing, &mut ends, one(7, 0)).unwrap();
        resolve(&Everything, &mut ends, one(7, 1)).unwrap();
        resolve(&Everything, &mut ends, one(7, 3)).unwrap();
        for seq in [3, 2, 0] {
            assert!(resolve(&Everything, &mut ends, one(7, seq)).is_err());
        }
        // One that was begun earlier may go on behind what is appended.
        resolve(&Nothing, &mut ends, one(8, 4)).unwrap();
        assert!(resolve(&Everything, &mut ends, one(8, 5)).is_err());
        // Of a new job nothing is there but what was appended.
        resolve(&Everything, &mut ends, one(9, 2)).unwrap();
        resolve(&Everything, &mut ends, one(9, 3)).unwrap();
        assert!(resolve(&Everything, &mut ends, one(9, 3)).is_err());
    }

    #[test]
    fn a_forgotten_log_is_looked_for() {
        let mut ends = Ends::behind(None);
        for id in 0..=REMEMBERED as u64 {
            resolve(&Nothing, &mut ends, vec![append_op(id, 0, "x\n")]).unwrap();
        }
        for id in [0, REMEMBERED as u64] {
            assert!(resolve(&Everything, &mut ends, vec![append_op(id, 0, "x\n")]).is_err());
        }
        assert!(resolve(&Everything, &mut ends, vec![append_op(0, 1, "x\n")]).is_err());
        let newest = REMEMBERED as u64 + 1;
        resolve(&Everything, &mut ends, vec![append_op(newest, 0, "x\n")]).unwrap();
    }

    fn append_op(id: u64, seq: u64, text: &str) -> Op {
        Op::Append { key: Key::eventlog(id), seq, value: text.into() }
    }

    #[test]
    fn what_a_commit_removes_after_writing_it_is_gone() {
        let ops = vec![
            append_op(1, 0, "a"),
            append_op(2, 0, "b"),
            Op::RemoveJob(1),
            append_op(1, 1, "c"),
        ];
        let effects = resolve(&Nothing, &mut Ends::behind(None), ops).unwrap();
        let values: Vec<_> = effects.into_values().collect();
        assert_eq!(values, [None, Some(b"c".to_vec()), Some(b"b".to_vec())]);
    }

    #[test]
    fn a_row_that_is_no_jobs_ends_the_scan_with_its_name() {
        let (wanted, mut visit) = (|_: &str| true, |_: StoredJob| ControlFlow::Continue(()));
        let mut scan = JobScan::new(&wanted, &mut visit);
        let err = scan.row(b"jx\xff", b"").unwrap_err();
        assert_eq!(err, "the row jx\\xff is no job's");
        assert!(scan.row(b"ia", b"").is_err());
        assert!(Listing::new("").row(b"j").is_err());
    }
}
