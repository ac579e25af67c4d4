//! Reads the blocks of the engine's tables without the engine, which stops at the first damaged block and
//! reports neither which one that is nor which rows it contained.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_128;

use super::integrity::Section;

/// The length of a block's header: a magic word, the block's type, the checksum of its content, the
/// content's length, its decompressed length, and the checksum of the header.
const HEADER_LEN: usize = 4 + 1 + 16 + 4 + 4 + 4;
const MAGIC: &[u8] = b"LSM\x03";
const DATA: u8 = 0;
/// A limit for lengths in headers: far longer than a block of 32 KiB with one large row.
const MAX_CONTENT: u32 = 1 << 30;

/// The byte that ends the rows of a data block.
const END_OF_ROWS: u8 = 255;
/// The length of a data block's trailer: the interval at which names are written in full, and nine more
/// numbers.
const TRAILER_LEN: usize = 1 + 1 + 4 * 4 + 1 + 2 + 1 + 1 + 4 + 4;
/// Types of rows without a value.
const TOMBSTONES: [u8; 2] = [1, 2];

/// The sections with blocks that locate rows and contain none.
const FINDING: [&str; 5] = ["tli", "index", "filter", "filter_tli", "meta"];
/// The section of the data blocks.
const ROWS: &str = "data";

/// A damaged part of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadPart {
    /// Where it begins.
    pub(super) offset: u64,
    /// Where it ends.
    pub(super) end: u64,
    /// The rows that were in it; `None` if it only locates rows.
    pub(super) rows: Option<Neighbors>,
}

/// The undamaged rows next to damaged ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Neighbors {
    /// The name of the last row before them; `None` if they are the first.
    pub(super) after: Option<Vec<u8>>,
    /// The name of the first row after them, whose newer versions may be among them; `None` if they are
    /// the last.
    pub(super) through: Option<Vec<u8>>,
}

/// Finds the damaged parts in those sections of a table that consist of blocks.
pub(super) fn damages(path: &Path, sections: &[Section]) -> io::Result<Vec<BadPart>> {
    let file = File::open(path)?;
    let mut found = Vec::new();
    for section in sections {
        if section.name == ROWS {
            damaged_rows(&file, section, &mut found)?;
        } else if FINDING.contains(&section.name.as_str()) {
            damaged_blocks(&file, section, &mut found)?;
        }
    }
    Ok(found)
}

fn damaged_rows(file: &File, section: &Section, found: &mut Vec<BadPart>) -> io::Result<()> {
    let (mut at, mut last) = (section.start, None);
    let mut open: Option<BadPart> = None;
    while at < section.end {
        let header = Header::read(file, at)?;
        let names = match &header {
            Some(header) if header.kind == DATA => {
                let content = header.content(file, at)?;
                content.and_then(|content| names(&content, header.decompressed))
            }
            _ => None,
        };
        let end = match header {
            Some(header) => at + header.size(),
            None => next_header(file, at, section.end)?.unwrap_or(section.end),
        };
        match names {
            Some((first, newest)) => {
                if let Some(mut bad) = open.take() {
                    bad.rows = Some(Neighbors { after: last.take(), through: Some(first) });
                    found.push(bad);
                }
                last = Some(newest);
            }
            None => {
                let offset = open.map_or(at, |bad| bad.offset);
                open = Some(BadPart { offset, end, rows: None });
            }
        }
        at = end;
    }
    if let Some(bad) = open {
        let rows = Some(Neighbors { after: last, through: None });
        found.push(BadPart { rows, ..bad });
    }
    Ok(())
}

fn damaged_blocks(file: &File, section: &Section, found: &mut Vec<BadPart>) -> io::Result<()> {
    let mut at = section.start;
    while at < section.end {
        let Some(header) = Header::read(file, at)? else {
            found.push(BadPart { offset: at, end: section.end, rows: None });
            return Ok(());
        };
        let end = at + header.size();
        if header.content(file, at)?.is_none() {
            found.push(BadPart { offset: at, end, rows: None });
        }
        at = end;
    }
    Ok(())
}

struct Header {
    kind: u8,
    checksum: u128,
    content: u32,
    decompressed: u32,
}

impl Header {
    /// Reads the header at the offset `at`; `None` if there is no valid one.
    fn read(file: &File, at: u64) -> io::Result<Option<Self>> {
        let mut bytes = [0; HEADER_LEN];
        match file.read_exact_at(&mut bytes, at) {
            Ok(()) => Ok(Self::parse(&bytes)),
            Err(err) if err.kind() == ErrorKind::UnexpectedEof => Ok(None),
            Err(err) => Err(err),
        }
    }

