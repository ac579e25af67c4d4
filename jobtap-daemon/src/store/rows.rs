//! Names of rows: the encoding of keys in an ordered byte map.
//!
//! The name of a job's row is `j`, the id as eight bytes, and the key's name: half the length of the key's text, and in
//! the same order. Comparing names is most of the cost of a commit, and the engine stores names of up to 20 bytes
//! without a pointer to follow; the names of the first 256 records of an `eventlog` just fit. Rows of the instance are
//! `i` and the key, the store's own rows are `s` and a name.
//!
//! The name of a record's row is the name of its log, a NUL, which no key contains, and the record's number. The name
//! of a bundle's row has the NUL right after the id, and then the number of its commit; the [first](of_first_bundle)
//! bundle of a job has the number 0.

use smallvec::SmallVec;

use super::keys::{JOBS, Key};

/// The name of a row. The names of a job's logs and values are short enough to need no allocation; a commit makes
/// thousands of them.
pub(super) type Name = SmallVec<[u8; 32]>;

/// The prefix of all rows of jobs.
pub(super) const ALL_JOBS: &[u8] = b"j";
/// The prefix of all rows of the instance.
pub(super) const ALL_INSTANCE: &[u8] = b"i";
/// The prefix of the rows of the job index.
pub(super) const ALL_INDEX: &[u8] = b"ijobtap.job.";
/// The prefix of the store's own rows.
pub(super) const ALL_STORE: &[u8] = b"s";
/// The version of the layout, as decimal text.
pub(super) const FORMAT: &[u8] = b"sformat";
/// The number of commits made, as eight bytes, big endian.
pub(super) const COMMITS: &[u8] = b"scommits";

const JOB: u8 = b'j';
const INSTANCE: u8 = b'i';
/// The length of the prefix of all rows of a job.
const JOB_LEN: usize = 1 + 8;
/// The length of the name of a first bundle: the prefix, a NUL, and the byte for the length of the number 0, which is
/// 0.
const FIRST_BUNDLE: usize = JOB_LEN + 2;
/// The number of a first bundle.
pub(super) const FIRST: u64 = 0;

/// The parts of a row's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row<'a> {
    /// The job; `None` for a row of the instance.
    pub(super) job: Option<u64>,
    /// The key's name below the job or the instance. Empty for a bundle, which contains several keys of a job.
    pub(super) name: &'a str,
    /// The number of the record or of the bundle's commit; `None` for a value.
    pub(super) seq: Option<u64>,
}

/// The prefix of all rows of a job.
pub(super) fn of_job(id: u64) -> Name {
    let mut row = Name::new();
    row.push(JOB);
    row.extend_from_slice(&id.to_be_bytes());
    row
}

/// The job in a row's name, or in a prefix of names that contains the whole id.
pub(super) fn job_of(name: &[u8]) -> Option<u64> {
    let id = name.strip_prefix(ALL_JOBS)?.first_chunk()?;
    Some(u64::from_be_bytes(*id))
}

/// The prefix of the rows of the instance's keys that begin with `prefix`.
pub(super) fn of_instance(prefix: &str) -> Vec<u8> {
    let mut row = vec![INSTANCE];
    row.extend(prefix.as_bytes());
    row
}

/// The row whose presence shows that the job index is complete.
pub(super) fn indexed() -> Vec<u8> {
    of_instance(Key::INDEXED)
}

/// The row of a value.
pub(super) fn of_value(key: &Key) -> Name {
    let mut row = match key.job_id() {
        Some(id) => of_job(id),
        None => Name::from_slice(&[INSTANCE]),
    };
    row.extend_from_slice(key.name().as_bytes());
    row
}

/// The prefix of all rows of a log.
pub(super) fn of_log(key: &Key) -> Name {
    let mut row = of_value(key);
    row.push(0);
    row
}

/// The row of a log's record.
pub(super) fn of_record(key: &Key, seq: u64) -> Name {
    let mut row = of_log(key);
    push_number(&mut row, seq);
    row
}

/// The prefix of the rows of a job's bundles.
pub(super) fn of_bundles(id: u64) -> Name {
    let mut row = of_job(id);
    row.push(0);
    row
}

/// The row of the bundle that a commit writes for a job.
pub(super) fn of_bundle(id: u64, commit: u64) -> Name {
    let mut row = of_bundles(id);
    push_number(&mut row, commit);
    row
}

/// The row of a job's first bundle, its submission, if the job's id is above the ids of all stored jobs. The number in
/// it refers to no commit: the commit with this number creates the store and writes nothing about jobs.
///
/// These rows have most of the text of a job, are written in the order of the ids, and hardly ever change. So they have
/// a keyspace of their own.
pub(super) fn of_first_bundle(id: u64) -> Name {
    of_bundle(id, FIRST)
}

