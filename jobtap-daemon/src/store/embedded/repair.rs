//! Repairs a damaged store: restores the rows that are provably undamaged, and no others.
//!
//! Older versions of rows in a damaged range are not used: the lost rows may have replaced or removed them. So a new
//! database is filled with the rows outside of the damaged ranges, which the engine reads from a copy. It then replaces
//! the old database, which is saved. A job that may have lost a key is not restored, since it might run again: its
//! other keys are moved below [`Key::LOST_JOB`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};

use fjall::PersistMode;
use jobtap_core::job::{Encoding, JobId};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::super::acked::Acked;
use super::super::layout::BadRow;
use super::super::lock::Lock;
use super::super::reading::JobScan;
use super::super::rows::{self, Name, Row};
use super::super::{Key, Memory, StoreError, StoredEntry, StoredJob, request, reserve};
use super::engine::{Engine, FORMAT, guarded};
use super::files::KeyspaceSet;
use super::fsck::{Damage, Loss, Range, check_locked};
use super::part::Part;
use super::{files, tail};

/// The number of rows that are written together.
const GROUP: usize = 1024;
/// A length in bytes that no row's name reaches; see [`Key`].
const LONGER_THAN_NAMES: usize = 2048;

/// The result of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// The damage that was found.
    pub damages: Vec<Damage>,
    /// The jobs that were dropped since one of their keys may be lost.
    pub jobs: Vec<JobId>,
    /// The path of the old database.
    pub kept: PathBuf,
}

impl fmt::Display for Repaired {
    /// One line for each damage, each dropped job, and the old database.
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

/// Repairs the store in `dir`; returns `None` if it is not damaged.
///
/// # Errors
/// Fails if `dir` is not a store, a manager has it open, or the damage can't be repaired. The store is unchanged after
/// an error.
pub fn repair(dir: &Path) -> Result<Option<Repaired>, StoreError> {
    let _lock = Lock::take(dir)?;
    repair_locked(dir)
}

/// As [`repair`], for a caller that holds the lock.
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
    let set = KeyspaceSet::detect(dir);
    let db = set.database(dir);
    let needed = size(&db).map_err(failed)?;
    let free = reserve::free_bytes(dir).map_err(failed)?;
    if free < needed {
        return Err(StoreError::NoSpace { path: dir.to_owned(), free, needed });
    }
    // As at every start, cuts off a torn commit that was not acknowledged.
    tail::mend(dir, Acked::read(dir)?)?;
    let work = WorkingDirectory::create(dir).map_err(failed)?;
    link(&db, &work.copy()).map_err(failed)?;
    let lost = Lost::from_damages(&damages);
    let jobs = fill(dir, &work, set, &lost)?;
    let kept = work.replace(dir, set).map_err(failed)?;
    files::trust(dir);
    Ok(Some(Repaired { damages, jobs, kept }))
}

/// The working directory of a repair.
struct WorkingDirectory {
    path: PathBuf,
    /// Whether the new database has replaced the old one, which is then in this directory.
    exchanged: bool,
}

impl WorkingDirectory {
    fn create(dir: &Path) -> io::Result<Self> {
        Ok(Self { path: fresh(dir, "repair")?, exchanged: false })
    }

    /// A copy of the old database for the engine, which changes a database when it opens it.
    fn copy(&self) -> PathBuf {
        self.path.join("copy")
    }

    /// The new database, and after the exchange the old one.
    fn made(&self) -> PathBuf {
        self.path.join("made")
    }

    /// Atomically replaces the old database, which has these keyspaces, with the new one, and saves the old one.
    fn replace(mut self, dir: &Path, set: KeyspaceSet) -> io::Result<PathBuf> {
        // Durable before it takes the place of the old database, so that no crash leaves an incomplete one.
        sync_all(&self.made())?;
        let kept = fresh(dir, "damaged")?;
        let (made, db) = (self.made(), set.database(dir));
        renameat_with(CWD, &made, CWD, db, RenameFlags::EXCHANGE)?;
        self.exchanged = true;
        fs::rename(made, &kept)?;
        File::open(&self.path)?.sync_all()?;
        File::open(dir)?.sync_all()?;
        // `drop` removes the copy.
        Ok(kept)
    }
}

