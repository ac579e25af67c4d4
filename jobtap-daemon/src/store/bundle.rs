//! Bundles: rows that each contain everything that one commit writes to the frequent keys of a job, the keys that
//! nearly every job has.
//!
//! From its submission to its end a job is part of three or four commits, and each of them changes several of its keys.
//! Memory, the write-ahead log, tables and merges take time and space for each row. With a row for each key and record
//! they took a third of the processor time of a job that does nothing. With a row for each commit they take half as
//! much.
//!
//! Logs only grow, and the values among these keys are written once in the life of most jobs. If one is written again,
//! the newest bundle has it. A later commit changes a bundle only to take a key out of it: when the key is removed, or
//! gets a value that is too long for a bundle.
//!
//! On the disk a bundle is a list of entries without an end mark. Numbers are little endian:
//!
//! - A value: 1 byte [`VALUE`] + the number of the name; 4 bytes length; the value.
//! - A record of a log: 1 byte [`RECORD`] + the number of the name; 8 bytes number of the record; 4 bytes length; the
//!   record.
//! - A value like the jobspec in `J`: 1 byte [`LIKE_J`] + the number of the name; 4 bytes length of the beginning and
//!   4 bytes length of the end that it has in common with that jobspec; 4 bytes length; the bytes between the two.

use super::keys::Frequent;
use super::request;

const VALUE: u8 = 0x00;
const RECORD: u8 = 0x10;
const LIKE_J: u8 = 0x20;
const KIND: u8 = 0xf0;

/// The maximum total size of a bundle's values, in bytes. A value that doesn't fit has a row of its own, so that a
/// reader of the other values doesn't read it.
const LARGEST: usize = 256 * 1024;

/// The minimum number of bytes that two values must have in common for one to refer to the other.
const WORTH_REFERRING: usize = 64;

/// A value, or a record of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The name of the key below the job.
    pub(super) name: Frequent,
    /// The number of the record; `None` for a value.
    pub(super) seq: Option<u64>,
    /// The value, or the record.
    pub(super) value: Vec<u8>,
}

/// A bundle that can be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bundle {
    entries: Vec<Entry>,
    bytes: usize,
}

impl Bundle {
    /// Whether the bundle has no entries.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a value or a record; returns it if it needs a row of its own.
    pub(super) fn add(&mut self, entry: Entry) -> Option<Entry> {
        if !self.has_room(entry.value.len()) {
            return Some(entry);
        }
        self.bytes += entry.value.len();
        self.entries.push(entry);
        None
    }

    /// Removes and returns the record with this number, if there is one.
    pub(super) fn take_record(&mut self, name: Frequent, seq: u64) -> Option<Entry> {
        let known = |entry: &Entry| entry.name == name && entry.seq == Some(seq);
        let entry = self.entries.remove(self.entries.iter().position(known)?);
        self.bytes = self.bytes.saturating_sub(entry.value.len());
        Some(entry)
    }

    /// Appends to the record with this number, if there is one and the bundle has room. Returns `value` if it isn't
    /// appended.
    pub(super) fn extend_record(
        &mut self,
        name: Frequent,
        seq: u64,
        value: Vec<u8>,
    ) -> Option<Vec<u8>> {
        let has_room = self.has_room(value.len());
        let known = |entry: &&mut Entry| entry.name == name && entry.seq == Some(seq);
        match self.entries.iter_mut().find(known) {
            Some(entry) if has_room => {
                self.bytes += value.len();
                entry.value.extend(value);
                None
            }
            _ => Some(value),
        }
    }