    fn parse(bytes: &[u8; HEADER_LEN]) -> Option<Self> {
        let (covered, own) = bytes.split_at_checked(HEADER_LEN - 4)?;
        let rest = covered.strip_prefix(MAGIC)?;
        // The engine stores only the lowest 32 bits of the checksum.
        if (xxh3_128(covered) as u32).to_le_bytes() != own {
            return None;
        }
        let (kind, rest) = rest.split_first()?;
        let (checksum, rest) = rest.split_first_chunk()?;
        let (content, rest) = rest.split_first_chunk()?;
        let (decompressed, _) = rest.split_first_chunk()?;
        let header = Self {
            kind: *kind,
            checksum: u128::from_le_bytes(*checksum),
            content: u32::from_le_bytes(*content),
            decompressed: u32::from_le_bytes(*decompressed),
        };
        (header.content <= MAX_CONTENT && header.decompressed <= MAX_CONTENT).then_some(header)
    }

    /// The size of the whole block.
    fn size(&self) -> u64 {
        HEADER_LEN as u64 + u64::from(self.content)
    }

    /// The content after this header; `None` if it is damaged.
    fn content(&self, file: &File, at: u64) -> io::Result<Option<Vec<u8>>> {
        let mut content = vec![0; self.content as usize];
        match file.read_exact_at(&mut content, at + HEADER_LEN as u64) {
            Ok(()) => Ok((xxh3_128(&content) == self.checksum).then_some(content)),
            Err(err) if err.kind() == ErrorKind::UnexpectedEof => Ok(None),
            Err(err) => Err(err),
        }
    }
}

/// The offset of the next valid header after `at`.
fn next_header(file: &File, at: u64, length: u64) -> io::Result<Option<u64>> {
    const CHUNK: u64 = 64 * 1024;
    let mut start = at + 1;
    while start < length {
        let size = (length - start).min(CHUNK + MAGIC.len() as u64);
        let mut chunk = vec![0; size as usize];
        file.read_exact_at(&mut chunk, start)?;
        for (index, window) in chunk.windows(MAGIC.len()).enumerate() {
            let place = start + index as u64;
            if window == MAGIC && Header::read(file, place)?.is_some() {
                return Ok(Some(place));
            }
        }
        start += CHUNK;
    }
    Ok(None)
}

/// The names of the first and the last row of a data block; `None` if it is not a data block.
fn names(content: &[u8], decompressed: u32) -> Option<(Vec<u8>, Vec<u8>)> {
    let block = lz4_flex::block::decompress(content, decompressed as usize).ok()?;
    let (rows, trailer) = block.split_at_checked(block.len().checked_sub(TRAILER_LEN)?)?;
    let whole_every = usize::from(*trailer.first()?);
    let mut rows = Bytes(rows);
    let (mut first, mut whole, mut last) = (None, Vec::new(), Vec::new());
    let mut number = 0usize;
    loop {
        let kind = rows.byte()?;
        if kind == END_OF_ROWS {
            return Some((first?, last));
        }
        rows.number()?;
        if number.is_multiple_of(whole_every) {
            let size = rows.number()?;
            whole = rows.take(size)?.to_vec();
            last.clone_from(&whole);
        } else {
            let shared = rows.number()?;
            let size = rows.number()?;
            last = [whole.get(..shared)?, rows.take(size)?].concat();
        }
        if !TOMBSTONES.contains(&kind) {
            let size = rows.number()?;
            rows.take(size)?;
        }
        first.get_or_insert_with(|| last.clone());
        number += 1;
    }
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number in groups of seven bits, the lowest in front.
    fn number(&mut self) -> Option<usize> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return usize::try_from(number).ok();
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repair of damage drops jobs, so a disk that can't be read must not look damaged.
    #[test]
    fn a_read_error_is_not_damage() {
        let header = Header { kind: DATA, checksum: 0, content: 1, decompressed: 1 };
        let empty = tempfile::tempfile().unwrap();
        assert!(Header::read(&empty, 0).unwrap().is_none());
        assert!(header.content(&empty, 0).unwrap().is_none());
        let dir = tempfile::tempdir().unwrap();
        // A directory can be opened like a file, and every read of it fails.
        let unreadable = File::open(dir.path()).unwrap();
        assert!(Header::read(&unreadable, 0).is_err());
        assert!(header.content(&unreadable, 0).is_err());
    }
}
