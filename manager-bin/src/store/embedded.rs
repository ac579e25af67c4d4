//! The store on the local disk: fjall, an LSM tree with a journal. Nothing of it shows outside
//! this file and its folder.

mod files;
mod fsck;
mod integrity;
mod journal;
mod keyspaces;
mod repair;
mod table;
mod tail;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use fjall::{CompressionType, Database, PersistMode};

use super::acked::Acked;
use super::committer::panic_text;
use super::layout::{self, Effects, Ends, JobScan, Listing, Rows};
use super::lock::{self, Lock};
use super::rows::{self, Row};
use super::space::{self, Space};
use super::{Key, Memory, OnDamage, Op, Store, StoreError, StoreSettings, StoredJob};
use crate::open_files::OpenFiles;
pub use fsck::{Damage, check};
use keyspaces::{Keyspaces, Room};
pub use repair::{Repaired, repair};
pub use tail::Cut;

/// The layout that this version writes.
const FORMAT: u32 = 2;

const MIB: u64 = 1024 * 1024;
/// All journals together: the most that a restart after a crash has to read again.
const JOURNALS: u64 = 256 * MIB;
/// The work is bounded by the disk, and the cores are the jobs'. Of several the first keeps itself
/// free for writing tables, and turns in a loop for as long as another one merges them.
const WORKERS: usize = 1;

/// A [`Store`] in a directory of the local disk, for one manager at a time.
pub struct EmbeddedStore {
    // Fields drop in this order: the engine has to be closed when the lock goes.
    engine: Engine,
    commits: Mutex<Commits>,
    cut: Option<Cut>,
    repaired: Option<Repaired>,
    _lock: Lock,
}

struct Commits {
    last: u64,
    acked: Acked,
    ends: Ends,
    failed: bool,
}

struct Engine {
    dir: PathBuf,
    rows: Keyspaces,
    db: Database,
    memory: Memory,
}

impl EmbeddedStore {
    /// Opens the store in `dir`, or creates one if `dir` is empty or not there yet. Creating
    /// leaves `dir` readable for the manager's user alone.
    ///
    /// # Errors
    /// One sentence for each cause: a directory that isn't a store, one that another manager has
    /// open, a newer format, no permission, no space, damage, acknowledged commits missing.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        Self::open_with(dir, StoreSettings::default())
    }

    /// As [`EmbeddedStore::open`], with these settings.
    ///
    /// # Errors
    /// As [`EmbeddedStore::open`].
    pub fn open_with(dir: &Path, settings: StoreSettings) -> Result<Self, StoreError> {
        files::prepare(dir)?;
        let lock = Lock::take(dir)?;
        let repaired = match settings.damage {
            OnDamage::Repair => repair::repair_locked(dir)?,
            OnDamage::Refuse => {
                fsck::refuse_suspect(dir)?;
                None
            }
        };
        let memory = settings.memory;
        let acked = Acked::read(dir)?;
        let (engine, cut) = if files::has_database(dir, acked)? {
            let cut = tail::mend(dir, acked)?;
            (Engine::open(dir, memory)?, cut)
        } else {
            (Engine::create(dir, memory)?, None)
        };
        files::sync_keyspaces(dir)?;
        engine.check_format()?;
        let last = engine.last_commit()?;
        if let Some(acked) = acked
            && last < acked
        {
            return Err(match cut {
                Some(cut) => engine.damaged(&format!(
                    "{} at offset {}: commit {acked} was acknowledged and {last} is the last one \
                     there; what was cut is kept in {}",
                    cut.file.display(),
                    cut.offset,
                    cut.kept.display()
                )),
                None => StoreError::Lost { path: dir.to_owned(), acked, found: last },
            });
        }
        let commits = Mutex::new(Commits {
            last,
            acked: Acked::create(dir, last)?,
            ends: Ends::behind(engine.newest_job()?),
            failed: false,
        });
        Ok(Self { engine, commits, cut: cut.and_then(Cut::news), repaired, _lock: lock })
    }

    /// What opening cut off as torn, for the log.
    pub fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    /// What opening repaired, for the log.
    pub fn repaired(&self) -> Option<&Repaired> {
        self.repaired.as_ref()
    }

    /// Has what is in memory written to tables, without waiting for it.
    #[cfg(test)]
    pub(super) fn begin_table(&self) {
        self.engine.rows.begin_tables();
    }

    /// Writes what is in memory to tables, which otherwise takes megabytes.
    #[cfg(test)]
    pub(super) fn flush_to_table(&self) {
        self.engine.rows.flush_to_tables();
    }
}

