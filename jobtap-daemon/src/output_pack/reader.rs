//! Reads a pack from block to block.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::block::{Block, FIXED, Header, LONGEST_HEADER, MAGIC, Of};

/// How many bytes are searched at once for the next block after a damaged one.
const SEARCHED: usize = 64 * 1024;

/// The most data of a block that is read at once. Writers make smaller blocks.
const MOST_DATA: u64 = 1 << 30;

/// A pack that is read.
pub struct PackReader {
    file: File,
    /// Where the next block begins.
    next: u64,
    /// The bytes that are in no block.
    passed_over: u64,
}

/// A pack can't be read.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// The system refuses it.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It isn't a pack.
    #[error("it is no output pack: the first block is missing")]
    NoPack,
}

/// The place of a block's parts.
struct Found {
    header: Header,
    data: u64,
    size: u64,
}

impl PackReader {
    /// Opens a pack.
    ///
    /// # Errors
    /// It can't be opened, or doesn't begin as a pack does.
    pub fn open(path: &Path) -> Result<Self, PackError> {
        let file = File::open(path)?;
        let mut start = [0; MAGIC.len()];
        let read = read_at(&file, &mut start, 0)?;
        if read > 0 && start.get(..read) != MAGIC.get(..read) {
            return Err(PackError::NoPack);
        }
        Ok(Self { file, next: 0, passed_over: 0 })
    }

    /// How many bytes were passed over, since they are in no block: the disk was full, or the file isn't whole.
    pub fn passed_over(&self) -> u64 {
        self.passed_over
    }

    /// The next block that `wanted` accepts; `None` at the end. The data of others isn't read.
    ///
    /// # Errors
    /// The system can't read the file.
    pub fn next(&mut self, wanted: impl Fn(&Of) -> bool) -> Result<Option<Block>, PackError> {
        let end = self.file.metadata()?.len();
        while self.next < end {
            let at = self.next;
            if let Some(Found { header, data, size }) = self.header(at, end)? {
                let after = data + size;
                if !wanted(&header.of) && self.begins(after, end)? {
                    self.next = after;
                    continue;
                }
                let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
                self.file.read_exact_at(&mut bytes, data)?;
                if crc32fast::hash(&bytes) == header.crc {
                    self.next = after;
                    if wanted(&header.of) {
                        let Header { of, pieces, .. } = header;
                        return Ok(Some(Block { of, pieces, data: bytes }));
                    }
                    continue;
                }
            }
            self.next = self.search(at + 1, end)?;
            self.passed_over += self.next - at;
        }
        Ok(None)
    }

    /// The block at this place; `None` if no whole block is there.
    ///
    /// # Errors
    /// The system can't read the file.
    pub fn at(&mut self, offset: u64) -> Result<Option<Block>, PackError> {
        let end = self.file.metadata()?.len();
        self.next = offset;
        self.passed_over = 0;
        let found = match self.header(offset, end)? {
            Some(_) => self.next(|_| true)?,
            None => None,
        };
        // A damaged one was passed over.
        Ok(found.filter(|_| self.passed_over == 0))
    }

    /// Whether a block begins at this place, or the file ends.
    fn begins(&self, at: u64, end: u64) -> Result<bool, PackError> {
        let mut start = [0; MAGIC.len()];
        Ok(at == end || (read_at(&self.file, &mut start, at)? == start.len() && start == *MAGIC))
    }

    /// The header of the block at this place, if a whole block is there.
    fn header(&self, at: u64, end: u64) -> Result<Option<Found>, PackError> {
        let mut fixed = [0; FIXED];
        if read_at(&self.file, &mut fixed, at)? < FIXED || !fixed.starts_with(MAGIC) {
            return Ok(None);
        }
        let [_, _, _, _, _, _, _, _, a, b, c, d, size @ ..] = fixed;
        let (length, size) = (u32::from_le_bytes([a, b, c, d]), u64::from_le_bytes(size));
        let data = at + FIXED as u64 + u64::from(length);
        if length > LONGEST_HEADER || size > MOST_DATA || data + size > end {
            return Ok(None);
        }
        let mut text = vec![0; length as usize];
        self.file.read_exact_at(&mut text, at + FIXED as u64)?;
        let header = serde_json::from_slice(&text).ok();
        Ok(header.map(|header| Found { header, data, size }))
    }