/// Whether this is the name of a job's [first bundle](of_first_bundle).
pub(super) fn is_first_bundle(name: &[u8]) -> bool {
    name.len() == FIRST_BUNDLE && name.starts_with(ALL_JOBS) && name.ends_with(&[0, 0])
}

/// Whether the name of a first bundle can begin with `prefix`, a prefix of rows of jobs.
pub(super) fn can_begin_first_bundle(prefix: &[u8]) -> bool {
    let number = prefix.get(JOB_LEN..).unwrap_or_default();
    prefix.len() <= FIRST_BUNDLE && number.iter().all(|byte| *byte == 0)
}

/// Appends a number as its length in bytes, followed by these bytes. This is short and sorts by number.
fn push_number(row: &mut Name, number: u64) {
    let bytes = number.to_be_bytes();
    let zeros = number.leading_zeros() / 8;
    row.push((u64::BITS / 8 - zeros) as u8);
    row.extend_from_slice(bytes.get(zeros as usize..).unwrap_or_default());
}

/// Parses a row's name; `None` if it is not a row of a job or the instance.
pub(super) fn parse(row: &[u8]) -> Option<Row<'_>> {
    let (tag, rest) = row.split_first()?;
    let (job, rest) = match *tag {
        JOB => {
            let (id, rest) = rest.split_first_chunk()?;
            (Some(u64::from_be_bytes(*id)), rest)
        }
        INSTANCE => (None, rest),
        _ => return None,
    };
    let (name, seq) = match rest.iter().position(|byte| *byte == 0) {
        None => (rest, None),
        Some(nul) => {
            let (name, record) = rest.split_at_checked(nul)?;
            (name, Some(parse_seq(record.get(1..)?)?))
        }
    };
    let name = std::str::from_utf8(name).ok()?;
    let is_bundle = job.is_some() && seq.is_some();
    (!name.is_empty() || is_bundle).then_some(Row { job, name, seq })
}

fn parse_seq(record: &[u8]) -> Option<u64> {
    let (length, bytes) = record.split_first()?;
    if bytes.len() != usize::from(*length) || bytes.len() > 8 || bytes.first() == Some(&0) {
        return None;
    }
    Some(bytes.iter().fold(0, |seq, byte| (seq << 8) | u64::from(*byte)))
}

/// The prefixes of the rows of all keys that begin with the text `prefix`. Rows of other keys may have
/// these prefixes too.
pub(super) fn covering(prefix: &str) -> Vec<Vec<u8>> {
    if let Some((id, name)) = Key::split_job(prefix) {
        let mut row = of_job(id);
        row.extend_from_slice(name.as_bytes());
        return match name.is_empty() {
            true => vec![row.into_vec()],
            // Any key may be in a bundle.
            false => vec![of_bundles(id).into_vec(), row.into_vec()],
        };
    }
    if prefix.starts_with(JOBS) {
        return vec![ALL_JOBS.to_vec()];
    }
    let mut instance = vec![INSTANCE];
    instance.extend(prefix.as_bytes());
    match JOBS.starts_with(prefix) {
        true => vec![instance, ALL_JOBS.to_vec()],
        false => vec![instance],
    }
}