impl Engine {
    fn create(dir: &Path, memory: Memory) -> Result<Self, StoreError> {
        let engine = Self::open_new(dir, &files::clear(dir)?, memory)?;
        let format = FORMAT.to_string().into_bytes();
        engine.write(Effects::from([(rows::FORMAT.into(), Some(format))]), 0)?;
        Ok(engine)
    }

    /// Opens a database at `path` in which nothing is, not even what makes a store of it.
    fn open_new(dir: &Path, path: &Path, memory: Memory) -> Result<Self, StoreError> {
        let db = open_database(dir, path, memory)?;
        let rows = guarded(dir, || Keyspaces::open(&db))?;
        Ok(Self { dir: dir.to_owned(), rows, db, memory })
    }

    fn open(dir: &Path, memory: Memory) -> Result<Self, StoreError> {
        Self::open_at(dir, &dir.join(files::DB), memory)
    }

    /// Opens the database at `path`, which needs not be the one in use.
    fn open_at(dir: &Path, path: &Path, memory: Memory) -> Result<Self, StoreError> {
        let db = open_database(dir, path, memory)?;
        if !Keyspaces::are_in(&db) {
            return Err(StoreError::NotAStore {
                path: dir.to_owned(),
                found: "its database is another program's".to_owned(),
            });
        }
        let rows = guarded(dir, || Keyspaces::open(&db))?;
        Ok(Self { dir: dir.to_owned(), rows, db, memory })
    }

    fn check_format(&self) -> Result<(), StoreError> {
        match self.row(rows::FORMAT)? {
            Some(found) if found == FORMAT.to_string().as_bytes() => Ok(()),
            Some(found) => Err(StoreError::Format {
                path: self.dir.clone(),
                found: String::from_utf8_lossy(&found).into_owned(),
                known: FORMAT,
            }),
            None => Err(self.damaged("it doesn't say its format")),
        }
    }

    fn last_commit(&self) -> Result<u64, StoreError> {
        let row = self.row(rows::COMMITS)?;
        row.and_then(|bytes| Some(u64::from_be_bytes(bytes.try_into().ok()?)))
            .ok_or_else(|| self.damaged("it doesn't say its number of commits"))
    }

    fn newest_job(&self) -> Result<Option<u64>, StoreError> {
        let Some(last) = self.guarded(|| self.rows.last_of_jobs())? else { return Ok(None) };
        match rows::parse(&last).and_then(|row| row.job) {
            Some(id) => Ok(Some(id)),
            None => Err(self.damaged(&format!("the row {} is no job's", last.escape_ascii()))),
        }
    }

    /// Writes the rows as commit `number` and waits for the disk.
    fn write(&self, mut effects: Effects, number: u64) -> Result<(), StoreError> {
        effects.insert(rows::COMMITS.into(), Some(number.to_be_bytes().into()));
        // fsync, not fdatasync: the journal grows, and its length has to be durable too.
        self.write_rows(effects, PersistMode::SyncAll)
    }

    /// Writes the rows, all or none of them.
    fn write_rows(&self, effects: Effects, mode: PersistMode) -> Result<(), StoreError> {
        self.make_room()?;
        self.guarded(|| {
            let mut batch = fjall::OwnedWriteBatch::with_capacity(self.db.clone(), effects.len())
                .durability(Some(mode));
            for (name, effect) in effects {
                match effect {
                    Some(value) => batch.insert(self.rows.of(&name), name, value),
                    None => batch.remove(self.rows.of(&name), name),
                }
            }
            batch.commit()
        })
    }

