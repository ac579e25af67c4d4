//! Restores an archive into a state directory, completely or not at all. The store is built beside its final
//! path and moved there when the whole archive has been read.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;

use super::{ArchiveError, path};
use crate::files::{self, Dir};
use crate::store::{EmbeddedStore, GuestFiles, Key, Op, Store, StoreError};

/// The directory in the state directory in which a restore is built.
const PARTIAL: &str = "restore.partial";
/// The directory of the store in the state directory.
const STORE: &str = "store";
/// The number of bytes that are committed together, which bounds the memory that a restore needs.
const BATCH: usize = 8 << 20;
/// The size of a tar archive's blocks. It ends with blocks of zeros.
const BLOCK: u64 = 512;

/// The result of a restore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// The number of jobs.
    pub jobs: u64,
    /// The number of keys, those of jobs included.
    pub keys: u64,
    /// The paths of entries that aren't stored here: links between parts of a KVS, an index.
    pub skipped: Vec<String>,
}

/// Restores the archive `file` into the state directory `state`, which must not be in use or have jobs. `seen` is told
/// how many keys have been read, again and again.
///
/// # Errors
/// Fails if the archive is damaged (the error names the entry), or the state directory is in use or can't be
/// written. Then nothing of the archive is restored.
pub fn restore_watched(
    state: &Path,
    file: &Path,
    seen: &mut dyn FnMut(u64),
) -> Result<Restored, ArchiveError> {
    let failed = |reason| ArchiveError::State { path: state.to_owned(), reason };
    let dir = Dir::open(state).map_err(failed)?;
    // The store is moved last, since it makes the jobs visible.
    let kept: Vec<&str> = GuestFiles::directories().chain([STORE]).collect();
    for name in &kept {
        if dir.kind(name).map_err(failed)?.is_some() {
            return Err(ArchiveError::NotEmpty(state.to_owned()));
        }
    }
    // A killed restore may have left the directory.
    remove(&dir).map_err(failed)?;
    let partial = dir.make_new(PARTIAL).map_err(failed)?;
    let outcome = build(&state.join(PARTIAL), file, seen).and_then(|restored| {
        for name in &kept {
            if partial.kind(name).map_err(failed)?.is_some() {
                partial.rename(name, &dir, name).map_err(failed)?;
            }
        }
        dir.sync().map_err(failed)?;
        Ok(restored)
    });
    // The directory is empty now. If it can't be removed it does no harm.
    let _ = remove(&dir);
    outcome
}

/// Removes the directory in which a restore was built.
fn remove(state: &Dir) -> io::Result<()> {
    if state.kind(PARTIAL)?.is_none() {
        return Ok(());
    }
    files::empty(&state.sub(PARTIAL)?, &[])?;
    state.remove_dir(PARTIAL)
}

fn build(partial: &Path, file: &Path, seen: &mut dyn FnMut(u64)) -> Result<Restored, ArchiveError> {
    let store = EmbeddedStore::open(&partial.join(STORE))?;
    let mut target = Target {
        store: &store,
        files: GuestFiles::new(partial),
        ops: Vec::new(),
        logs: BTreeSet::new(),
        bytes: 0,
        jobs: BTreeSet::new(),
        restored: Restored::default(),
    };
    let input = open(file)?;
    let mut archive = tar::Archive::new(Ends { input, zeros: 0 });
    read_entries(&mut archive, file, &mut target, seen)?;
    let incomplete =
        |detail: &str| ArchiveError::Incomplete { file: file.to_owned(), detail: detail.into() };
    if archive.into_inner().zeros < BLOCK {
        return Err(incomplete("it ends too early: the mark at the end of an archive is missing"));
    }
    if target.restored.keys == 0 {
        return Err(incomplete("it has no entries: a dump has at least one"));
    }
    target.commit()?;
    target.restored.jobs = target.jobs.len() as u64;
    Ok(target.restored)
}

fn read_entries(
    archive: &mut tar::Archive<Ends>,
    file: &Path,
    target: &mut Target<'_>,
    seen: &mut dyn FnMut(u64),
) -> Result<(), ArchiveError> {
    let unreadable = |reason| ArchiveError::File { file: file.to_owned(), reason };
    for entry in archive.entries().map_err(unreadable)? {
        seen(target.restored.keys);
        let mut entry = entry.map_err(unreadable)?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let refused = |reason: String| ArchiveError::Entry {
            file: file.to_owned(),
            entry: path.clone(),
            reason,
        };
        match entry.header().entry_type() {
            tar::EntryType::Directory | tar::EntryType::XGlobalHeader => continue,
            tar::EntryType::Symlink => {
                target.restored.skipped.push(path);
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
            target.restored.skipped.push(path);
            continue;
        }
        let mut value = Vec::new();
        entry.read_to_end(&mut value).map_err(|error| refused(error.to_string()))?;
        if value.len() as u64 != entry.size() {
            return Err(refused("it ends too early".to_owned()));
        }
        match target.add(key, value) {
            Err(ArchiveError::Store(StoreError::Sequence { .. })) => {
                return Err(refused("it is there twice".to_owned()));
            }
            other => other?,
        }
    }
    Ok(())
}

/// The store and the files that a restore builds.
struct Target<'a> {
    store: &'a dyn Store,
    files: GuestFiles,
    ops: Vec<Op>,
    /// The logs among `ops`.
    logs: BTreeSet<Key>,
    bytes: usize,
    jobs: BTreeSet<u64>,
    restored: Restored,
}

impl Target<'_> {
    fn add(&mut self, key: Key, value: Vec<u8>) -> Result<(), ArchiveError> {
        self.restored.keys += 1;
        self.jobs.extend(key.job_id());
        let file = key.job_id().and_then(|id| self.files.path(id, key.name()));
        if let Some(path) = file {
            return match write(&path, &value) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    Err(StoreError::Sequence { key: key.to_string(), seq: 0 }.into())
                }
                other => other.map_err(|reason| ArchiveError::State { path, reason }),
            };
        }
        self.bytes += value.len();
        let log = key.name().rsplit('.').next() == Some("eventlog");
        // Within one commit the store would join records of the same log.
        if log && !self.logs.insert(key.clone()) {
            return Err(StoreError::Sequence { key: key.to_string(), seq: 0 }.into());
        }
        // The whole log becomes its first record; a manager appends after it.
        self.ops.push(match log {
            true => Op::Append { key, seq: 0, value },
            false => Op::Put { key, value },
        });
        if self.bytes >= BATCH { self.commit() } else { Ok(()) }
    }

    fn commit(&mut self) -> Result<(), ArchiveError> {
        self.bytes = 0;
        self.logs.clear();
        Ok(self.store.commit(std::mem::take(&mut self.ops))?)
    }
}

fn write(path: &Path, value: &[u8]) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        DirBuilder::new().mode(0o700).recursive(true).create(dir)?;
    }
    // Mode 0600, and created anew, so that a second entry of the same name is an error.
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(value)
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
