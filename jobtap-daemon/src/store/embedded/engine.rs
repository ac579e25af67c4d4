//! The database of a store: fjall, with its errors and panics as errors about the store.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use fjall::{CompressionType, Database, PersistMode, Readable};
use jobtap_core::host::panic_text;

use super::super::changes::Changes;
use super::super::layout::{BadRow, Rows, Visit};
use super::super::lock;
use super::super::reserve::free_bytes;
use super::super::rows::{self, Name};
use super::super::{Memory, StoreError};
use super::files::KeyspaceSet;
use super::keyspaces::{self, Backlog, Keyspaces};
use super::{files, fsck};
use crate::open_files::OpenFiles;

/// The version of the layout that this build writes.
pub(super) const FORMAT: u32 = 4;
/// The earlier versions that this build can read. Opening such a store turns it into one of the present version, since
/// each version only adds something: version 3 the short form of `J`, see [`request`](super::super::request), and version 4
/// [bundles](super::super::bundle).
pub(super) const EARLIER: [u32; 2] = [2, 3];

const MIB: u64 = 1024 * 1024;
/// The maximum size of all write-ahead logs in bytes. A restart after a crash has to read them.
const WRITE_AHEAD_LOGS: u64 = 256 * MIB;
/// The number of the engine's threads. One, because the disk bounds their work and the cores are for jobs. With
/// several threads, the engine reserves the first for writing tables, and that thread spins while another one merges
/// tables.
const WORKERS: usize = 1;

pub(super) struct Engine {
    pub(super) dir: PathBuf,
    pub(super) rows: Keyspaces,
    pub(super) db: Database,
    memory: Memory,
}

impl Engine {
    pub(super) fn create(dir: &Path, memory: Memory) -> Result<Self, StoreError> {
        let engine = Self::open_new(dir, &files::clear(dir)?, KeyspaceSet::All, memory)?;
        // Before the first row is written: a database that has a row but lacks a keyspace is considered damaged.
        files::sync_keyspaces(dir)?;
        engine.write(format_row(), 0)?;
        Ok(engine)
    }

    /// Creates an empty database at `path`, without the rows that make it a store.
    pub(super) fn open_new(
        dir: &Path,
        path: &Path,
        set: KeyspaceSet,
        memory: Memory,
    ) -> Result<Self, StoreError> {
        let db = open_database(dir, path, memory)?;
        let rows = guarded(dir, || Keyspaces::open(&db, set))?;
        Ok(Self { dir: dir.to_owned(), rows, db, memory })
    }

    pub(super) fn open(dir: &Path, memory: Memory) -> Result<Self, StoreError> {
        let set = KeyspaceSet::detect(dir);
        Self::open_at(dir, &set.database(dir), set, memory)
    }

    /// Opens the database at `path`, which need not be the one in use.
    pub(super) fn open_at(
        dir: &Path,
        path: &Path,
        set: KeyspaceSet,
        memory: Memory,
    ) -> Result<Self, StoreError> {
        let db = open_database(dir, path, memory)?;
        if !Keyspaces::are_in(&db, set) {
            return Err(StoreError::NotAStore {
                path: dir.to_owned(),
                found: "its database is another program's".to_owned(),
            });
        }
        let rows = guarded(dir, || Keyspaces::open(&db, set))?;
        Ok(Self { dir: dir.to_owned(), rows, db, memory })
    }

    /// Refuses a store in a format that this build can't read. Returns whether the format is an earlier one.
    pub(super) fn is_of_earlier_format(&self) -> Result<bool, StoreError> {
        match self.row(rows::FORMAT)? {
            Some(found) if found == FORMAT.to_string().as_bytes() => Ok(false),
            Some(found)
                if EARLIER.iter().any(|earlier| found == earlier.to_string().as_bytes()) =>
            {
                Ok(true)
            }
            Some(found) => Err(StoreError::Format {
                path: self.dir.clone(),
                found: String::from_utf8_lossy(&found).into_owned(),
                known: FORMAT,
            }),
            None => Err(self.damaged("it doesn't say its format")),
        }
    }

    pub(super) fn last_commit(&self) -> Result<u64, StoreError> {
        let row = self.row(rows::COMMITS)?;
        row.and_then(|bytes| Some(u64::from_be_bytes(bytes.try_into().ok()?)))
            .ok_or_else(|| self.damaged("it doesn't say its number of commits"))
    }