impl Drop for WorkingDirectory {
    fn drop(&mut self) {
        // Removes what the repair created. Files that can't be removed do no harm.
        let _ = fs::remove_dir_all(self.copy());
        if !self.exchanged {
            let _ = fs::remove_dir_all(self.made());
        }
        let _ = fs::remove_dir(&self.path);
    }
}

/// Creates a directory in `dir` with that name and the first unused number.
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

/// Copies a directory tree. Tables and manifests, which never change, are hard-linked where the file system
/// supports that.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        let target = to.join(&name);
        if path.is_dir() {
            link(&path, &target)?;
            continue;
        }
        let changes = name.to_string_lossy().ends_with(files::LOG_SUFFIX);
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
            // Write-ahead logs are sparse: their length is larger than their content.
            false => std::os::unix::fs::MetadataExt::blocks(&entry.metadata()?) * 512,
        };
    }
    Ok(bytes)
}

/// Syncs a directory tree.
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

/// The ranges of rows that may be lost.
struct Lost<'a> {
    ranges: Vec<&'a Range>,
}

impl<'a> Lost<'a> {
    fn from_damages(damages: &'a [Damage]) -> Self {
        let range = |damage: &'a Damage| match &damage.loss {
            Loss::Rows(range) => Some(range),
            Loss::Nothing | Loss::Unknown => None,
        };
        Self { ranges: damages.iter().filter_map(range).collect() }
    }

    /// Whether a row of this part may be lost.
    fn concerns(&self, part: Part) -> bool {
        self.ranges.iter().any(|range| range.part == part)
    }

    /// Whether a key of this job may be lost.
    fn concerns_job(&self, id: u64) -> bool {
        let job = |row: &Option<Vec<u8>>| row.as_deref().and_then(rows::parse)?.job;
        let jobs = self.ranges.iter().filter(|range| range.part.is_of_jobs());
        jobs.into_iter().any(|range| {
            // The job of the last undamaged row may have more rows in the damaged range. But a submission is the only
            // row of its job in its keyspace.
            let single = u64::from(range.part == Part::Submissions);
            let first = job(&range.after).map_or(u64::MIN, |id| id.saturating_add(single));
            let last = job(&range.through).unwrap_or(u64::MAX);
            (first..=last).contains(&id)
        })
    }

    /// The undamaged ranges of a part.
    fn good(&self, part: Part) -> Vec<Good> {
        let mut lost: Vec<_> = self.ranges.iter().filter(|range| range.part == part).collect();
        lost.sort_by(|a, b| a.after.cmp(&b.after));
        let mut good = Vec::new();
        // The end of the lost ranges so far.
        let mut reached: Option<&Vec<u8>> = None;
        for range in lost {
            if let Some(after) = &range.after
                && reached.is_none_or(|reached| reached < after)
            {
                good.push(Good { behind: reached.cloned(), last: Some(after.clone()) });
            }
            // All rows after a range without an end may be lost.
            let Some(through) = &range.through else { return good };
            reached = reached.max(Some(through));
        }
        good.push(Good { behind: reached.cloned(), last: None });
        good
    }
}

/// A range of undamaged rows.
#[derive(Debug, PartialEq, Eq)]
struct Good {
    /// The lost row before them; `None` if they are the first.
    behind: Option<Vec<u8>>,
    /// The last of them; `None` if it is the last of all rows.
    last: Option<Vec<u8>>,
}

