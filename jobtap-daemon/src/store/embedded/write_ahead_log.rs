//! Reads the engine's write-ahead logs ("journals" in fjall) without the engine: which commits are
//! complete, and which bytes follow the last of them.
//!
//! fjall truncates a write-ahead log at the first place that it can't parse and continues, even in the
//! middle of acknowledged commits, and even if newer logs follow. A batch that it can parse but whose
//! checksum is wrong makes it refuse the database, even if that batch is a commit that a power loss has
//! torn. Only the number that each of our commits contains shows which of the two reactions is right.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Seek};
use std::os::unix::fs::FileExt;

use xxhash_rust::xxh3::Xxh3;

use super::super::rows;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
/// The last bytes of a batch. The last byte is not zero, so a complete batch does not end in zeros.
const END_MAGIC: [u8; 4] = *b"FJL\x03";
const UNCOMPRESSED: u8 = 0;
const LZ4: u8 = 1;
const PUT: u8 = 0;
/// The kinds of changes: puts, tombstones, weak tombstones.
const KNOWN_CHANGES: [u8; 3] = [PUT, 1, 2];

/// The lowest sequence number that counts as damaged: no real one gets so high, and no checksum covers
/// it. The engine panics at twice this number.
const TOO_MANY_BATCHES: u64 = 1 << 62;

/// The number of bytes read at once.
const CHUNK: usize = 64 * 1024;

/// The numbers of a complete batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    /// The engine's number, which the checksum doesn't cover. It increases with each batch.
    seqno: u64,
    /// The number of our commit, which all our batches set; `None` for batches of another program.
    pub(super) commit: Option<u64>,
}

impl Batch {
    /// This batch, if it is the one that follows `previous`.
    fn after(self, previous: Option<Self>) -> Option<Self> {
        if self.seqno >= TOO_MANY_BATCHES {
            return None;
        }
        let Some(previous) = previous else { return Some(self) };
        (self.seqno > previous.seqno && self.is_numbered_after(Some(previous)))
            .then_some(Self { commit: self.commit.or(previous.commit), ..self })
    }

    /// Our commits are numbered without gaps, across write-ahead logs and restarts.
    fn is_numbered_after(self, previous: Option<Self>) -> bool {
        match (self.commit, previous.and_then(|previous| previous.commit)) {
            (Some(commit), Some(previous)) => Some(commit) == previous.checked_add(1),
            _ => true,
        }
    }
}

/// The bytes after the last complete batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Only zeros: write-ahead logs are created filled with them.
    Nothing,
    /// The beginning of a batch, as a manager leaves it when it is killed while writing.
    Unfinished,
    /// Other bytes.
    Torn,
}

/// The contents of a write-ahead log.
#[derive(Debug)]
pub(super) struct Contents {
    /// The last complete batch, in this or an earlier write-ahead log.
    pub(super) last: Option<Batch>,
    /// The offset at which it ends.
    pub(super) end: u64,
    /// The length of the file without the zeros at its end.
    pub(super) length: u64,
    /// The bytes between `end` and `length`.
    pub(super) rest: Rest,
}

/// Reads a write-ahead log up to the first place without a batch that follows `last`.
pub(super) fn read(file: &File, mut last: Option<Batch>) -> io::Result<Contents> {
    let length = without_zeros(file)?;
    let mut source = BufReader::with_capacity(CHUNK, file);
    source.rewind()?;
    let mut reader = Reader::new(source, length);
    let mut end = 0;
    let rest = loop {
        if end == length {
            break Rest::Nothing;
        }
        last = match reader.batch().map(|batch| batch.after(last)) {
            Ok(Some(batch)) => Some(batch),
            Ok(None) | Err(Stop::Damage) => break Rest::Torn,
            Err(Stop::OutOfBytes) => break Rest::Unfinished,
            Err(Stop::Io(err)) => return Err(err),
        };
        end = reader.at;
    };
    Ok(Contents { last, end, length, rest })
}