    /// Where the first block after this place may begin.
    fn search(&self, from: u64, end: u64) -> Result<u64, PackError> {
        let mut at = from;
        let mut bytes = vec![0; SEARCHED];
        while at < end {
            let read = read_at(&self.file, &mut bytes, at)?;
            let found = memchr::memmem::find(bytes.get(..read).unwrap_or_default(), MAGIC);
            if let Some(found) = found {
                return Ok(at + found as u64);
            }
            if read < bytes.len() {
                return Ok(end);
            }
            // The first bytes of a block may be the last that were read.
            at += (read - MAGIC.len() + 1) as u64;
        }
        Ok(end)
    }
}

fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    let mut read = 0;
    while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at + read as u64) {
            Ok(0) => break,
            Ok(size) => read += size,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use jobtap_core::job::JobId;
    use proptest::prelude::*;

    use super::*;

    fn block() -> impl Strategy<Value = Block> {
        let of = (1..1000_u64, prop::option::of((1..9_u64, 0..9_u32)));
        let piece = (any::<bool>(), 0..3_u32, prop::collection::vec(any::<u8>(), 0..30));
        (of, prop::collection::vec(piece, 0..5)).prop_map(|((job, place), pieces)| {
            let (array, index) = place.unzip();
            let of = Of { job: JobId::new(job), array: array.map(JobId::new), index };
            let mut block = Block::new(of);
            for (error, rank, data) in pieces {
                block.add(if error { "stderr" } else { "stdout" }, rank, 1.5, &data);
            }
            block
        })
    }

    fn read(bytes: &[u8], wanted: impl Fn(&Of) -> bool) -> (Vec<Block>, u64) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let mut reader = PackReader::open(file.path()).unwrap();
        let mut blocks = Vec::new();
        while let Some(block) = reader.next(&wanted).unwrap() {
            blocks.push(block);
        }
        (blocks, reader.passed_over())
    }

    proptest! {
        #[test]
        fn blocks_are_read_as_they_were_written(blocks in prop::collection::vec(block(), 0..8)) {
            let bytes: Vec<u8> = blocks.iter().flat_map(Block::encode).collect();
            prop_assert_eq!(read(&bytes, |_| true), (blocks.clone(), 0));
            let wanted = |of: &Of| of.index == Some(3);
            let some: Vec<Block> = blocks.into_iter().filter(|block| wanted(&block.of)).collect();
            prop_assert_eq!(read(&bytes, wanted), (some, 0));
        }

        #[test]
        fn what_a_full_disk_has_cut_is_passed_over(before in block(), cut in block(), after in block(), at: prop::sample::Index) {
            let whole = cut.encode();
            let kept = &whole[..at.index(whole.len())];
            let bytes = [before.encode(), kept.to_vec(), after.encode()].concat();
            let (blocks, passed_over) = read(&bytes, |_| true);
            prop_assert_eq!(blocks.first(), Some(&before));
            prop_assert_eq!(blocks.last(), Some(&after));
            prop_assert_eq!((blocks.len(), passed_over), (2, kept.len() as u64));
        }

        #[test]
        fn an_arbitrary_file_is_read_to_its_end(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let (blocks, passed_over) = read(&[MAGIC.as_slice(), &bytes].concat(), |_| true);
            prop_assert!(blocks.is_empty() || passed_over < bytes.len() as u64);
        }
    }

    #[test]
    fn a_file_that_is_no_pack_is_refused() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        assert!(PackReader::open(file.path()).is_ok(), "an empty pack");
        file.write_all(b"hello").unwrap();
        assert!(matches!(PackReader::open(file.path()), Err(PackError::NoPack)));
    }
}