impl Good {
    /// The range without its last row. The engine locates the last block of a range by the bound. If the
    /// bound were the last row of a block, the engine would read the damaged block after it; likewise at
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

/// A name before `name` such that no row is between them.
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

/// Fills the new database with the undamaged rows of the copy; returns the dropped jobs.
fn fill(
    dir: &Path,
    work: &WorkingDirectory,
    set: KeyspaceSet,
    lost: &Lost<'_>,
) -> Result<Vec<JobId>, StoreError> {
    let old = Engine::open_at(dir, &work.copy(), set, Memory::default())?;
    // Data of a newer version would be read as if this version had written it.
    if let Err(refusal @ StoreError::Format { .. }) = old.is_of_earlier_format() {
        return Err(refusal);
    }
    fs::create_dir(work.made()).map_err(|err| StoreError::io(dir, err))?;
    let new = Engine::open_new(dir, &work.made(), set, Memory::default())?;
    let mut target = Target { engine: &new, group: Vec::new() };
    let mut dropped = BTreeSet::new();
    let mut aside: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut summaries = Vec::new();
    let mut newest = 0;
    for part in set.parts().iter().copied() {
        // The index is derived from the jobs: the next start rebuilds it.
        let without_index = lost.concerns(Part::Index);
        if part == Part::Index && without_index {
            continue;
        }
        let mut take = |name: &[u8], value: &[u8]| {
            if let Some(Row { job: Some(_), name: "", seq: Some(commit) }) = rows::parse(name) {
                newest = newest.max(commit);
            }
            match job_of(part, name).filter(|id| lost.concerns_job(*id)) {
                Some(id) => {
                    dropped.insert(id);
                    match part {
                        Part::Jobs | Part::Submissions => {
                            drop(aside.insert(name.to_vec(), value.to_vec()));
                        }
                        Part::Index | Part::Instance => {
                            summaries.push((place(id, "summary"), value.to_vec()));
                        }
                    }
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
    for (name, value) in keys_of(&aside).map_err(|bad| old.damaged(&bad.to_string()))? {
        target.put(name, value)?;
    }
    for (name, value) in summaries {
        target.put(name, value)?;
    }
    target.finish(dir, &old, newest)?;
    Ok(dropped.into_iter().map(JobId::new).collect())
}

/// The job that a row, or a row of the index, belongs to.
fn job_of(part: Part, name: &[u8]) -> Option<u64> {
    let row = rows::parse(name)?;
    match part {
        Part::Jobs | Part::Submissions => row.job,
        Part::Index => u64::from_str_radix(row.name.strip_prefix(Key::INDEX)?, 16).ok(),
        Part::Instance => None,
    }
}

/// The name and the value of a row of the new database.
type NewRow = (Vec<u8>, Vec<u8>);

/// The keys in these rows of dropped jobs, as rows below [`Key::LOST_JOB`]. The records of a log become one value.
fn keys_of(rows: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<Vec<NewRow>, BadRow> {
    let mut keys = Vec::new();
    let mut add = |job: StoredJob| {
        let row =
            |StoredEntry { name, value, .. }| (place(job.id, &name), request::shown(&name, value));
        keys.extend(job.entries.into_iter().map(row));
        ControlFlow::Continue(())
    };
    let mut scan = JobScan::new(&|_| true, &mut add);
    for (name, value) in rows {
        let _ = scan.row(name, value)?;
    }
    let _ = scan.finish();
    Ok(keys)
}

/// The row to which a key of a dropped job is moved.
fn place(id: u64, name: &str) -> Vec<u8> {
    let id = JobId::new(id).encode(Encoding::F58);
    rows::of_instance(&format!("{}{id}.{name}", Key::LOST_JOB))
}

/// The new database while it is filled.
struct Target<'a> {
    engine: &'a Engine,
    group: Vec<NewRow>,
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
        let group = std::mem::take(&mut self.group).into_iter();
        self.engine.write_rows(group.map(|(name, value)| (Name::from_vec(name), Some(value))), mode)
    }

    /// Writes the rows that make the database a store, and syncs it. `newest` is the highest commit number in the name
    /// of a bundle.
    fn finish(mut self, dir: &Path, old: &Engine, newest: u64) -> Result<(), StoreError> {
        // The number of commits may have been lost with its block. The number of the last acknowledged commit is in a
        // file of its own. A later commit may be there too; a new commit with its number would replace its bundles.
        let last = old.last_commit().ok().max(Acked::read(dir)?).unwrap_or_default().max(newest);
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
