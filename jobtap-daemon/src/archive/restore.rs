//! Restores an archive into a state directory, completely or not at all. The store is built beside its final
//! path and moved there when the whole archive has been read.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use super::entries::{self, Visitor};
use super::error::ArchiveError;
use crate::files::{self, Dir};
use crate::store::{EmbeddedStore, GuestFiles, Key, Op, Store, StoreError};

/// The directory in the state directory in which a restore is built.
const PARTIAL: &str = "restore.partial";
/// The directory of the store in the state directory.
const STORE: &str = "store";
/// The number of bytes that are committed together, which bounds the memory that a restore needs.
const BATCH: usize = 8 << 20;
/// The largest input or output of a job, in bytes, that is restored into the store and not as a file. Most jobs print
/// less, and a directory with a file for each job is slow.
const MOST_IN_STORE: u64 = 4096;

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

/// Restores the archive `file` into the state directory `state`, which must not be in use or have jobs. `seen` is
/// called repeatedly with the number of keys read so far.
///
/// # Errors
/// Fails if the archive is damaged (the error names the entry), or the state directory is in use or can't be written.
/// In that case, nothing is restored.
pub fn restore(
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
        seen,
    };
    entries::read(file, &mut target)?;
    target.commit()?;
    target.restored.jobs = target.jobs.len() as u64;
    Ok(target.restored)
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
    /// Called with the number of keys read so far.
    seen: &'a mut dyn FnMut(u64),
}

impl Visitor for Target<'_> {
    fn wants(&self, _: &Key) -> bool {
        true
    }

    fn skip(&mut self, path: String) {
        self.restored.skipped.push(path);
    }

    fn file(&mut self, key: &Key, size: u64) -> Result<Option<File>, ArchiveError> {
        let file = key.job_id().and_then(|id| self.files.path(id, key.name()));
        let Some(path) = file.filter(|_| size > MOST_IN_STORE) else { return Ok(None) };
        self.count(key);
        match create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(StoreError::Sequence { key: key.to_string(), seq: 0 }.into())
            }
            other => other.map(Some).map_err(|reason| ArchiveError::State { path, reason }),
        }
    }

    fn add(&mut self, key: Key, value: Vec<u8>) -> Result<(), ArchiveError> {
        self.count(&key);
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
}

impl Target<'_> {
    fn count(&mut self, key: &Key) {
        self.restored.keys += 1;
        (self.seen)(self.restored.keys);
        self.jobs.extend(key.job_id());
    }

    fn commit(&mut self) -> Result<(), ArchiveError> {
        self.bytes = 0;
        self.logs.clear();
        Ok(self.store.commit(std::mem::take(&mut self.ops))?)
    }
}

/// Creates a file of a job.
fn create(path: &Path) -> io::Result<File> {
    if let Some(dir) = path.parent() {
        DirBuilder::new().mode(0o700).recursive(true).create(dir)?;
    }
    // Mode 0600, and created anew, so that a second entry of the same name is an error.
    File::options().write(true).create_new(true).mode(0o600).open(path)
}