    /// Has what gathered in memory written to tables, and waits while too much is on its way there.
    fn make_room(&self) -> Result<(), StoreError> {
        loop {
            match self.guarded(|| self.rows.room(self.memory.gathering()))? {
                Room::Enough => return Ok(()),
                Room::None => {
                    // Fails once the worker threads have ended, which nothing else would tell.
                    self.guarded(|| self.db.persist(PersistMode::Buffer))?;
                    thread::sleep(Duration::from_millis(2));
                }
            }
        }
    }

    fn row(&self, name: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.guarded(|| self.rows.of(name).get(name))?;
        Ok(value.map(|value| value.to_vec()))
    }

    /// Shows the rows that begin with `prefix`, in order, until `visit` breaks.
    fn each_row(
        &self,
        prefix: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        for (keyspace, part) in self.rows.parts(prefix) {
            let mut rows = self.guarded(|| Ok(keyspace.range::<Vec<u8>, _>(part)))?;
            // `visit` stays outside of the guard: its panics are not the engine's.
            while let Some((name, value)) =
                self.guarded(|| rows.next().map(fjall::Guard::into_inner).transpose())?
            {
                if visit(&name, &value)?.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn guarded<T>(&self, call: impl FnOnce() -> fjall::Result<T>) -> Result<T, StoreError> {
        let made = guarded(&self.dir, call);
        if let Err(StoreError::Corrupt { .. }) = &made {
            files::suspect(&self.dir);
        }
        made
    }

    fn damaged(&self, detail: &str) -> StoreError {
        StoreError::Corrupt { path: self.dir.clone(), detail: detail.to_owned() }
    }
}

impl Rows for Engine {
    fn names(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut names = Vec::new();
        self.each_row(prefix, |name, _| {
            names.push(name.to_vec());
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(names)
    }

    fn contains(&self, name: &[u8]) -> Result<bool, StoreError> {
        self.guarded(|| self.rows.of(name).contains_key(name))
    }
}

impl Store for EmbeddedStore {
    fn commit(&self, ops: Vec<Op>) -> Result<(), StoreError> {
        if ops.is_empty() {
            return Ok(());
        }
        let mut commits = self.commits.lock().unwrap_or_else(PoisonError::into_inner);
        if commits.failed {
            return Err(StoreError::Failed {
                path: self.engine.dir.clone(),
                detail: "an earlier commit failed".to_owned(),
            });
        }
        let number = commits.last.saturating_add(1);
        let made = layout::resolve(&self.engine, &mut commits.ends, ops)
            .and_then(|effects| self.engine.write(effects, number));
        match &made {
            Ok(()) => {
                commits.last = number;
                commits.acked.note(number);
            }
            Err(StoreError::Sequence { .. } | StoreError::TooLarge { .. }) => {}
            Err(_) => commits.failed = true,
        }
        made
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, StoreError> {
        self.engine.row(&rows::of_value(key))
    }

    fn read_log(&self, key: &Key) -> Result<Option<Vec<u8>>, StoreError> {
        let mut log = None;
        self.engine.each_row(&rows::of_log(key), |_, record| {
            log.get_or_insert_with(Vec::new).extend_from_slice(record);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(log)
    }

    fn scan_jobs(
        &self,
        wanted: &dyn Fn(&str) -> bool,
        visit: &mut dyn FnMut(StoredJob) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let mut scan = JobScan::new(wanted, visit);
        self.engine.each_row(rows::ALL_JOBS, |name, value| {
            scan.row(name, value).map_err(|detail| self.engine.damaged(&detail))
        })?;
        let _ = scan.finish();
        Ok(())
    }

    fn job(&self, id: u64, wanted: &dyn Fn(&str) -> bool) -> Result<Option<StoredJob>, StoreError> {
        let mut found = None;
        let mut take = |job| {
            found = Some(job);
            ControlFlow::Break(())
        };
        let mut scan = JobScan::new(wanted, &mut take);
        self.engine.each_row(&rows::of_job(id), |name, value| {
            scan.row(name, value).map_err(|detail| self.engine.damaged(&detail))
        })?;
        let _ = scan.finish();
        Ok(found)
    }

    fn scan_values(
        &self,
        prefix: &str,
        visit: &mut dyn FnMut(&str, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.engine.each_row(&rows::of_instance(prefix), |name, value| {
            match rows::parse(name) {
                Some(Row { job: None, name, seq: None }) => Ok(visit(name, value)),
                // A log's record.
                _ => Ok(ControlFlow::Continue(())),
            }
        })
    }

    fn list(&self, prefix: &str) -> Result<Vec<Key>, StoreError> {
        let mut listing = Listing::new(prefix);
        for start in rows::covering(prefix) {
            self.engine.each_row(&start, |name, _| {
                listing.row(name).map_err(|detail| self.engine.damaged(&detail))?;
                Ok(ControlFlow::Continue(()))
            })?;
        }
        Ok(listing.finish())
    }

    fn instance_keys(&self) -> Result<Vec<Key>, StoreError> {
        let mut listing = Listing::new("");
        self.engine.each_row(rows::ALL_INSTANCE, |name, _| {
            listing.row(name).map_err(|detail| self.engine.damaged(&detail))?;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(listing.finish())
    }

    fn free_space(&self) -> Result<Option<Space>, StoreError> {
        match space::free_bytes(&self.engine.dir) {
            Ok(free) => Ok(Some(Space { path: self.engine.dir.clone(), free })),
            Err(err) => Err(StoreError::io(&self.engine.dir, err)),
        }
    }
}

fn open_database(dir: &Path, path: &Path, memory: Memory) -> Result<Database, StoreError> {
    let mut tries = 0;
    loop {
        let opened = guarded(dir, || {
            Database::builder(path)
                .cache_size(memory.cache())
                .max_cached_files(Some(OpenFiles::of_this_process().tables()))
                .max_journaling_size(JOURNALS)
                .worker_threads(WORKERS)
                // Big jobspecs and outputs are text: fewer bytes to sync.
                .journal_compression(CompressionType::Lz4)
                // Every commit says itself how durable it is.
                .manual_journal_persist(true)
                .open()
        });
        match opened {
            // We hold the store's lock: it is this process that has not quite closed it yet.
            Err(StoreError::Locked { .. }) if tries < lock::RETRIES => {
                tries += 1;
                thread::sleep(lock::PAUSE);
            }
            opened => return opened,
        }
    }
}

/// Calls the engine; what it answers, and a panic on files that it can't make sense of, becomes an
/// error about the store in `dir`.
fn guarded<T>(dir: &Path, call: impl FnOnce() -> fjall::Result<T>) -> Result<T, StoreError> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(err)) => Err(explain(dir, err)),
        Err(panic) => Err(StoreError::Corrupt {
            path: dir.to_owned(),
            detail: first_line(&panic_text(panic.as_ref())),
        }),
    }
}

/// An assertion's text has more lines, which show values that help nobody.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn explain(dir: &Path, err: fjall::Error) -> StoreError {
    use fjall::{Error, LsmError};
    let path = dir.to_owned();
    let corrupt = |detail: String| StoreError::Corrupt { path: path.clone(), detail };
    match err {
        Error::Io(err) | Error::Storage(LsmError::Io(err)) => match err.kind() {
            // The engine asks only for what its own files name, and where they say it is.
            std::io::ErrorKind::NotFound
            | std::io::ErrorKind::InvalidInput
            | std::io::ErrorKind::UnexpectedEof
            | std::io::ErrorKind::InvalidData => corrupt(err.to_string()),
            _ => StoreError::io(dir, err),
        },
        Error::Locked => StoreError::Locked { path, pid: None },
        // The worker threads don't say why they ended.
        Error::Poisoned => match space::free_bytes(dir) {
            Ok(free) if free < keyspaces::MEMTABLE => {
                StoreError::io(dir, std::io::ErrorKind::StorageFull.into())
            }
            // The only time to look at everything: the manager ends.
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
            corrupt("what was read is not what was written".to_owned())
        }
        Error::Storage(err) => corrupt(format!("{err:?}")),
        err => corrupt(format!("{err:?}")),
    }
}
