//! How values and logs become rows of an ordered byte map, and back: shared by all stores that
//! are such a map, so that they cannot differ.
//!
//! A value's row is named by its key. A log's record is named by the key, a NUL and the record's
//! number, big endian: it sorts by number, right after the key and before any other key, and a
//! NUL is in no key.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use super::keys::{self, Key};
use super::{Op, StoreError, StoredEntry, StoredJob};

/// What a commit does to rows: the value to set, or none to remove the row.
pub(super) type Effects = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// The rows that a commit meets.
pub(super) trait Rows {
    /// The names of all rows that begin with `prefix`.
    fn names(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, StoreError>;
    /// Whether there is a row of this name.
    fn contains(&self, name: &[u8]) -> Result<bool, StoreError>;
}

/// What all rows of a log begin with.
pub(super) fn log_prefix(key: &Key) -> Vec<u8> {
    let mut prefix = key.as_str().as_bytes().to_vec();
    prefix.push(0);
    prefix
}

/// The first name after all that begin with `prefix`, whose last byte is a NUL or a dot.
fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    end
}

/// Takes a row's name apart: the key, and the record's number when it is a log's.
pub(super) fn parse_row(name: &[u8]) -> Option<(&str, Option<u64>)> {
    let (key, seq) = match name.iter().position(|byte| *byte == 0) {
        None => (name, None),
        Some(nul) => {
            let (key, rest) = name.split_at_checked(nul)?;
            let seq = rest.get(1..)?.try_into().ok()?;
            (key, Some(u64::from_be_bytes(seq)))
        }
    };
    Some((std::str::from_utf8(key).ok()?, seq))
}

/// Works out what `ops`, one after the other, do to the rows: an engine that applies a commit at
/// one instant must see each row once.
pub(super) fn resolve(rows: &dyn Rows, ops: Vec<Op>) -> Result<Effects, StoreError> {
    let mut effects = Effects::new();
    for op in ops {
        match op {
            Op::Put { key, value } => {
                check_size(&key, value.len())?;
                effects.insert(key.as_str().as_bytes().to_vec(), Some(value));
            }
            Op::Append { key, seq, value } => append(rows, &mut effects, &key, seq, value)?,
            Op::Remove { key } => {
                effects.insert(key.as_str().as_bytes().to_vec(), None);
                remove_all(rows, &mut effects, &log_prefix(&key))?;
            }
            Op::RemoveJob(id) => remove_all(rows, &mut effects, keys::job_prefix(id).as_bytes())?,
        }
    }
    Ok(effects)
}

fn append(
    rows: &dyn Rows,
    effects: &mut Effects,
    key: &Key,
    seq: u64,
    value: Vec<u8>,
) -> Result<(), StoreError> {
    check_size(key, value.len())?;
    let mut name = log_prefix(key);
    name.extend(seq.to_be_bytes());
    match effects.get_mut(&name) {
        Some(Some(record)) => {
            check_size(key, record.len().saturating_add(value.len()))?;
            record.extend(value);
        }
        Some(removed) => *removed = Some(value),
        None => {
            if rows.contains(&name)? {
                return Err(StoreError::Sequence {
                    key: key.to_string(),
                    seq,
                });
            }
            effects.insert(name, Some(value));
        }
    }
    Ok(())
}

fn remove_all(rows: &dyn Rows, effects: &mut Effects, prefix: &[u8]) -> Result<(), StoreError> {
    let end = after(prefix);
    let range = (Bound::Included(prefix), Bound::Excluded(end.as_slice()));
    for (_, effect) in effects.range_mut::<[u8], _>(range) {
        *effect = None;
    }
    for name in rows.names(prefix)? {
        effects.insert(name, None);
    }
    Ok(())
}

fn check_size(key: &Key, bytes: usize) -> Result<(), StoreError> {
    match u32::try_from(bytes) {
        Ok(_) => Ok(()),
        Err(_) => Err(StoreError::TooLarge {
            key: key.to_string(),
            bytes,
        }),
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
        Self {
            wanted,
            visit,
            job: None,
        }
    }

    /// Takes the next row, in byte order. `Err` carries what is wrong with the row.
    pub(super) fn row(&mut self, name: &[u8], value: &[u8]) -> Result<ControlFlow<()>, String> {
        let damaged = || format!("{:?} is no key", String::from_utf8_lossy(name));
        let (text, seq) = parse_row(name).ok_or_else(damaged)?;
        let key: Key = text
            .parse()
            .map_err(|err: keys::KeyError| err.to_string())?;
        let id = key.job_id().ok_or_else(damaged)?;
        if self.job.as_ref().is_none_or(|job| job.id != id) {
            if self.finish().is_break() {
                return Ok(ControlFlow::Break(()));
            }
            self.job = Some(StoredJob {
                id,
                entries: Vec::new(),
            });
        }
        if (self.wanted)(key.name())
            && let Some(job) = &mut self.job
        {
            add_row(job, key.name(), seq, value);
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

fn add_row(job: &mut StoredJob, name: &str, seq: Option<u64>, value: &[u8]) {
    let next_seq = seq.map(|seq| seq.saturating_add(1));
    match job.entries.last_mut() {
        Some(entry) if entry.name == name => {
            entry.value.extend_from_slice(value);
            entry.next_seq = next_seq;
        }
        _ => job.entries.push(StoredEntry {
            name: name.to_owned(),
            value: value.to_vec(),
            next_seq,
        }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

    use proptest::prelude::*;

    use super::*;

    struct Nothing;

    impl Rows for Nothing {
        fn names(&self, _: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
            Ok(Vec::new())
        }
        fn contains(&self, _: &[u8]) -> Result<bool, StoreError> {
            Ok(false)
        }
    }

    fn append_op(id: u64, seq: u64, text: &str) -> Op {
        Op::Append {
            key: Key::eventlog(id),
            seq,
            value: text.into(),
        }
    }

    #[test]
    fn what_a_commit_removes_after_writing_it_is_gone() {
        let ops = vec![
            append_op(1, 0, "a"),
            append_op(2, 0, "b"),
            Op::RemoveJob(1),
            append_op(1, 1, "c"),
        ];
        let effects = resolve(&Nothing, ops).unwrap();
        let values: Vec<_> = effects.into_values().collect();
        assert_eq!(values, [None, Some(b"c".to_vec()), Some(b"b".to_vec())]);
    }

    #[test]
    fn records_sort_between_their_key_and_the_next() {
        let key = Key::job(1, "a").unwrap();
        let mut record = log_prefix(&key);
        record.extend(u64::MAX.to_be_bytes());
        let next = Key::job(1, "a!").unwrap();
        assert!(key.as_str().as_bytes() < record.as_slice());
        assert!(record.as_slice() < next.as_str().as_bytes());
    }

    #[test]
    fn a_row_that_is_no_key_ends_the_scan_with_its_name() {
        let (wanted, mut visit) = (|_: &str| true, |_: StoredJob| ControlFlow::Continue(()));
        let mut scan = JobScan::new(&wanted, &mut visit);
        let err = scan.row(b"job.xyz", b"").unwrap_err();
        assert!(
            err.contains("could not decode \"job.xyz\" to job ID"),
            "{err}"
        );
        assert!(scan.row(b"job.\xff", b"").is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(name in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = parse_row(&name);
        }

        #[test]
        fn a_record_reads_back(id: u64, seq: u64) {
            let key = Key::eventlog(id);
            let mut name = log_prefix(&key);
            name.extend(seq.to_be_bytes());
            prop_assert_eq!(parse_row(&name), Some((key.as_str(), Some(seq))));
        }
    }
}
