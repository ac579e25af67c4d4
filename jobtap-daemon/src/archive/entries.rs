//! Reads an archive entry by entry, and makes sure that it is whole.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;

use super::error::{ArchiveError, EntryFault, Incomplete, LARGEST_VALUE};
use super::path;
use crate::store::{Key, StoreError};

/// The size of a tar archive's blocks. It ends with blocks of zeros.
pub(super) const BLOCK: u64 = 512;

/// Receives the entries of an archive.
pub(super) trait Visitor {
    /// Whether the value of a key is to be read.
    fn wants(&self, key: &Key) -> bool;

    /// The file that the value of a key, of `size` bytes, is written to if it doesn't go through
    /// [`add`](Self::add): values may be larger than the memory.
    ///
    /// # Errors
    /// Ends the reading.
    fn file(&mut self, key: &Key, size: u64) -> Result<Option<File>, ArchiveError> {
        let _ = (key, size);
        Ok(None)
    }

    /// Takes a value.
    ///
    /// # Errors
    /// Ends the reading.
    fn add(&mut self, key: Key, value: Vec<u8>) -> Result<(), ArchiveError>;

    /// Notes the path of an entry that is not a key here: a link between parts of a KVS, an index.
    fn skip(&mut self, path: String);
}

/// Reads a whole archive.
///
/// # Errors
/// The archive is damaged or incomplete, or not an archive at all; the error names the entry.
pub(super) fn read(file: &Path, visitor: &mut dyn Visitor) -> Result<(), ArchiveError> {
    let bytes = Rc::default();
    let ends = Ends { input: open(file)?, zeros: 0, bytes: Rc::clone(&bytes) };
    let mut archive = tar::Archive::new(ends);
    let keys = read_entries(&mut archive, file, &bytes, visitor)?;
    if archive.into_inner().zeros < BLOCK {
        return Err(incomplete(file, Incomplete::NoEnd));
    }
    if keys == 0 {
        return Err(incomplete(file, Incomplete::Empty));
    }
    Ok(())
}

fn incomplete(file: &Path, fault: Incomplete) -> ArchiveError {
    ArchiveError::Incomplete { file: file.to_owned(), fault }
}

fn read_entries(
    archive: &mut tar::Archive<Ends>,
    file: &Path,
    bytes: &Cell<u64>,
    visitor: &mut dyn Visitor,
) -> Result<u64, ArchiveError> {
    let mut keys = 0;
    let unreadable = |reason| ArchiveError::File { file: file.to_owned(), reason };
    for entry in archive.entries().map_err(unreadable)? {
        let mut entry = entry.map_err(|reason| match (reason.kind(), keys) {
            // The reader's message about a header quotes bytes of the file.
            (io::ErrorKind::Other, 0) => incomplete(file, Incomplete::NoArchive),
            // Headers are whole blocks.
            (io::ErrorKind::Other, _) if !bytes.get().is_multiple_of(BLOCK) => {
                incomplete(file, Incomplete::Short)
            }
            (io::ErrorKind::Other, _) => incomplete(file, Incomplete::Header(reason)),
            _ => unreadable(reason),
        })?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let refused = |fault: EntryFault| ArchiveError::Entry {
            file: file.to_owned(),
            entry: path.clone(),
            fault,
        };
        match entry.header().entry_type() {
            tar::EntryType::Directory | tar::EntryType::XGlobalHeader => continue,
            tar::EntryType::Symlink => {
                visitor.skip(path);
                continue;
            }
            // The oldest tar format marks directories by a trailing slash.
            kind if kind.is_file() && path.ends_with('/') => continue,
            kind if kind.is_file() => {}
            kind => return Err(refused(EntryFault::Kind(kind))),
        }
        let key = path::to_key(&path).map_err(|fault| refused(fault.into()))?;
        let key: Key = key.parse().map_err(|error| refused(EntryFault::Key(error)))?;
        if key.is_index() {
            // The index of another store; the first start builds this store's own.
            visitor.skip(path);
            continue;
        }
        keys += 1;
        let size = entry.size();
        let mut destination = match visitor.wants(&key) {
            // Read anyway, so that the end of a truncated archive is detected here, with the name of the
            // entry.
            false => Destination::Nowhere(io::sink()),
            true => match once(visitor.file(&key, size), &refused)? {
                Some(file) => Destination::File(file),
                None if size > LARGEST_VALUE => {
                    return Err(refused(EntryFault::TooLarge(size)));
                }
                None => Destination::Value(Vec::new()),
            },
        };
        let read = io::copy(&mut entry, &mut destination);
        if read.map_err(|error| refused(error.into()))? != size {
            return Err(refused(EntryFault::Short));
        }
        if let Destination::Value(value) = destination {
            once(visitor.add(key, value), &refused)?;
        }
    }
    Ok(keys)
}

/// Where the bytes of an entry go.
enum Destination {
    Nowhere(io::Sink),
    File(File),
    Value(Vec<u8>),
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Nowhere(sink) => sink.write(bytes),
            Self::File(file) => file.write(bytes),
            Self::Value(value) => value.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Turns a visitor's error about a key that it already has into one about the entry.
fn once<T>(
    result: Result<T, ArchiveError>,
    refused: &dyn Fn(EntryFault) -> ArchiveError,
) -> Result<T, ArchiveError> {
    match result {
        Err(ArchiveError::Store(StoreError::Sequence { .. })) => Err(refused(EntryFault::Twice)),
        other => other,
    }
}

/// Opens the archive and decompresses it. Its first bytes show how it is compressed.
fn open(file: &Path) -> Result<Box<dyn Read>, ArchiveError> {
    let failed = |reason| ArchiveError::File { file: file.to_owned(), reason };
    let mut magic = Vec::new();
    File::open(file).and_then(|file| file.take(6).read_to_end(&mut magic)).map_err(failed)?;
    let input = BufReader::new(File::open(file).map_err(failed)?);
    let unknown = |how| Err(ArchiveError::Compression { file: PathBuf::from(file), how });
    match magic.as_slice() {
        [b'B', b'Z', b'h', ..] => Ok(Box::new(MultiBzDecoder::new(input))),
        [0x1f, 0x8b, ..] => Ok(Box::new(MultiGzDecoder::new(input))),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => unknown("xz"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => unknown("zstd"),
        [0x04, 0x22, 0x4d, 0x18, ..] => unknown("lz4"),
        _ => Ok(Box::new(input)),
    }
}

/// Counts the zeros at the end of the data read, to detect a truncated archive: the tar reader accepts any
/// end of the file as the end of the archive.
struct Ends {
    input: Box<dyn Read>,
    zeros: u64,
    /// The number of bytes read.
    bytes: Rc<Cell<u64>>,
}

impl Read for Ends {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        let read = buffer.get(..count).unwrap_or_default();
        let zeros = read.iter().rev().take_while(|byte| **byte == 0).count();
        self.bytes.set(self.bytes.get() + count as u64);
        self.zeros = if zeros == count { self.zeros + zeros as u64 } else { zeros as u64 };
        Ok(count)
    }
}