    pub(super) fn newest_job(&self) -> Result<Option<u64>, StoreError> {
        let Some(last) = self.guarded(|| self.rows.last_of_jobs())? else { return Ok(None) };
        match rows::parse(&last).and_then(|row| row.job) {
            Some(id) => Ok(Some(id)),
            None => Err(self.damaged(&BadRow::NoJob(last.into()).to_string())),
        }
    }

    /// Writes the rows as commit `number` and waits for the disk.
    pub(super) fn write(&self, mut changes: Changes, number: u64) -> Result<(), StoreError> {
        changes.set(rows::COMMITS.into(), Some(number.to_be_bytes().into()));
        // fdatasync also makes the length and the block map of the write-ahead log durable, since its data can't be
        // read without them. It leaves out the modification time, for which fsync would wait for the file system's
        // journal.
        self.write_rows(changes.into_rows(number), PersistMode::SyncData)
    }

    /// Writes the rows, all or none of them. Each row may be among them once.
    pub(super) fn write_rows(
        &self,
        rows: impl Iterator<Item = (Name, Option<Vec<u8>>)>,
        mode: PersistMode,
    ) -> Result<(), StoreError> {
        self.wait_for_memory()?;
        self.guarded(|| {
            let mut batch = self.db.batch().durability(Some(mode));
            for (name, change) in rows {
                match change {
                    Some(value) => batch.insert(self.rows.keyspace_for(&name), &*name, value),
                    None => batch.remove(self.rows.keyspace_for(&name), &*name),
                }
            }
            batch.commit()
        })
    }

    /// Starts to write gathered data to tables if there is enough, and waits while too much of it is not
    /// in tables yet.
    pub(super) fn wait_for_memory(&self) -> Result<(), StoreError> {
        loop {
            match self.guarded(|| self.rows.backlog(self.memory.gathering()))? {
                Backlog::Small => return Ok(()),
                Backlog::Large => {
                    // Fails once the worker threads have ended; without this call the loop would not notice that and
                    // would never end.
                    self.guarded(|| self.db.persist(PersistMode::Buffer))?;
                    thread::sleep(Duration::from_millis(2));
                }
            }
        }
    }

    pub(super) fn row(&self, name: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.guarded(|| self.rows.keyspace_for(name).get(name))?;
        Ok(value.map(|value| value.to_vec()))
    }

    /// A snapshot of the rows.
    pub(super) fn view(&self) -> Result<View<'_>, StoreError> {
        let snapshot = self.guarded(|| Ok(self.db.snapshot()))?;
        Ok(View { engine: self, snapshot })
    }

    pub(super) fn damaged(&self, detail: &str) -> StoreError {
        StoreError::Corrupt { path: self.dir.clone(), detail: detail.to_owned() }
    }

    pub(super) fn guarded<T>(
        &self,
        call: impl FnOnce() -> fjall::Result<T>,
    ) -> Result<T, StoreError> {
        let made = guarded(&self.dir, call);
        if let Err(StoreError::Corrupt { .. }) = &made {
            files::suspect(&self.dir);
        }
        made
    }
}

/// The rows as of one commit. A key may be in several rows, and a concurrent commit may move it.
pub(super) struct View<'a> {
    engine: &'a Engine,
    snapshot: fjall::Snapshot,
}

impl View<'_> {
    fn next(&self, rows: &mut fjall::Iter) -> Result<Option<fjall::KvPair>, StoreError> {
        self.engine.guarded(|| rows.next().map(fjall::Guard::into_inner).transpose())
    }
}

/// The index of the source whose next row has the lowest name. No row is in two sources.
fn first_of<R>(sources: &[(fjall::KvPair, R)]) -> Option<usize> {
    let names = sources.iter().map(|((name, _), _)| name).enumerate();
    names.min_by_key(|(_, name)| *name).map(|(first, _)| first)
}

