//! Reads the rows of an ordered byte map back as the keys of jobs and of the instance. Shared by all stores that are
//! such a map, so that they behave alike.

use std::ops::{ControlFlow, Range};

use super::bundle::{Malformed, Pieces, Stored, entries};
use super::keys::Frequent;
use super::layout::{BadRow, Rows};
use super::rows::{self, Row};
use super::{Found, Key, StoreError, StoredEntry, StoredJob, request, shared};

/// What is at a key, see [`Store::find`](super::Store::find).
pub(super) fn find(stored: &dyn Rows, key: &Key) -> Result<Option<Found>, StoreError> {
    let mut found = None;
    if let Some((id, name)) = key.frequent() {
        each_bundled(stored, id, name, |seq, value| {
            // The newest bundle is the last one.
            if seq.is_none() {
                found = Some(value.to_vec());
            }
        })?;
    }
    let found = match found {
        None => stored.row(&rows::of_value(key))?,
        found => found,
    };
    let Some(found) = found else { return Ok(None) };
    Ok(match shared::key_of(&found).map(Key::instance) {
        None => Some(Found::Value(found)),
        Some(with) => with.ok().map(Found::Shared),
    })
}

/// The value itself; for a reference, that of the key that it names.
fn resolve(stored: &dyn Rows, value: Vec<u8>) -> Result<Option<Vec<u8>>, StoreError> {
    match shared::key_of(&value).map(Key::instance) {
        None => Ok(Some(value)),
        Some(Ok(key)) => stored.row(&rows::of_value(&key)),
        Some(Err(_)) => Ok(None),
    }
}

