//! Makes a damaged store whole again: with what is provably good and nothing else.
//!
//! What is damaged is never read around: rows that an older table still has may have been removed or
//! replaced by those that are lost. So a new database is filled with the rows outside of the damaged
//! ranges, as the engine reads them from a copy, and takes the place of the old one, which is kept. A
//! job of which one key may be lost is not restored, for it might run again: its other keys go to
//! where jobs go that can't be restored.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use fjall::PersistMode;
use jobtap_core::job::{Encoding, JobId};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::super::lock::Lock;
use super::super::{Key, Memory, StoreError, rows, space};
use super::fsck::{Damage, Loss, Range, check_locked};
use super::keyspaces::{PARTS, Part};
use super::{Acked, Engine, FORMAT, files, guarded, tail};

/// Rows that are written together.
const GROUP: usize = 1024;
/// Bytes; see [`Key`].
const LONGER_THAN_NAMES: usize = 2048;

/// What a repair did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// What was damaged.
    pub damages: Vec<Damage>,
    /// The jobs that were set aside since a key of theirs may be lost.
    pub jobs: Vec<JobId>,
    /// The database as it was.
    pub kept: PathBuf,
}

impl fmt::Display for Repaired {
    /// A line for each thing that the operator should know.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for damage in &self.damages {
            writeln!(f, "{damage}")?;
        }
        for id in &self.jobs {
            let id = id.encode(Encoding::F58);
            writeln!(
                f,
                "job {id}: dropped; what is left of its keys is below {}{id}",
                Key::LOST_JOB
            )?;
        }
        write!(f, "the database as it was is kept in {}", self.kept.display())
    }
}

/// Repairs the store in `dir`; none when nothing is damaged.
///
/// # Errors
/// When `dir` is no store or a manager has it open; what can't be repaired, and then nothing has
/// changed.
pub fn repair(dir: &Path) -> Result<Option<Repaired>, StoreError> {
    let _lock = Lock::take(dir)?;
    repair_locked(dir)
}

/// As [`repair`], by who holds the lock.
pub(super) fn repair_locked(dir: &Path) -> Result<Option<Repaired>, StoreError> {
    let damages = check_locked(dir)?;
    if damages.is_empty() {
        files::trust(dir);
        return Ok(None);
    }
    if let Some(damage) = damages.iter().find(|damage| !damage.is_repairable()) {
        return Err(StoreError::Corrupt { path: dir.to_owned(), detail: damage.to_string() });
    }
    let failed = |err| StoreError::io(dir, err);
    let db = dir.join(files::DB);
    let needed = size(&db).map_err(failed)?;
    let free = space::free_bytes(dir).map_err(failed)?;
    if free < needed {
        return Err(StoreError::NoSpace { path: dir.to_owned(), free, needed });
    }
    // As at every start: a torn commit that was never acknowledged goes, and is kept aside.
    tail::mend(dir, Acked::read(dir)?)?;
    let work = Work::create(dir).map_err(failed)?;
    link(&db, &work.copy()).map_err(failed)?;
    let lost = Lost::of(&damages);
    let jobs = fill(dir, &work, &lost)?;
    let kept = work.replace(dir).map_err(failed)?;
    files::trust(dir);
    Ok(Some(Repaired { damages, jobs, kept }))
}

/// A directory of the repair's own.
struct Work {
    path: PathBuf,
    /// The new database has its place, so that what is here now is the old one.
    exchanged: bool,
}

impl Work {
    fn create(dir: &Path) -> io::Result<Self> {
        Ok(Self { path: fresh(dir, "repair")?, exchanged: false })
    }

    /// The old database, for the engine to read: it changes what it opens.
    fn copy(&self) -> PathBuf {
        self.path.join("copy")
    }

    /// The new database, and after the exchange the old one.
    fn made(&self) -> PathBuf {
        self.path.join("made")
    }

    /// Puts the new database in the place of the old one at once, and keeps the old one.
    fn replace(mut self, dir: &Path) -> io::Result<PathBuf> {
        sync_all(&self.made())?;
        let kept = fresh(dir, "damaged")?;
        renameat_with(CWD, self.made(), CWD, dir.join(files::DB), RenameFlags::EXCHANGE)?;
        self.exchanged = true;
        fs::rename(self.made(), &kept)?;
        File::open(&self.path)?.sync_all()?;
        File::open(dir)?.sync_all()?;
        // Dropping removes the copy.
        Ok(kept)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // What the repair made goes. What can't be removed is a nuisance, not a fault.
        let _ = fs::remove_dir_all(self.copy());
        if !self.exchanged {
            let _ = fs::remove_dir_all(self.made());
        }
        let _ = fs::remove_dir(&self.path);
    }
}