/// The first name after all names with `prefix`; `None` if there is no such name.
pub(super) fn after(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix.get(..=last)?.to_vec();
    *end.last_mut()? += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_rows_of_the_index_are_those_of_its_keys() {
        assert_eq!(&*of_value(&Key::instance(Key::INDEX).unwrap()), ALL_INDEX);
    }

    /// A repair that drops the index finds the mark by the name of this row; under another name, the mark would stay.
    #[test]
    fn the_row_of_a_complete_index_is_that_of_its_key() {
        assert_eq!(indexed(), of_value(&Key::instance(Key::INDEXED).unwrap()).into_vec());
    }

    #[test]
    fn an_events_row_needs_no_pointer() {
        assert_eq!(of_record(&Key::eventlog(u64::MAX), 255).len(), 20);
        let row = of_record(&Key::eventlog(2), 0x1_00);
        assert_eq!(&*row, b"j\0\0\0\0\0\0\0\x02eventlog\0\x02\x01\x00");
    }

    #[test]
    fn bundles_are_before_the_other_rows_of_their_job_in_the_order_of_commits() {
        let row = of_bundle(2, 0x1_00);
        assert_eq!(&*row, b"j\0\0\0\0\0\0\0\x02\0\x02\x01\x00");
        assert_eq!(parse(&row), Some(Row { job: Some(2), name: "", seq: Some(0x1_00) }));
        assert!(of_bundle(2, 0xff) < row && row < of_bundle(2, u64::MAX));
        assert!(of_bundle(2, u64::MAX) < of_value(&Key::job(2, "!").unwrap()));
        assert!(of_bundle(1, u64::MAX) < of_bundle(2, 0));
        // The instance has no bundles.
        assert_eq!(parse(b"i\0\x01\x05"), None);
    }

    #[test]
    fn the_first_bundle_is_the_first_row_of_its_job() {
        let first = of_first_bundle(2);
        assert_eq!(&*first, b"j\0\0\0\0\0\0\0\x02\0\0");
        assert_eq!(parse(&first), Some(Row { job: Some(2), name: "", seq: Some(0) }));
        assert!(is_first_bundle(&first) && first < of_bundle(2, 1));
        let others = [
            of_bundle(2, 1),
            of_value(&Key::job(2, "ab").unwrap()),
            of_record(&Key::job(2, "a").unwrap(), 0),
            of_job(0x0200_0000_0000_0000),
        ];
        assert!(others.iter().all(|other| !is_first_bundle(other)));
        assert!(!is_first_bundle(b"ijobtap.jo\0\0"));
        for end in 0..=first.len() {
            assert!(can_begin_first_bundle(&first[..end]));
        }
        let longer = [&*first, b"\0"].concat();
        for prefix in [&*of_value(&Key::job(2, "a").unwrap()), &*of_bundle(2, 1), &longer] {
            assert!(!can_begin_first_bundle(prefix), "{}", prefix.escape_ascii());
        }
    }

    #[test]
    fn records_sort_between_their_key_and_the_next() {
        let key = Key::job(1, "a").unwrap();
        let next = Key::job(1, "a!").unwrap();
        assert!(of_value(&key) < of_record(&key, 0));
        assert!(of_record(&key, u64::MAX) < of_value(&next));
        assert!(of_record(&Key::job(1, "z").unwrap(), 0) < of_value(&Key::job(2, "a").unwrap()));
    }

    #[test]
    fn the_name_after_a_prefix_is_outside_of_it() {
        assert_eq!(after(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(after(b"j\xff\xff"), Some(b"k".to_vec()));
        assert_eq!(after(b"\xff"), None);
    }

    proptest! {
        #[test]
        fn a_row_parses_into_its_parts(
            row in "[ij][\\x00-\\x09]{0,9}[a-z]{0,3}(\\x00[\\x00-\\x03]{0,4})?|\\PC{0,40}",
        ) {
            let row = row.into_bytes();
            let Some(Row { job, name, seq }) = parse(&row) else { return Ok(()) };
            let mut made = job.map_or_else(|| of_instance(""), |id| of_job(id).into_vec());
            made.extend(name.as_bytes());
            if let Some(seq) = seq {
                let number = seq.to_be_bytes();
                let digits = &number[(seq.leading_zeros() / 8) as usize..];
                made.extend([0, digits.len() as u8]);
                made.extend(digits);
            }
            prop_assert_eq!(made, row);
        }

        #[test]
        fn a_row_reads_back(id: u64, seq: u64, name in "[^\\p{Cc}]{1,20}") {
            let key = Key::job(id, &name).unwrap();
            let row = Row { job: Some(id), name: &name, seq: Some(seq) };
            let record = of_record(&key, seq);
            prop_assert_eq!(parse(&record), Some(row));
            let value = of_value(&key);
            prop_assert_eq!(parse(&value), Some(Row { seq: None, ..row }));
            let key = Key::instance(&format!("x{name}")).unwrap();
            let row = Row { job: None, name: key.name(), seq: Some(seq) };
            let record = of_record(&key, seq);
            prop_assert_eq!(parse(&record), Some(row));
        }

        #[test]
        fn records_sort_by_number(id: u64, a: u64, b: u64, shift in 0..64u32) {
            let key = Key::eventlog(id);
            let (a, b) = (a >> shift, b);
            prop_assert_eq!(of_record(&key, a).cmp(&of_record(&key, b)), a.cmp(&b));
        }

        #[test]
        fn jobs_sort_by_id(a: u64, b: u64) {
            let (left, right) = (Key::eventlog(a), Key::eventlog(b));
            prop_assert_eq!(of_value(&left).cmp(&of_value(&right)), a.cmp(&b));
        }

        #[test]
        fn a_prefix_covers_its_keys(id: u64, cut in 0..50usize) {
            for key in [Key::guest(id, "exec.eventlog").unwrap(), Key::checkpoint()] {
                let text = &key.to_string();
                let prefix = &text[..cut.min(text.len())];
                let row = of_value(&key);
                let covered = covering(prefix).iter().any(|start| row.starts_with(start));
                prop_assert!(covered, "{}", prefix);
            }
        }
    }
}