/// All records of a log, see [`Store::read_log`](super::Store::read_log).
pub(super) fn log(stored: &dyn Rows, key: &Key) -> Result<Option<Vec<u8>>, StoreError> {
    let mut records = Records::default();
    if let Some((id, name)) = key.frequent() {
        each_bundled(stored, id, name, |seq, value| {
            if let Some(seq) = seq {
                records.push(seq, |bytes| value.append_to(bytes));
            }
        })?;
    }
    stored.each(&rows::of_log(key), &mut |row, record| {
        let seq = rows::parse(row).and_then(|row| row.seq).unwrap_or(u64::MAX);
        records.push(seq, |bytes| bytes.extend_from_slice(record));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((!records.is_empty()).then(|| records.join()))
}

/// Visits the values and records that a job's bundles have under a name, in the order of their commits. `visit` gets
/// the number of a record, or `None` for a value.
fn each_bundled(
    stored: &dyn Rows,
    id: u64,
    name: Frequent,
    mut visit: impl FnMut(Option<u64>, Pieces<'_>),
) -> Result<(), StoreError> {
    stored.each(&rows::of_bundles(id), &mut |row, bundle| {
        for entry in entries(bundle) {
            let entry = entry.map_err(|Malformed| stored.malformed(row))?;
            if entry.name == name {
                visit(entry.seq, entry.value);
            }
        }
        Ok(ControlFlow::Continue(()))
    })
}

/// The keys that begin with `prefix`, see [`Store::list`](super::Store::list).
pub(super) fn list(stored: &dyn Rows, prefix: &str) -> Result<Vec<Key>, StoreError> {
    let mut listing = Listing { prefix, keys: Vec::new() };
    for start in rows::covering(prefix) {
        stored.each(&start, &mut |name, value| {
            listing.row(name, value).map_err(|bad| stored.damaged(&bad.to_string()))?;
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(listing.finish())
}

/// The keys of the instance, see [`Store::instance_keys`](super::Store::instance_keys).
pub(super) fn instance_keys(stored: &dyn Rows) -> Result<Vec<Key>, StoreError> {
    let mut listing = Listing { prefix: "", keys: Vec::new() };
    stored.each(rows::ALL_INSTANCE, &mut |name, value| {
        listing.row(name, value).map_err(|bad| stored.damaged(&bad.to_string()))?;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(listing.finish())
}

/// Visits the values of the instance, see [`Store::scan_values`](super::Store::scan_values).
pub(super) fn scan_values(
    stored: &dyn Rows,
    prefix: &str,
    visit: &mut dyn FnMut(&str, &[u8]) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    stored.each(&rows::of_instance(prefix), &mut |name, value| {
        match rows::parse(name) {
            Some(Row { job: None, name, seq: None }) => Ok(visit(name, value)),
            // The record of a log.
            _ => Ok(ControlFlow::Continue(())),
        }
    })
}

/// Visits the jobs whose rows begin with `prefix`, see [`Store::scan_jobs`](super::Store::scan_jobs).
pub(super) fn scan_jobs(
    stored: &dyn Rows,
    prefix: &[u8],
    wanted: &dyn Fn(&str) -> bool,
    visit: &mut dyn FnMut(StoredJob) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let mut failed = None;
    let mut visit = |mut job: StoredJob| {
        for mut entry in std::mem::take(&mut job.entries) {
            match resolve(stored, std::mem::take(&mut entry.value)) {
                Ok(Some(value)) => {
                    entry.value = request::shown(&entry.name, value);
                    job.entries.push(entry);
                }
                // What it refers to isn't there, so `value` has nothing at this key either.
                Ok(None) => {}
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
        }
        visit(job)
    };
    let mut scan = JobScan::new(wanted, &mut visit);
    stored.each(prefix, &mut |name, value| {
        scan.row(name, value).map_err(|bad| stored.damaged(&bad.to_string()))
    })?;
    let _ = scan.finish();
    failed.map_or(Ok(()), Err)
}

/// One job, see [`Store::job`](super::Store::job).
pub(super) fn job(
    stored: &dyn Rows,
    id: u64,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Option<StoredJob>, StoreError> {
    let mut found = None;
    scan_jobs(stored, &rows::of_job(id), wanted, &mut |job| {
        found = Some(job);
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// The records of a log in the order of their rows. This need not be the order of their numbers: records that have rows
/// of their own come after those in bundles.
#[derive(Debug, Default)]
struct Records {
    bytes: Vec<u8>,
    /// The number of each record, and its place in `bytes`.
    places: Vec<(u64, Range<usize>)>,
}

impl Records {
    fn push(&mut self, seq: u64, append: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        append(&mut self.bytes);
        self.places.push((seq, start..self.bytes.len()));
    }

    fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The number after the highest of the records.
    fn next_seq(&self) -> Option<u64> {
        self.places.iter().map(|(seq, _)| seq.saturating_add(1)).max()
    }

    /// The records in the order of their numbers.
    fn join(mut self) -> Vec<u8> {
        if self.places.is_sorted_by_key(|(seq, _)| *seq) {
            return self.bytes;
        }
        self.places.sort_by_key(|(seq, _)| *seq);
        let record = |(_, place): &(_, Range<usize>)| self.bytes.get(place.clone());
        self.places.iter().filter_map(record).collect::<Vec<_>>().concat()
    }
}

/// Combines the rows of a scan into jobs.
pub(super) struct JobScan<'a> {
    wanted: &'a dyn Fn(&str) -> bool,
    visit: &'a mut dyn FnMut(StoredJob) -> ControlFlow<()>,
    job: Option<JobRows>,
}

/// The job whose rows are being read.
struct JobRows {
    id: u64,
    keys: Vec<(Box<str>, Content)>,
}

enum Content {
    Value(Vec<u8>),
    Log(Records),
}

impl<'a> JobScan<'a> {
    pub(super) fn new(
        wanted: &'a dyn Fn(&str) -> bool,
        visit: &'a mut dyn FnMut(StoredJob) -> ControlFlow<()>,
    ) -> Self {
        Self { wanted, visit, job: None }
    }

    /// Adds the next row, in byte order. The error is the reason why it is not a job's row.
    pub(super) fn row(&mut self, name: &[u8], value: &[u8]) -> Result<ControlFlow<()>, BadRow> {
        let no_job = || BadRow::NoJob(name.into());
        let row = rows::parse(name).ok_or_else(no_job)?;
        let id = row.job.ok_or_else(no_job)?;
        if self.job.as_ref().is_none_or(|job| job.id != id) {
            if self.finish().is_break() {
                return Ok(ControlFlow::Break(()));
            }
            self.job = Some(JobRows { id, keys: Vec::new() });
        }
        let Some(job) = &mut self.job else { return Ok(ControlFlow::Continue(())) };
        if !row.name.is_empty() {
            if (self.wanted)(row.name) {
                job.add(row.name, row.seq, false, |bytes| bytes.extend_from_slice(value));
            }
            return Ok(ControlFlow::Continue(()));
        }
        for entry in entries(value) {
            let Stored { name: key, seq, value } =
                entry.map_err(|Malformed| BadRow::Malformed(name.into()))?;
            if (self.wanted)(key.as_str()) {
                job.add(key.as_str(), seq, true, |bytes| value.append_to(bytes));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Visits the last job.
    pub(super) fn finish(&mut self) -> ControlFlow<()> {
        match self.job.take() {
            Some(job) => (self.visit)(job.stored()),
            None => ControlFlow::Continue(()),
        }
    }
}

impl JobRows {
    /// Adds a value or a record. The value in the last bundle counts; a value in a row of its own is ignored if a
    /// bundle has one too.
    fn add(
        &mut self,
        name: &str,
        seq: Option<u64>,
        bundled: bool,
        append: impl FnOnce(&mut Vec<u8>),
    ) {
        // The rows of a key are adjacent. Only a frequent key may also have been in an earlier bundle: searching for
        // every key would be slow for a job with many keys.
        let is_last = self.keys.last().is_some_and(|(last, _)| **last == *name);
        let known = match is_last {
            true => self.keys.last_mut(),
            false if bundled || Frequent::named(name).is_some() => {
                self.keys.iter_mut().find(|(known, _)| **known == *name)
            }
            false => None,
        };
        match (known, seq) {
            (Some((_, Content::Log(records))), Some(seq)) => records.push(seq, append),
            (Some((_, Content::Value(value))), None) => {
                if bundled {
                    value.clear();
                    append(value);
                }
            }
            // No key is both a value and a log.
            (Some(_), _) => {}
            (None, Some(seq)) => {
                let mut records = Records::default();
                records.push(seq, append);
                self.keys.push((name.into(), Content::Log(records)));
            }
            (None, None) => {
                let mut value = Vec::new();
                append(&mut value);
                self.keys.push((name.into(), Content::Value(value)));
            }
        }
    }

    fn stored(self) -> StoredJob {
        let entry = |(name, content): (Box<str>, Content)| {
            let name = String::from(name);
            match content {
                Content::Value(value) => StoredEntry { name, value, next_seq: None },
                Content::Log(records) => {
                    let next_seq = records.next_seq();
                    StoredEntry { name, value: records.join(), next_seq }
                }
            }
        };
        let mut entries: Vec<StoredEntry> = self.keys.into_iter().map(entry).collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        StoredJob { id: self.id, entries }
    }
}

/// Collects the keys with a prefix from rows that may also belong to other keys.
struct Listing<'a> {
    prefix: &'a str,
    keys: Vec<Key>,
}

impl Listing<'_> {
    /// Adds the next row. The error is the reason why it is not a key's row.
    fn row(&mut self, name: &[u8], value: &[u8]) -> Result<(), BadRow> {
        let row = rows::parse(name).ok_or_else(|| BadRow::NoKey(name.into()))?;
        match row.job {
            None => self.key(Key::instance(row.name)?),
            Some(id) if !row.name.is_empty() => self.key(Key::job(id, row.name)?),
            Some(id) => {
                for entry in entries(value) {
                    let entry = entry.map_err(|Malformed| BadRow::Malformed(name.into()))?;
                    self.key(Key::job(id, entry.name.as_str())?);
                }
            }
        }
        Ok(())
    }

    fn key(&mut self, key: Key) {
        // A log may have thousands of records.
        if self.keys.last() != Some(&key) && key.starts_with(self.prefix) {
            self.keys.push(key);
        }
    }

    /// The keys in byte order, each once. Rows are ordered differently: all rows of the instance precede those of jobs,
    /// and bundles precede the other rows of their jobs.
    fn finish(mut self) -> Vec<Key> {
        self.keys.sort();
        self.keys.dedup();
        self.keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::memory::MemoryStore;
    use crate::store::{Op, Store};

    #[test]
    fn a_reference_to_a_missing_value_is_left_out() {
        let store = MemoryStore::default();
        let put = |name: &str, value: String| Op::Put {
            key: Key::job(1, name).unwrap(),
            value: value.into_bytes(),
        };
        let refer = put("jobspec", shared::refer_to("gone"));
        store.commit(vec![refer, put("R", "{}".to_owned())]).unwrap();
        let job = store.job(1, &|_| true).unwrap().unwrap();
        let names: Vec<&str> = job.entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["R"]);
    }

    #[test]
    fn an_invalid_row_ends_the_scan_with_its_name() {
        let (wanted, mut visit) = (|_: &str| true, |_: StoredJob| ControlFlow::Continue(()));
        let mut scan = JobScan::new(&wanted, &mut visit);
        let err = scan.row(b"jx\xff", b"").unwrap_err().to_string();
        assert_eq!(err, "the row jx\\xff is no job's");
        assert!(scan.row(b"ia", b"").is_err());
        let bundle = rows::of_bundle(1, 1);
        let err = scan.row(&bundle, b"\xff").unwrap_err().to_string();
        assert_eq!(err, format!("the row {} is malformed", bundle.escape_ascii()));
        let mut listing = Listing { prefix: "", keys: Vec::new() };
        assert!(listing.row(b"j", b"").is_err());
        assert!(listing.row(&bundle, b"\xff").is_err());
    }

    #[test]
    fn records_are_joined_in_the_order_of_their_numbers() {
        let mut records = Records::default();
        for (seq, text) in [(4, "c"), (9, "d"), (0, "a"), (2, "b")] {
            records.push(seq, |bytes| bytes.extend_from_slice(text.as_bytes()));
        }
        assert_eq!(records.next_seq(), Some(10));
        assert_eq!(records.join(), b"abcd");
    }
}