impl Rows for View<'_> {
    fn each(&self, prefix: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        for (keyspaces, range) in self.engine.rows.parts(prefix) {
            // For each keyspace, the next row and the rows after it.
            let mut sources = Vec::with_capacity(keyspaces.len());
            for keyspace in keyspaces {
                let range = || Ok(self.snapshot.range::<Vec<u8>, _>(keyspace, range.clone()));
                let mut rows = self.engine.guarded(range)?;
                sources.extend(self.next(&mut rows)?.map(|row| (row, rows)));
            }
            while let Some(first) = first_of(&sources)
                && let Some(((name, value), rows)) = sources.get_mut(first)
            {
                // Called outside of the guard: its panics are not the engine's.
                if visit(name, value)?.is_break() {
                    return Ok(());
                }
                match self.next(rows)? {
                    Some(row) => (*name, *value) = row,
                    None => drop(sources.swap_remove(first)),
                }
            }
        }
        Ok(())
    }

    fn row(&self, name: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let keyspace = self.engine.rows.keyspace_for(name);
        let value = self.engine.guarded(|| self.snapshot.get(keyspace, name))?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn contains(&self, name: &[u8]) -> Result<bool, StoreError> {
        let keyspace = self.engine.rows.keyspace_for(name);
        self.engine.guarded(|| self.snapshot.contains_key(keyspace, name))
    }

    fn damaged(&self, detail: &str) -> StoreError {
        self.engine.damaged(detail)
    }
}

fn open_database(dir: &Path, path: &Path, memory: Memory) -> Result<Database, StoreError> {
    let mut tries = 0;
    loop {
        let opened = guarded(dir, || {
            Database::builder(path)
                .cache_size(memory.cache())
                .max_cached_files(Some(OpenFiles::of_this_process().tables()))
                .max_journaling_size(WRITE_AHEAD_LOGS)
                .worker_threads(WORKERS)
                // Jobspecs and other values are text, so compression leaves fewer bytes to sync.
                .journal_compression(CompressionType::Lz4)
                // Each commit requests its own durability.
                .manual_journal_persist(true)
                .open()
        });
        match opened {
            // This process holds the store's lock, so it must be this process that has not completely
            // closed the database yet.
            Err(StoreError::Locked { .. }) if tries < lock::RETRIES => {
                tries += 1;
                thread::sleep(lock::PAUSE);
            }
            opened => return opened,
        }
    }
}

/// The row with the format of the store.
pub(super) fn format_row() -> Changes {
    Changes::single(rows::FORMAT.into(), FORMAT.to_string().into_bytes())
}

/// Calls the engine. Its errors, and its panics, which damaged files can cause, become errors about the
/// store in `dir`.
pub(super) fn guarded<T>(
    dir: &Path,
    call: impl FnOnce() -> fjall::Result<T>,
) -> Result<T, StoreError> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(err)) => Err(explain(dir, err)),
        Err(panic) => Err(StoreError::Corrupt {
            path: dir.to_owned(),
            detail: first_line(&panic_text(panic.as_ref())),
        }),
    }
}

/// The first line of a panic message. An assertion has more lines, with values that don't help a user.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Whether a disk with `free` bytes left has room for a table of a keyspace's rows in memory.
pub(super) const fn has_room_for_a_table(free: u64) -> bool {
    free >= keyspaces::MEMTABLE
}

pub(super) fn explain(dir: &Path, err: fjall::Error) -> StoreError {
    use fjall::{Error, LsmError};
    let path = dir.to_owned();
    let corrupt = |detail: String| StoreError::Corrupt { path: path.clone(), detail };
    match err {
        Error::Io(err) | Error::Storage(LsmError::Io(err)) => match err.kind() {
            // The engine opens and reads only what its own files refer to, so these errors mean damage.
            std::io::ErrorKind::NotFound
            | std::io::ErrorKind::InvalidInput
            | std::io::ErrorKind::UnexpectedEof
            | std::io::ErrorKind::InvalidData => corrupt(err.to_string()),
            _ => StoreError::io(dir, err),
        },
        Error::Locked => StoreError::Locked { path, pid: None },
        // The engine doesn't report why its worker threads ended.
        Error::Poisoned => match free_bytes(dir) {
            Ok(free) if !has_room_for_a_table(free) => {
                StoreError::io(dir, std::io::ErrorKind::StorageFull.into())
            }
            // A check of all tables takes long, but the manager ends anyway.
            _ => match fsck::tables(dir).ok().and_then(|damages| damages.into_iter().next()) {
                Some(damage) => corrupt(damage.to_string()),
                None => {
                    let detail = "writing failed in the background".to_owned();
                    StoreError::Failed { path, detail }
                }
            },
        },
        Error::Storage(LsmError::ChecksumMismatch { .. })
        | Error::JournalRecovery(fjall::JournalRecoveryError::ChecksumMismatch) => {
            corrupt("the data read is not what was written".to_owned())
        }
        Error::Storage(err) => corrupt(format!("{err:?}")),
        err => corrupt(format!("{err:?}")),
    }
}
