//! Reads an archive entry by entry, and makes sure that it is whole.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;

use super::{ArchiveError, path};
use crate::files::input;
use crate::shown::in_line;
use crate::store::{Key, StoreError};

/// The largest value that is read into memory. What a manager has stored for itself is far smaller.
const LARGEST_VALUE: u64 = input::LARGEST;

/// The size of a tar archive's blocks. It ends with blocks of zeros.
const BLOCK: u64 = 512;

/// What takes the entries of an archive.
pub(super) trait Visitor {
    /// Whether the value of a key is to be read.
    fn wants(&self, key: &Key) -> bool;

    /// The file into which the value of a key is written, of this many bytes, if it doesn't go through
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

    /// Notes the path of an entry that is no key here: a link between parts of a KVS, an index.
    fn skip(&mut self, path: String);
}

/// Reads a whole archive.
///
/// # Errors
/// The archive is damaged or incomplete, or no archive at all; the error names the entry.
pub(super) fn read(file: &Path, visitor: &mut dyn Visitor) -> Result<(), ArchiveError> {
    let mut archive = tar::Archive::new(Ends { input: open(file)?, zeros: 0 });
    let keys = read_entries(&mut archive, file, visitor)?;
    if archive.into_inner().zeros < BLOCK {
        return Err(incomplete(
            file,
            "it ends too early: the mark at the end of an archive is missing",
        ));
    }
    if keys == 0 {
        return Err(incomplete(file, "it has no entries: a dump has at least one"));
    }
    Ok(())
}

fn incomplete(file: &Path, detail: &str) -> ArchiveError {
    ArchiveError::Incomplete { file: file.to_owned(), detail: detail.to_owned() }
}

fn read_entries(
    archive: &mut tar::Archive<Ends>,
    file: &Path,
    visitor: &mut dyn Visitor,
) -> Result<u64, ArchiveError> {
    let mut keys = 0;
    let unreadable = |reason| ArchiveError::File { file: file.to_owned(), reason };
    for entry in archive.entries().map_err(unreadable)? {
        let mut entry = entry.map_err(|reason| match (reason.kind(), keys) {
            // What the reader says about a header quotes bytes of the file.
            (io::ErrorKind::Other, 0) => incomplete(file, "it is no archive"),
            (io::ErrorKind::Other, _) => incomplete(file, &in_line(&reason.to_string())),
            _ => unreadable(reason),
        })?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let refused = |reason: String| ArchiveError::Entry {
            file: file.to_owned(),
            entry: path.clone(),
            reason,
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
            kind => return Err(refused(format!("{kind:?} is no kind of entry that a dump has"))),
        }
        let key = path::to_key(&path).map_err(|reason| refused(reason.to_owned()))?;
        let key: Key = key.parse().map_err(|error| refused(format!("{error}")))?;
        if key.is_index() {
            // The index of another store; the first start builds this store's own.
            visitor.skip(path);
            continue;
        }
        keys += 1;
        let size = entry.size();
        let mut destination = match visitor.wants(&key) {
            // Read all the same: the end of a torn archive is found here, with the name of the entry.
            false => Destination::Nowhere(io::sink()),
            true => match once(visitor.file(&key, size), &refused)? {
                Some(file) => Destination::File(file),
                None if size > LARGEST_VALUE => {
                    let most = LARGEST_VALUE >> 20;
                    let text = format!("it has {size} bytes, and at most {most} MiB are read");
                    return Err(refused(text));
                }
                None => Destination::Value(Vec::new()),
            },
        };
        let read = io::copy(&mut entry, &mut destination);
        if read.map_err(|error| refused(error.to_string()))? != size {
            return Err(refused("it ends too early".to_owned()));
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

/// What a visitor returned, with words for a key that it has had before.
fn once<T>(
    result: Result<T, ArchiveError>,
    refused: &dyn Fn(String) -> ArchiveError,
) -> Result<T, ArchiveError> {
    match result {
        Err(ArchiveError::Store(StoreError::Sequence { .. })) => {
            Err(refused("it is there twice".to_owned()))
        }
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
}

impl Read for Ends {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        let read = buffer.get(..count).unwrap_or_default();
        let zeros = read.iter().rev().take_while(|byte| **byte == 0).count();
        self.zeros = if zeros == count { self.zeros + zeros as u64 } else { zeros as u64 };
        Ok(count)
    }
}