    /// Removes the value, or all records, with this name. Returns whether there was one.
    pub(super) fn remove(&mut self, name: Frequent) -> bool {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.name != name);
        self.bytes = self.entries.iter().map(|entry| entry.value.len()).sum();
        self.entries.len() < before
    }

    /// Removes everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the bundle's form on the disk.
    pub(super) fn encode(&self) -> Vec<u8> {
        const MOST_OF_AN_ENTRY: usize = 17;
        let mut bytes = Vec::with_capacity(self.bytes + self.entries.len() * MOST_OF_AN_ENTRY);
        // `J` comes first, since the jobspec may refer to it.
        let (first, rest): (Vec<&Entry>, Vec<&Entry>) =
            self.entries.iter().partition(|entry| entry.name == Frequent::J);
        let j = first.iter().rfind(|entry| entry.seq.is_none());
        let submitted = j.and_then(|j| request::jobspec_bytes(&j.value));
        for entry in first.iter().chain(&rest) {
            encode_entry(entry, submitted, &mut bytes);
        }
        bytes
    }

    /// Parses the form on the disk.
    ///
    /// # Errors
    /// As [`entries`].
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut bundle = Self::default();
        for entry in entries(bytes) {
            let Stored { name, seq, value } = entry?;
            bundle.bytes += value.len();
            bundle.entries.push(Entry { name, seq, value: value.to_vec() });
        }
        Ok(bundle)
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.bytes.saturating_add(bytes) <= LARGEST
    }
}

fn encode_entry(entry: &Entry, submitted: Option<&[u8]>, bytes: &mut Vec<u8>) {
    let (number, value) = (entry.name.number(), &*entry.value);
    if let Some(seq) = entry.seq {
        bytes.push(RECORD | number);
        bytes.extend(seq.to_le_bytes());
        return push_bytes(value, bytes);
    }
    let like = submitted.filter(|_| entry.name == Frequent::JOBSPEC);
    let (beginning, end) = like.map_or((0, 0), |submitted| in_common(value, submitted));
    if beginning + end < WORTH_REFERRING {
        bytes.push(VALUE | number);
        return push_bytes(value, bytes);
    }
    bytes.push(LIKE_J | number);
    push_length(beginning, bytes);
    push_length(end, bytes);
    push_bytes(value.get(beginning..value.len() - end).unwrap_or_default(), bytes);
}

/// Appends a length, which fits in 32 bits: no value in a bundle is longer than [`LARGEST`].
fn push_length(length: usize, bytes: &mut Vec<u8>) {
    bytes.extend((length as u32).to_le_bytes());
}

fn push_bytes(value: &[u8], bytes: &mut Vec<u8>) {
    push_length(value.len(), bytes);
    bytes.extend_from_slice(value);
}

/// The lengths of the beginning and of the end that two texts have in common. The two don't overlap.
fn in_common(a: &[u8], b: &[u8]) -> (usize, usize) {
    // Comparing slices is several times as fast as comparing bytes.
    const STEP: usize = 32;
    let same = a.chunks_exact(STEP).zip(b.chunks_exact(STEP)).take_while(|(a, b)| a == b).count();
    let (a, b) =
        (a.get(same * STEP..).unwrap_or_default(), b.get(same * STEP..).unwrap_or_default());
    let more = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let beginning = same * STEP + more;
    let (a, b) = (a.get(more..).unwrap_or_default(), b.get(more..).unwrap_or_default());
    let same = a.rchunks_exact(STEP).zip(b.rchunks_exact(STEP)).take_while(|(a, b)| a == b).count();
    let left = |text: &[u8]| text.len() - same * STEP;
    let (a, b) = (a.get(..left(a)).unwrap_or_default(), b.get(..left(b)).unwrap_or_default());
    let more = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    (beginning, same * STEP + more)
}

/// The bytes are not a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// An entry of a stored bundle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored<'a> {
    /// The name of the key below the job.
    pub(super) name: Frequent,
    /// The number of the record; `None` for a value.
    pub(super) seq: Option<u64>,
    /// The value, or the record.
    pub(super) value: Pieces<'a>,
}

/// A value in a bundle, which may be made of pieces of another one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pieces<'a>([&'a [u8]; 3]);

impl Pieces<'_> {
    /// The length of the value.
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|piece| piece.len()).sum()
    }

    /// The value.
    pub(super) fn to_vec(self) -> Vec<u8> {
        self.0.concat()
    }

    /// Appends the value.
    pub(super) fn append_to(&self, bytes: &mut Vec<u8>) {
        self.0.iter().for_each(|piece| bytes.extend_from_slice(piece));
    }
}

/// The entries of a stored bundle.
///
/// # Errors
/// An item is an error if the bytes are not what [`Bundle::encode`] writes. It is the last one.
pub(super) fn entries(bytes: &[u8]) -> Entries<'_> {
    Entries { bytes, submitted: None }
}

