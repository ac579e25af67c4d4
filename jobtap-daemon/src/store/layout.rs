//! Translates operations into changes of the rows of an ordered byte map. Shared by all stores that are such a map, so
//! that they behave alike.
//!
//! A commit writes the frequent keys of a job as one row, a [bundle](super::bundle). Other keys have rows of their own,
//! and so do values that are too long for a bundle. If a key has a value in a bundle and also a row of its own, the
//! bundle's value is the newer one: the row is of format 3, or has a long value that a shorter one has replaced. The
//! row stays until the key or the job is removed.

use std::ops::ControlFlow;

use super::bundle::{Bundle, Entry, Malformed, entries};
use super::changes::Changes;
use super::keys::Frequent;
use super::log_ends::LogEnds;
use super::rows::{self, Name, Row};
use super::{Key, KeyError, Op, StoreError};

/// Called with the name and the value of a row. A break or an error ends the visit.
pub(super) type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, StoreError>;

/// Read access to the stored rows.
pub(super) trait Rows {
    /// Visits all rows whose names begin with `prefix`, in order.
    fn each(&self, prefix: &[u8], visit: Visit<'_>) -> Result<(), StoreError>;
    /// The value of the row with this name.
    fn row(&self, name: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;
    /// Whether there is a row with this name.
    fn contains(&self, name: &[u8]) -> Result<bool, StoreError>;
    /// The error for content that no store writes.
    fn damaged(&self, detail: &str) -> StoreError;

    /// The error for a malformed bundle.
    fn malformed(&self, name: &[u8]) -> StoreError {
        self.damaged(&BadRow::Malformed(name.into()).to_string())
    }
}

/// A row that no store writes.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadRow {
    /// Its name is not one of a job's rows.
    #[error("the row {} is no job's", .0.escape_ascii())]
    NoJob(Box<[u8]>),
    /// Its name stands for no key.
    #[error("the row {} is no key's", .0.escape_ascii())]
    NoKey(Box<[u8]>),
    /// Its bundle can't be read.
    #[error("the row {} is malformed", .0.escape_ascii())]
    Malformed(Box<[u8]>),
    /// Its name stands for an invalid key.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// Computes the changes that `ops`, one after the other, make to the rows. Each row is in the result once,
/// because the engine applies a commit at one instant and not in order.
pub(super) fn resolve(
    stored: &dyn Rows,
    ends: &mut LogEnds,
    ops: Vec<Op>,
) -> Result<Changes, StoreError> {
    // Reads the newest job before this commit changes it.
    let mut changes = Changes::after(ends.newest());
    for op in ops {
        match op {
            Op::Put { key, value } => put(stored, &mut changes, &key, value)?,
            Op::Append { key, seq, value } => append(stored, ends, &mut changes, &key, seq, value)?,
            Op::Remove { key } => {
                if let Some((id, name)) = key.frequent() {
                    changes.bundle(id).remove(name);
                    unbundle(stored, &mut changes, id, name)?;
                }
                changes.set(rows::of_value(&key), None);
                remove_all(stored, &mut changes, &rows::of_log(&key))?;
            }
            Op::RemoveJob(id) => {
                changes.bundle(id).clear();
                remove_all(stored, &mut changes, &rows::of_job(id))?;
                ends.removed(id);
            }
        }
    }
    // Notes every changed job, whatever was stored of it: otherwise its next bundle would get the name of a first
    // bundle again and replace this one.
    changes.jobs().for_each(|id| ends.note_job(id));
    Ok(changes)
}

fn put(
    stored: &dyn Rows,
    changes: &mut Changes,
    key: &Key,
    value: Vec<u8>,
) -> Result<(), StoreError> {
    check_size(key, value.len())?;
    let mut value = value;
    if let Some((id, name)) = key.frequent() {
        let bundle = changes.bundle(id);
        bundle.remove(name);
        match bundle.add(Entry { name, seq: None, value }) {
            None => return Ok(()),
            Some(entry) => value = entry.value,
        }
        // Otherwise the value in an earlier bundle would hide this row.
        unbundle(stored, changes, id, name)?;
    }
    changes.set(rows::of_value(key), Some(value));
    Ok(())
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
    let mut value = value;
    let row = || rows::of_record(key, seq);
    if let Some((id, name)) = key.frequent() {
        let bundle = changes.bundle(id);
        match bundle.extend_record(name, seq, value) {
            None => return Ok(()),
            Some(rest) => value = rest,
        }
        if let Some(Entry { value: mut record, .. }) = bundle.take_record(name, seq) {
            check_size(key, record.len().saturating_add(value.len()))?;
            record.extend(value);
            changes.set(row(), Some(record));
            return Ok(());
        }
    }
    if let Some(Some(record)) = changes.get_mut(&row()) {
        check_size(key, record.len().saturating_add(value.len()))?;
        record.extend(value);
        return Ok(());
    }
    if !ends.is_new(key, seq) {
        let log = look_up(stored, changes, key, seq)?;
        if log.has_record {
            return Err(StoreError::Sequence { key: key.to_string(), seq });
        }
        // The next append to this log needs no lookup.
        ends.learn(key, log.next);
    }
    ends.note(key, seq);
    if let Some((id, name)) = key.frequent() {
        match changes.bundle(id).add(Entry { name, seq: Some(seq), value }) {
            None => return Ok(()),
            Some(entry) => value = entry.value,
        }
    }
    changes.set(row(), Some(value));
    Ok(())
}

/// The state of a log, including the changes of this commit so far.
struct StoredLog {
    /// Whether the log has the record that was looked up.
    has_record: bool,
    /// The number after the highest of its records.
    next: u64,
}

/// Looks up a record of a log, and also the log's end if [`LogEnds`] may cache it.
fn look_up(
    stored: &dyn Rows,
    changes: &mut Changes,
    key: &Key,
    seq: u64,
) -> Result<StoredLog, StoreError> {
    let row = rows::of_record(key, seq);
    let has_row = changes.get_mut(&row).is_none() && stored.contains(&row)?;
    let mut log = StoredLog { has_record: has_row, next: 0 };
    let Some((id, name)) = key.frequent().filter(|_| !has_row) else { return Ok(log) };
    stored.each(&rows::of_log(key), &mut |row, _| {
        if let (Some(Row { seq: Some(seq), .. }), None) = (rows::parse(row), changes.get_mut(row)) {
            log.next = log.next.max(seq.saturating_add(1));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    each_bundle(stored, changes, id, |_, _, bundle| {
        for entry in entries(bundle) {
            let entry = entry?;
            if let Some(this) = entry.seq.filter(|_| entry.name == name) {
                log.has_record |= this == seq;
                log.next = log.next.max(this.saturating_add(1));
            }
        }
        Ok(())
    })?;
    Ok(log)
}

/// Removes a key from the bundles of earlier commits.
fn unbundle(
    stored: &dyn Rows,
    changes: &mut Changes,
    id: u64,
    name: Frequent,
) -> Result<(), StoreError> {
    each_bundle(stored, changes, id, |changes, row, bundle| {
        let mut bundle = Bundle::decode(bundle)?;
        if bundle.remove(name) {
            let left = (!bundle.is_empty()).then(|| bundle.encode());
            changes.set(row.into(), left);
        }
        Ok(())
    })
}

/// Calls `each` with the rows of a job's bundles of earlier commits, including the changes of this commit so far.
fn each_bundle(
    stored: &dyn Rows,
    changes: &mut Changes,
    id: u64,
    mut each: impl FnMut(&mut Changes, &[u8], &[u8]) -> Result<(), Malformed>,
) -> Result<(), StoreError> {
    stored.each(&rows::of_bundles(id), &mut |row, bundle| {
        let left = changes.get_mut(row).cloned();
        let made = match left {
            None => each(changes, row, bundle),
            Some(None) => Ok(()),
            Some(Some(changed)) => each(changes, row, &changed),
        };
        made.map_err(|Malformed| stored.malformed(row))?;
        Ok(ControlFlow::Continue(()))
    })
}

fn remove_all(stored: &dyn Rows, changes: &mut Changes, prefix: &[u8]) -> Result<(), StoreError> {
    changes.remove(prefix);
    stored.each(prefix, &mut |name, _| {
        changes.set(Name::from_slice(name), None);
        Ok(ControlFlow::Continue(()))
    })
}

fn check_size(key: &Key, bytes: usize) -> Result<(), StoreError> {
    match u32::try_from(bytes) {
        Ok(_) => Ok(()),
        Err(_) => Err(StoreError::TooLarge { key: key.to_string(), bytes }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::log_ends::CACHED_JOBS;

    #[test]
    fn a_value_longer_than_the_engine_takes_is_refused() {
        let key = Key::eventlog(1);
        check_size(&key, u32::MAX as usize).unwrap();
        let error = check_size(&key, u32::MAX as usize + 1).unwrap_err();
        assert!(matches!(error, StoreError::TooLarge { .. }), "{error}");
    }

    /// Claims that every row exists, or that none does, and shows none.
    struct All(bool);

    const NOTHING: All = All(false);
    const EVERYTHING: All = All(true);

    impl Rows for All {
        fn each(&self, _: &[u8], _: Visit<'_>) -> Result<(), StoreError> {
            Ok(())
        }
        fn row(&self, _: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
            Ok(None)
        }
        fn contains(&self, _: &[u8]) -> Result<bool, StoreError> {
            Ok(self.0)
        }
        fn damaged(&self, detail: &str) -> StoreError {
            StoreError::Corrupt { path: "all".into(), detail: detail.to_owned() }
        }
    }

    #[test]
    fn only_records_that_may_exist_are_looked_up() {
        let mut ends = LogEnds::after(Some(8));
        let one = |id, seq| vec![append_op(id, seq, "x\n")];
        assert!(resolve(&EVERYTHING, &mut ends, one(7, 0)).is_err());
        resolve(&NOTHING, &mut ends, one(7, 0)).unwrap();
        resolve(&EVERYTHING, &mut ends, one(7, 1)).unwrap();
        resolve(&EVERYTHING, &mut ends, one(7, 3)).unwrap();
        for seq in [3, 2, 0] {
            assert!(resolve(&EVERYTHING, &mut ends, one(7, seq)).is_err());
        }
        // Once the end of a log that existed before has been looked up, it is known.
        resolve(&NOTHING, &mut ends, one(8, 4)).unwrap();
        resolve(&EVERYTHING, &mut ends, one(8, 5)).unwrap();
        assert!(resolve(&EVERYTHING, &mut ends, one(8, 3)).is_err());
        // The log of a new job has only the appended records.
        resolve(&EVERYTHING, &mut ends, one(9, 2)).unwrap();
        resolve(&EVERYTHING, &mut ends, one(9, 3)).unwrap();
        assert!(resolve(&EVERYTHING, &mut ends, one(9, 3)).is_err());
    }

    #[test]
    fn a_look_does_not_forget_what_the_commit_has_added() {
        let mut ends = LogEnds::after(Some(8));
        let ops = vec![append_op(8, 5, "x\n"), append_op(8, 3, "x\n")];
        resolve(&NOTHING, &mut ends, ops).unwrap();
        assert!(resolve(&EVERYTHING, &mut ends, vec![append_op(8, 5, "x\n")]).is_err());
    }

    #[test]
    fn the_logs_of_a_job_have_numbers_of_their_own() {
        let mut ends = LogEnds::after(None);
        let exec = |seq| {
            let key = Key::guest(1, "exec.eventlog").unwrap();
            vec![Op::Append { key, seq, value: b"x\n".to_vec() }]
        };
        resolve(&EVERYTHING, &mut ends, vec![append_op(1, 5, "x\n")]).unwrap();
        resolve(&EVERYTHING, &mut ends, exec(0)).unwrap();
        assert!(resolve(&EVERYTHING, &mut ends, exec(0)).is_err());
        resolve(&EVERYTHING, &mut ends, vec![append_op(1, 6, "x\n")]).unwrap();
        // Too high for the cache.
        resolve(&NOTHING, &mut ends, exec(u64::from(u32::MAX))).unwrap();
        assert!(resolve(&EVERYTHING, &mut ends, exec(u64::MAX)).is_err());
        // Other logs are not in the cache.
        let key = Key::guest(1, "other.eventlog").unwrap();
        let other = vec![Op::Append { key, seq: 9, value: b"x\n".to_vec() }];
        assert!(resolve(&EVERYTHING, &mut ends, other).is_err());
    }

    #[test]
    fn an_evicted_log_is_looked_up() {
        let mut ends = LogEnds::after(None);
        for id in 0..=CACHED_JOBS as u64 {
            resolve(&NOTHING, &mut ends, vec![append_op(id, 0, "x\n")]).unwrap();
        }
        for id in [0, CACHED_JOBS as u64] {
            assert!(resolve(&EVERYTHING, &mut ends, vec![append_op(id, 0, "x\n")]).is_err());
        }
        assert!(resolve(&EVERYTHING, &mut ends, vec![append_op(0, 1, "x\n")]).is_err());
        let newest = CACHED_JOBS as u64 + 1;
        resolve(&EVERYTHING, &mut ends, vec![append_op(newest, 0, "x\n")]).unwrap();
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
        let changes = resolve(&NOTHING, &mut LogEnds::after(None), ops).unwrap();
        let rows: Vec<_> = changes.into_rows(7).collect();
        let bundle = |entry: Entry| {
            let mut bundle = Bundle::default();
            assert_eq!(bundle.add(entry), None);
            Some(bundle.encode())
        };
        let (_, name) = Key::eventlog(1).frequent().unwrap();
        let record = |seq, text: &str| Entry { name, seq: Some(seq), value: text.into() };
        let expected = [
            (rows::of_first_bundle(1), bundle(record(1, "c"))),
            (rows::of_first_bundle(2), bundle(record(0, "b"))),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn the_first_bundle_of_a_job_of_which_something_is_stored_has_the_number_of_its_commit() {
        let mut ends = LogEnds::after(Some(4));
        let mut name = |op: Op| {
            let changes = resolve(&NOTHING, &mut ends, vec![op]).unwrap();
            changes.into_rows(7).map(|(name, _)| name).collect::<Vec<_>>()
        };
        let put = |id| Op::Put { key: Key::resources(id), value: Vec::new() };
        assert_eq!(name(put(4)), [rows::of_bundle(4, 7)]);
        assert_eq!(name(put(6)), [rows::of_first_bundle(6)]);
        assert_eq!(name(append_op(6, 0, "a")), [rows::of_bundle(6, 7)]);
        // For an id below the newest, it isn't known whether the job was stored before.
        assert_eq!(name(put(5)), [rows::of_bundle(5, 7)]);
    }

    #[test]
    fn a_record_written_after_a_removal_in_one_commit_is_known() {
        let mut ends = LogEnds::after(None);
        let ops = vec![append_op(1, 0, "a"), Op::RemoveJob(1), append_op(1, 0, "b")];
        resolve(&NOTHING, &mut ends, ops).unwrap();
        assert!(resolve(&EVERYTHING, &mut ends, vec![append_op(1, 0, "c")]).is_err());
    }
}
