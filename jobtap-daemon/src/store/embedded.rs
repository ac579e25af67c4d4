//! The store on the local disk. The engine is fjall, an LSM tree with a write-ahead log; it is used in this
//! file and its folder only.

mod engine;
mod files;
mod fsck;
mod integrity;
mod keyspaces;
mod part;
mod repair;
mod table;
mod tail;
#[cfg(test)]
mod tests;
mod write_ahead_log;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use self::engine::{Engine, format_row};
pub use self::fsck::{Damage, check};
pub use self::repair::{Repaired, repair};
pub use self::tail::Cut;
use super::acked::Acked;
use super::lock::Lock;
use super::log_ends::LogEnds;
use super::reserve::free_bytes;
use super::space::Space;
use super::{
    Found, Key, OnDamage, Op, Store, StoreError, StoreSettings, StoredJob, layout, reading, rows,
};

/// A [`Store`] in a directory of the local disk, for one manager at a time.
pub struct EmbeddedStore {
    // Fields drop in this order: the engine has to be closed before the lock is released.
    engine: Engine,
    commits: Mutex<Commits>,
    cut: Option<Cut>,
    repaired: Option<Repaired>,
    _lock: Lock,
}

struct Commits {
    last: u64,
    acked: Acked,
    ends: LogEnds,
    failed: bool,
}

impl EmbeddedStore {
    /// Opens the store in `dir`, or creates one if `dir` is empty or does not exist. Only the manager's
    /// user can read a created store.
    ///
    /// # Errors
    /// Fails if the directory isn't a store, another manager has it open, it has a newer format, access
    /// is denied, space is lacking, it is damaged, or acknowledged commits are missing.
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
        let is_earlier = engine.is_of_earlier_format()?;
        let mut last = engine.last_commit()?;
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
        // Only after the check for lost commits: counted there, this commit would hide a lost one.
        if is_earlier {
            last = last.saturating_add(1);
            engine.write(format_row(), last)?;
        }
        let commits = Mutex::new(Commits {
            last,
            acked: Acked::create(dir, last)?,
            ends: LogEnds::after(engine.newest_job()?),
            failed: false,
        });
        Ok(Self { engine, commits, cut: cut.and_then(Cut::reportable), repaired, _lock: lock })
    }

    /// The torn commit that was cut off when the store was opened, for the log.
    pub fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    /// The damage that was repaired when the store was opened, for the log.
    pub fn repaired(&self) -> Option<&Repaired> {
        self.repaired.as_ref()
    }

    /// Starts to write the data in memory to tables, without waiting for the end.
    #[cfg(test)]
    pub(super) fn begin_table(&self) {
        self.engine.rows.begin_tables();
    }

    /// Writes the data in memory to tables, which otherwise happens only after megabytes.
    #[cfg(test)]
    pub(super) fn flush_to_table(&self) {
        self.engine.rows.flush_to_tables();
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
        // The lock is held during the write: commits are durable in the order of their numbers.
        let number = commits.last.saturating_add(1);
        let made = self
            .engine
            .view()
            .and_then(|view| layout::resolve(&view, &mut commits.ends, ops))
            .and_then(|changes| self.engine.write(changes, number));
        match &made {
            Ok(()) => {
                commits.last = number;
                commits.acked.note(number);
            }
            // Found before anything was written. But earlier operations of the commit may have changed `ends`.
            Err(StoreError::Sequence { .. } | StoreError::TooLarge { .. }) => commits.ends.forget(),
            Err(_) => commits.failed = true,
        }
        made
    }

    fn find(&self, key: &Key) -> Result<Option<Found>, StoreError> {
        reading::find(&self.engine.view()?, key)
    }

    fn read_log(&self, key: &Key) -> Result<Option<Vec<u8>>, StoreError> {
        reading::log(&self.engine.view()?, key)
    }

    fn scan_jobs(
        &self,
        wanted: &dyn Fn(&str) -> bool,
        visit: &mut dyn FnMut(StoredJob) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        reading::scan_jobs(&self.engine.view()?, rows::ALL_JOBS, wanted, visit)
    }

    fn job(&self, id: u64, wanted: &dyn Fn(&str) -> bool) -> Result<Option<StoredJob>, StoreError> {
        reading::job(&self.engine.view()?, id, wanted)
    }

    fn scan_values(
        &self,
        prefix: &str,
        visit: &mut dyn FnMut(&str, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        reading::scan_values(&self.engine.view()?, prefix, visit)
    }

    fn list(&self, prefix: &str) -> Result<Vec<Key>, StoreError> {
        reading::list(&self.engine.view()?, prefix)
    }

    fn instance_keys(&self) -> Result<Vec<Key>, StoreError> {
        reading::instance_keys(&self.engine.view()?)
    }

    fn free_space(&self) -> Result<Option<Space>, StoreError> {
        match free_bytes(&self.engine.dir) {
            Ok(free) => Ok(Some(Space { path: self.engine.dir.clone(), free })),
            Err(err) => Err(StoreError::io(&self.engine.dir, err)),
        }
    }
}