/// Iterates over the entries of a bundle.
pub(super) struct Entries<'a> {
    bytes: &'a [u8],
    /// The jobspec in `J`, once the iterator has passed `J`.
    submitted: Option<&'a [u8]>,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Stored<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        let entry = self.entry();
        if entry.is_none() {
            self.bytes = &[];
        }
        Some(entry.ok_or(Malformed))
    }
}

impl<'a> Entries<'a> {
    fn entry(&mut self) -> Option<Stored<'a>> {
        let [tag] = self.number()?;
        let name = Frequent::from_number(tag & !KIND)?;
        match tag & KIND {
            VALUE => {
                let value = self.value()?;
                if name == Frequent::J {
                    self.submitted = request::jobspec_bytes(value);
                }
                Some(Stored { name, seq: None, value: Pieces([value, &[], &[]]) })
            }
            RECORD => {
                let seq = Some(u64::from_le_bytes(self.number()?));
                Some(Stored { name, seq, value: Pieces([self.value()?, &[], &[]]) })
            }
            LIKE_J => {
                let (beginning, end) = (self.length()?, self.length()?);
                // Only one entry may refer to it, so that a few bytes on the disk can't become many in memory.
                let submitted = self.submitted.take()?;
                let beginning = submitted.get(..beginning)?;
                let end = submitted.get(submitted.len().checked_sub(end)?..)?;
                Some(Stored { name, seq: None, value: Pieces([beginning, self.value()?, end]) })
            }
            _ => None,
        }
    }

    fn value(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        let (value, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(value)
    }

    fn length(&mut self) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.number()?)).ok()
    }

    fn number<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (number, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*number)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Key;
    use super::*;

    fn named(name: &str) -> Frequent {
        Key::job(1, name).unwrap().frequent().unwrap().1
    }

    fn value(name: &str, value: &str) -> Entry {
        Entry { name: named(name), seq: None, value: value.into() }
    }

    fn record(seq: u64, value: &str) -> Entry {
        Entry { name: named(Key::EVENTLOG), seq: Some(seq), value: value.into() }
    }

    fn bundle(entries: impl IntoIterator<Item = Entry>) -> Bundle {
        let mut bundle = Bundle::default();
        entries.into_iter().for_each(|entry| assert_eq!(bundle.add(entry), None));
        bundle
    }

    /// The entries in the order of their names, since `J` comes first on the disk.
    fn sorted(bundle: Bundle) -> Vec<(&'static str, Option<u64>, Vec<u8>)> {
        let shown = |entry: Entry| (entry.name.as_str(), entry.seq, entry.value);
        let mut entries: Vec<_> = bundle.entries.into_iter().map(shown).collect();
        entries.sort();
        entries
    }

    #[test]
    fn a_bundle_has_this_form_on_the_disk() {
        let bundle = bundle([record(258, "e\n"), value("R", "{}")]);
        let expected = b"\x10\x02\x01\0\0\0\0\0\0\x02\0\0\0e\n\x04\x02\0\0\0{}";
        assert_eq!(bundle.encode(), expected);
    }

    #[test]
    fn a_jobspec_takes_no_space_beside_that_which_was_submitted() {
        let (begin, end) = (r#"{"resources":[]"#.repeat(9), r#","version":1}"#.repeat(9));
        let submitted = format!("{begin},\"environment\":{{\"A\":\"b\"}}{end}");
        let j = request::unsigned(1000, submitted);
        let without = bundle([value("J", &j)]).encode().len();
        // The jobspec is added before `J`, which it refers to.
        let both = bundle([value("jobspec", &format!("{begin}{end}")), value("J", &j)]);
        let bytes = both.encode();
        assert_eq!(bytes.len() - without, 13);
        assert_eq!(sorted(Bundle::decode(&bytes).unwrap()), sorted(both));
        // A jobspec that a plugin has changed takes space only for the difference.
        let changed = bundle([value("J", &j), value("jobspec", &format!("{begin}[7]{end}"))]);
        let bytes = changed.encode();
        assert_eq!(bytes.len() - without, 13 + 3);
        assert_eq!(sorted(Bundle::decode(&bytes).unwrap()), sorted(changed.clone()));
        let mut alone = changed;
        assert!(alone.remove(Frequent::J));
        assert_eq!(sorted(Bundle::decode(&alone.encode()).unwrap()), sorted(alone));
    }

    #[test]
    fn a_reference_to_what_is_not_there_is_malformed() {
        let text = "x".repeat(100);
        let j = request::unsigned(1000, text.clone());
        let both = bundle([value("J", &j), value("jobspec", &text)]).encode();
        let without = both.get(bundle([value("J", &j)]).encode().len()..).unwrap();
        assert_eq!(Bundle::decode(without), Err(Malformed));
        let short = bundle([value("J", &request::unsigned(1000, "x".to_owned()))]).encode();
        assert_eq!(Bundle::decode(&[&*short, without].concat()), Err(Malformed));
    }

    /// The manager never writes such a record, and a reader would take its text for a value of `J`.
    #[test]
    fn nothing_refers_to_a_record_below_j() {
        let text = "x".repeat(100);
        let record = Entry {
            name: Frequent::J,
            seq: Some(0),
            value: request::unsigned(1, text.clone()).into(),
        };
        let both = bundle([record, value("jobspec", &text)]);
        assert_eq!(sorted(Bundle::decode(&both.encode()).unwrap()), sorted(both));
    }

    #[test]
    fn what_is_long_needs_a_row_of_its_own() {
        let long = "x".repeat(LARGEST);
        let mut bundle = bundle([record(0, &long)]);
        assert_eq!(bundle.add(value("R", "x")), Some(value("R", "x")));
        let name = named(Key::EVENTLOG);
        assert_eq!(bundle.extend_record(name, 0, b"x".to_vec()), Some(b"x".to_vec()));
        assert_eq!(bundle.take_record(name, 0), Some(record(0, &long)));
        assert_eq!(bundle.add(value("R", "x")), None);
        assert!(bundle.remove(named("R")) && !bundle.remove(named("R")) && bundle.is_empty());
        assert_eq!(bundle.add(record(1, &long)), None);
    }

    #[test]
    fn a_record_grows() {
        let mut bundle = bundle([record(0, "a"), record(1, "b")]);
        let name = named(Key::EVENTLOG);
        assert_eq!(bundle.extend_record(name, 1, b"c".to_vec()), None);
        assert_eq!(bundle.extend_record(name, 2, b"d".to_vec()), Some(b"d".to_vec()));
        assert_eq!(bundle.entries, [record(0, "a"), record(1, "bc")]);
    }

    fn entry() -> impl Strategy<Value = Entry> {
        let text = prop_oneof!["[ab]{0,200}", "\0(1|2)\0[ab]{0,200}"];
        let name = (0..6u8).prop_map(|number| Frequent::from_number(number).unwrap());
        (name, prop::option::of(any::<u64>()), text).prop_map(|(name, seq, text)| Entry {
            name,
            seq,
            value: text.into(),
        })
    }

    proptest! {
        #[test]
        fn a_bundle_reads_back(entries in prop::collection::vec(entry(), 0..9)) {
            let bundle = bundle(entries);
            let bytes = bundle.encode();
            prop_assert_eq!(sorted(Bundle::decode(&bytes).unwrap()), sorted(bundle));
        }

        #[test]
        fn what_texts_have_in_common_is_equal_and_the_most(
            beginning in "[ab]{0,99}", a in "[ab]{0,40}", b in "[ab]{0,40}", end in "[ab]{0,99}",
        ) {
            let (a, b) = (format!("{beginning}{a}{end}"), format!("{beginning}{b}{end}"));
            let (first, last) = in_common(a.as_bytes(), b.as_bytes());
            let shorter = a.len().min(b.len());
            prop_assert!(first + last <= shorter);
            prop_assert_eq!(&a[..first], &b[..first]);
            prop_assert_eq!(&a[a.len() - last..], &b[b.len() - last..]);
            prop_assert!(first >= beginning.len() && first + last >= beginning.len() + end.len());
        }

        #[test]
        fn other_bytes_are_no_bundle_and_no_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..60),
            entries in prop::collection::vec(entry(), 1..4),
            cut in 1..20usize,
        ) {
            let _ = Bundle::decode(&bytes);
            let whole = bundle(entries).encode();
            let cut = whole.get(..whole.len().saturating_sub(cut)).unwrap_or_default();
            if let Ok(fewer) = Bundle::decode(cut) {
                prop_assert!(fewer.encode().len() <= cut.len());
            }
        }
    }
}