/// Whether the damaged bytes had been durable. This is so if they contain a complete batch, which was
/// written after the damaged one was durable. The search tries every byte, since the start of a batch
/// isn't marked uniquely.
///
/// A complete batch at the start of the damage whose numbers don't follow those of the last one is not a
/// torn commit either. No checksum covers the engine's number, but a power loss takes whole sectors, and
/// a sector with a byte of that number also contains a byte next to the number. Either number may be the
/// damaged one, even the number of the batch before, which is durable.
pub(super) fn was_durable(file: &File, contents: &Contents) -> io::Result<bool> {
    let size = contents.length.saturating_sub(contents.end);
    let mut rest = vec![0; usize::try_from(size).map_err(|_| ErrorKind::OutOfMemory)?];
    file.read_exact_at(&mut rest, contents.end)?;
    for (at, _) in rest.iter().enumerate().filter(|(_, byte)| **byte == START) {
        let candidate = rest.get(at..).unwrap_or_default();
        if Reader::new(candidate, candidate.len() as u64).batch().is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether no commit has ever been durable in a database whose only write-ahead log is this one.
pub(super) fn never_used(file: &File) -> io::Result<bool> {
    let contents = read(file, None)?;
    Ok(contents.last.is_none() && !was_durable(file, &contents)?)
}

/// The length of a file without the zeros at its end.
fn without_zeros(file: &File) -> io::Result<u64> {
    let zeros = vec![0; CHUNK];
    let mut chunk = vec![0; CHUNK];
    let mut length = file.metadata()?.len();
    while length > 0 {
        let size = length.min(CHUNK as u64);
        let start = length.saturating_sub(size);
        chunk.truncate(size as usize);
        file.read_exact_at(&mut chunk, start)?;
        // Comparing slices is fast in debug builds too.
        if Some(chunk.as_slice()) != zeros.get(..chunk.len()) {
            let zeros = chunk.iter().rev().take_while(|byte| **byte == 0).count();
            return Ok(length.saturating_sub(zeros as u64));
        }
        length = start;
    }
    Ok(0)
}

/// The reason why a batch could not be read.
#[derive(Debug)]
enum Stop {
    OutOfBytes,
    Damage,
    Io(io::Error),
}

impl From<io::Error> for Stop {
    fn from(err: io::Error) -> Self {
        match err.kind() {
            ErrorKind::UnexpectedEof => Self::OutOfBytes,
            _ => Self::Io(err),
        }
    }
}

struct Reader<R> {
    source: R,
    at: u64,
    length: u64,
    items: Xxh3,
    key: Vec<u8>,
}

impl<R: BufRead> Reader<R> {
    fn new(source: R, length: u64) -> Self {
        Self { source, at: 0, length, items: Xxh3::new(), key: Vec::new() }
    }

    fn batch(&mut self) -> Result<Batch, Stop> {
        self.tag(START)?;
        let count = u32::from_le_bytes(self.bytes()?);
        let seqno = u64::from_le_bytes(self.bytes()?);
        self.items.reset();
        let mut commit = None;
        for _ in 0..count {
            commit = self.item()?.or(commit);
        }
        let found = self.items.digest();
        self.tag(END)?;
        let checksum = u64::from_le_bytes(self.bytes()?);
        match self.bytes()? {
            END_MAGIC if checksum == found => Ok(Batch { seqno, commit }),
            _ => Err(Stop::Damage),
        }
    }

    /// Reads an item; returns the number of the commit if the item sets it.
    fn item(&mut self) -> Result<Option<u64>, Stop> {
        self.tag(ITEM)?;
        let [change, compression] = self.bytes()?;
        if !KNOWN_CHANGES.contains(&change) || ![UNCOMPRESSED, LZ4].contains(&compression) {
            return Err(Stop::Damage);
        }
        let _keyspace: [u8; 8] = self.bytes()?;
        let key_length = u16::from_le_bytes(self.bytes()?);
        let value_length = u32::from_le_bytes(self.bytes()?);
        let stored_length = u32::from_le_bytes(self.bytes()?);
        if compression == UNCOMPRESSED && stored_length != value_length {
            return Err(Stop::Damage);
        }
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        self.pass(u64::from(key_length), |part| key.extend_from_slice(part))?;
        let is_number = key == rows::COMMITS && change == PUT && stored_length == 8;
        self.key = key;
        if is_number {
            return Ok(Some(u64::from_be_bytes(self.bytes()?)));
        }
        self.pass(u64::from(stored_length), |_| {})?;
        Ok(None)
    }

    fn tag(&mut self, wanted: u8) -> Result<(), Stop> {
        let [tag] = self.bytes()?;
        if tag == wanted { Ok(()) } else { Err(Stop::Damage) }
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let mut bytes = [0; N];
        let mut rest = bytes.as_mut_slice();
        self.pass(N as u64, |part| {
            let (filled, left) = std::mem::take(&mut rest).split_at_mut(part.len());
            filled.copy_from_slice(part);
            rest = left;
        })?;
        Ok(bytes)
    }

    /// Adds `count` bytes to the checksum and passes them to `each`.
    fn pass(&mut self, count: u64, mut each: impl FnMut(&[u8])) -> Result<(), Stop> {
        if count > self.length.saturating_sub(self.at) {
            return Err(Stop::OutOfBytes);
        }
        let mut left = count;
        while left > 0 {
            let buffer = self.source.fill_buf()?;
            let size = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            if size == 0 {
                return Err(Stop::OutOfBytes);
            }
            let part = buffer.get(..size).unwrap_or_default();
            self.items.update(part);
            each(part);
            self.source.consume(size);
            left = left.saturating_sub(size as u64);
            self.at = self.at.saturating_add(size as u64);
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write;

    use proptest::prelude::*;
    use xxhash_rust::xxh3::xxh3_64;

    use super::*;

    /// A batch as the engine writes it.
    pub(in super::super) fn encoded(seqno: u64, commit: u64, values: &[Vec<u8>]) -> Vec<u8> {
        let mut items = Vec::new();
        let number = commit.to_be_bytes().to_vec();
        let rows = values.iter().map(|value| (&b"jrow"[..], value));
        for (key, value) in rows.chain([(rows::COMMITS, &number)]) {
            items.extend([ITEM, PUT, UNCOMPRESSED]);
            items.extend(1u64.to_le_bytes());
            items.extend((key.len() as u16).to_le_bytes());
            items.extend((value.len() as u32).to_le_bytes());
            items.extend((value.len() as u32).to_le_bytes());
            items.extend(key);
            items.extend(value);
        }
        let mut batch = vec![START];
        batch.extend((values.len() as u32 + 1).to_le_bytes());
        batch.extend(seqno.to_le_bytes());
        batch.extend(&items);
        batch.push(END);
        batch.extend(xxh3_64(&items).to_le_bytes());
        batch.extend(END_MAGIC);
        batch
    }

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn values() -> impl Strategy<Value = Vec<Vec<u8>>> {
        proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..4)
    }

    proptest! {
        #[test]
        fn complete_batches_are_counted_with_any_zeros_after(
            batches in proptest::collection::vec((1..9u64, values()), 0..5),
            first in 0..9u64,
            zeros in 0..200_000usize,
        ) {
            let (mut bytes, mut seqno) = (Vec::new(), 0);
            for (commit, (step, values)) in (first..).zip(&batches) {
                seqno += step;
                bytes.extend(encoded(seqno, commit, values));
            }
            let length = bytes.len();
            bytes.resize(length + zeros, 0);
            let contents = read(&file(&bytes), None).unwrap();
            prop_assert_eq!((contents.end, contents.length), (length as u64, length as u64));
            prop_assert_eq!(contents.rest, Rest::Nothing);
            let last = contents.last.and_then(|batch| batch.commit);
            prop_assert_eq!(last, (batches.len() as u64 + first).checked_sub(1).filter(|_| length > 0));
        }

        #[test]
        fn the_beginning_of_a_batch_is_unfinished(values in values(), keep in any::<prop::sample::Index>()) {
            let mut bytes = encoded(7, 1, &[]);
            let start = bytes.len();
            bytes.extend(encoded(9, 2, &values));
            let keep = start + 1 + keep.index(bytes.len() - start - 1);
            for zeros in [0, 5000] {
                let mut cut = bytes[..keep].to_vec();
                cut.resize(keep + zeros, 0);
                let contents = read(&file(&cut), None).unwrap();
                prop_assert_eq!(contents.end, start as u64);
                prop_assert_eq!(contents.rest, Rest::Unfinished);
                prop_assert!(!was_durable(&file(&cut), &contents).unwrap());
            }
        }

        #[test]
        fn random_bytes_are_not_taken_for_a_commit(
            bytes in proptest::collection::vec(prop_oneof![0..5u8, any::<u8>()], 0..200),
        ) {
            let contents = read(&file(&bytes), None).unwrap();
            prop_assert!(!was_durable(&file(&bytes), &contents).unwrap());
            prop_assert_eq!((contents.last, contents.end), (None, 0));
            let nothing = bytes.iter().all(|byte| *byte == 0);
            prop_assert_eq!(contents.rest == Rest::Nothing, nothing);
        }
    }

    #[test]
    fn a_complete_batch_after_damage_shows_it_was_durable() {
        let batch = |commit| encoded(commit * 3, commit, &[vec![7; 50]]);
        let mut bytes = [batch(1), batch(2), batch(3)].concat();
        let start = batch(1).len();
        bytes[start + 40] ^= 1;
        let contents = read(&file(&bytes), None).unwrap();
        assert_eq!((contents.end, contents.rest), (start as u64, Rest::Torn));
        assert!(was_durable(&file(&bytes), &contents).unwrap());
        bytes.truncate(start * 2);
        let contents = read(&file(&bytes), None).unwrap();
        assert!(!was_durable(&file(&bytes), &contents).unwrap());
    }

    /// The wrong engine's number may be in this batch or in the one before, which is durable.
    #[test]
    fn a_whole_batch_with_a_wrong_number_was_durable() {
        let first = encoded(5, 1, &[]);
        for seqno in [0, 4, 5, TOO_MANY_BATCHES, u64::MAX] {
            let bytes = file(&[first.clone(), encoded(seqno, 2, &[])].concat());
            let contents = read(&bytes, None).unwrap();
            assert_eq!((contents.end, contents.rest), (first.len() as u64, Rest::Torn));
            assert!(was_durable(&bytes, &contents).unwrap(), "{seqno}");
        }
    }

    #[test]
    fn a_batch_out_of_order_is_torn() {
        let first = encoded(5, 1, &[]);
        for second in [encoded(5, 2, &[]), encoded(6, 3, &[]), encoded(6, 1, &[])] {
            let bytes = [first.clone(), second].concat();
            let contents = read(&file(&bytes), None).unwrap();
            assert_eq!((contents.end, contents.rest), (first.len() as u64, Rest::Torn));
        }
        let next = file(&encoded(6, 2, &[]));
        let last = read(&file(&first), None).unwrap().last;
        assert_eq!(read(&next, last).unwrap().rest, Rest::Nothing);
    }
}