/// A new directory in `dir` of that name with the first number that is free.
fn fresh(dir: &Path, name: &str) -> io::Result<PathBuf> {
    let mut number = 1;
    loop {
        let path = dir.join(format!("{name}-{number}"));
        match fs::create_dir(&path) {
            Err(err) if err.kind() == ErrorKind::AlreadyExists => number += 1,
            made => return made.map(|()| path),
        }
    }
}

/// Copies a tree. Tables and manifests, which are never written to again, become other names of the
/// same files where the file system can do that.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        let target = to.join(&name);
        if path.is_dir() {
            link(&path, &target)?;
            continue;
        }
        let changes = name.to_string_lossy().ends_with(files::JOURNAL);
        if changes || fs::hard_link(&path, &target).is_err() {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

fn size(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        bytes += match entry.file_type()?.is_dir() {
            true => size(&entry.path())?,
            // Journals are created larger than they will be.
            false => std::os::unix::fs::MetadataExt::blocks(&entry.metadata()?) * 512,
        };
    }
    Ok(bytes)
}

/// Makes a whole tree durable.
fn sync_all(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => sync_all(&entry.path())?,
            false => File::open(entry.path())?.sync_all()?,
        }
    }
    File::open(dir)?.sync_all()
}

/// What may be lost.
struct Lost<'a> {
    ranges: Vec<&'a Range>,
}

impl<'a> Lost<'a> {
    fn of(damages: &'a [Damage]) -> Self {
        let range = |damage: &'a Damage| match &damage.loss {
            Loss::Rows(range) => Some(range),
            Loss::Nothing | Loss::Unknown => None,
        };
        Self { ranges: damages.iter().filter_map(range).collect() }
    }

    /// Whether anything of this part may be lost.
    fn concerns(&self, part: Part) -> bool {
        self.ranges.iter().any(|range| range.part == part)
    }

    /// Whether a key of this job may be lost.
    fn concerns_job(&self, id: u64) -> bool {
        let job = |row: &Option<Vec<u8>>| row.as_deref().and_then(rows::parse)?.job;
        let jobs = self.ranges.iter().filter(|range| range.part == Part::Jobs);
        jobs.into_iter().any(|range| {
            let first = job(&range.after).unwrap_or(u64::MIN);
            let last = job(&range.through).unwrap_or(u64::MAX);
            (first..=last).contains(&id)
        })
    }

    /// What of a part is good.
    fn good(&self, part: Part) -> Vec<Good> {
        let mut lost: Vec<_> = self.ranges.iter().filter(|range| range.part == part).collect();
        lost.sort_by(|a, b| a.after.cmp(&b.after));
        let mut good = Vec::new();
        // The end of what is lost so far.
        let mut reached: Option<&Vec<u8>> = None;
        for range in lost {
            if let Some(after) = &range.after
                && reached.is_none_or(|reached| reached < after)
            {
                good.push(Good { behind: reached.cloned(), last: Some(after.clone()) });
            }
            // Nothing is good behind a range without an end.
            let Some(through) = &range.through else { return good };
            reached = reached.max(Some(through));
        }
        good.push(Good { behind: reached.cloned(), last: None });
        good
    }
}

/// Rows between two that are lost.
#[derive(Debug, PartialEq, Eq)]
struct Good {
    /// The lost row before them; none when they are the first.
    behind: Option<Vec<u8>>,
    /// The last of them; none when it is the last of all.
    last: Option<Vec<u8>>,
}

impl Good {
    /// All of them but the last one. The engine finds the block in which a range ends by its bound,
    /// and would look into the damaged one behind if that were the last row of a block; likewise at
    /// the beginning.
    fn without_last(&self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let first = self.behind.as_ref().map_or(Bound::Unbounded, |behind| {
            let mut first = behind.clone();
            first.push(0);
            Bound::Included(first)
        });
        let end = self.last.as_ref().map_or(Bound::Unbounded, |last| Bound::Included(before(last)));
        (first, end)
    }
}

/// A name before `name` with no row between them.
fn before(name: &[u8]) -> Vec<u8> {
    let mut before = name.to_vec();
    if let Some(last) = before.pop()
        && last > 0
    {
        before.push(last - 1);
        before.resize(before.len() + LONGER_THAN_NAMES, u8::MAX);
    }
    before
}

/// Fills the new database with what is good of the copy; gives the jobs that are dropped.
fn fill(dir: &Path, work: &Work, lost: &Lost<'_>) -> Result<Vec<JobId>, StoreError> {
    let old = Engine::open_at(dir, &work.copy(), Memory::default())?;
    fs::create_dir(work.made()).map_err(|err| StoreError::io(dir, err))?;
    let new = Engine::open_new(dir, &work.made(), Memory::default())?;
    let mut target = Target { engine: &new, group: Vec::new() };
    let mut dropped = BTreeSet::new();
    let mut aside: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for part in PARTS {
        // It follows from the jobs: the next start makes it anew.
        let without_index = lost.concerns(Part::Index);
        if part == Part::Index && without_index {
            continue;
        }
        let mut take = |name: &[u8], value: &[u8]| {
            match job_of(part, name).filter(|id| lost.concerns_job(*id)) {
                Some(id) => {
                    dropped.insert(id);
                    aside.entry(place(part, id, name)).or_default().extend_from_slice(value);
                }
                None if name.starts_with(rows::ALL_STORE) => {}
                None if without_index && name == rows::indexed() => {}
                None => target.put(name.to_vec(), value.to_vec())?,
            }
            Ok::<(), StoreError>(())
        };
        let keyspace = old.rows.part(part);
        for good in lost.good(part) {
            let range = good.without_last();
            let mut found = old.guarded(|| Ok(keyspace.range::<Vec<u8>, _>(range)))?;
            while let Some((name, value)) =
                old.guarded(|| found.next().map(fjall::Guard::into_inner).transpose())?
            {
                take(&name, &value)?;
            }
            if let Some(last) = good.last
                && let Some(value) = old.guarded(|| keyspace.get(&last))?
            {
                take(&last, &value)?;
            }
        }
    }
    for (name, value) in aside {
        target.put(name, value)?;
    }
    target.finish(dir, &old)?;
    Ok(dropped.into_iter().map(JobId::new).collect())
}

/// The job that a row belongs to, also as a row of the index.
fn job_of(part: Part, name: &[u8]) -> Option<u64> {
    let row = rows::parse(name)?;
    match part {
        Part::Jobs => row.job,
        Part::Index => u64::from_str_radix(row.name.strip_prefix(Key::INDEX)?, 16).ok(),
        Part::Instance => None,
    }
}

/// The row to which one of a dropped job goes; the records of a log become one value.
fn place(part: Part, id: u64, name: &[u8]) -> Vec<u8> {
    let name = match part {
        Part::Jobs => rows::parse(name).map_or("", |row| row.name),
        Part::Index | Part::Instance => "summary",
    };
    let id = JobId::new(id).encode(Encoding::F58);
    rows::of_instance(&format!("{}{id}.{name}", Key::LOST_JOB))
}

/// The new database while it is filled.
struct Target<'a> {
    engine: &'a Engine,
    group: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Target<'_> {
    fn put(&mut self, name: Vec<u8>, value: Vec<u8>) -> Result<(), StoreError> {
        self.group.push((name, value));
        if self.group.len() < GROUP {
            return Ok(());
        }
        self.write(PersistMode::Buffer)
    }

    fn write(&mut self, mode: PersistMode) -> Result<(), StoreError> {
        let group = std::mem::take(&mut self.group);
        let effects = group.into_iter().map(|(name, value)| (name, Some(value))).collect();
        self.engine.write_rows(effects, mode)
    }

    /// Writes what makes a store of the database, and waits for the disk.
    fn finish(mut self, dir: &Path, old: &Engine) -> Result<(), StoreError> {
        // The number may have been lost with its block. What was acknowledged had a lower one.
        let last = old.last_commit().ok().max(Acked::read(dir)?).unwrap_or_default();
        self.group.push((rows::FORMAT.into(), FORMAT.to_string().into()));
        self.group.push((rows::COMMITS.into(), last.to_be_bytes().into()));
        self.write(PersistMode::SyncAll)?;
        guarded(dir, || self.engine.db.persist(PersistMode::SyncAll))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_tree_is_what_all_of_its_files_take() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let bytes: Vec<u8> = (0..200_000u32).flat_map(u32::to_le_bytes).collect();
        for path in [inner.join("a"), dir.path().join("b")] {
            fs::write(&path, &bytes).unwrap();
            // Only what is on the disk takes space there.
            File::open(path).unwrap().sync_all().unwrap();
        }
        let (part, whole) = (size(&inner).unwrap(), size(dir.path()).unwrap());
        assert!(part > 1000 && whole >= 2 * part, "{part} bytes of {whole}");
    }
}
