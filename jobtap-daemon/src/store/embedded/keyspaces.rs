//! The engine's keyspaces: which rows each contains, and how they are written to tables.
//!
//! Jobs begin and end nearly in the order of their ids. So the tables of a keyspace with rows of jobs hardly overlap,
//! and a merge rewrites few rows that were merged before. A single other row that changes with each commit, such as the
//! number of commits, would extend the range of each table, and so of each merge, over all rows: the cost per job would
//! grow with the number of jobs.
//!
//! The first row of a job, its submission, has most of its text. In a keyspace of their own, these rows are written in
//! the order of the ids, and tables don't overlap until jobs are purged: a merge moves the tables without reading them.

use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

use fjall::compaction::Leveled;
use fjall::config::{BlockSizePolicy, CompressionPolicy};
use fjall::{AbstractTree, CompressionType, Database, Keyspace, KeyspaceCreateOptions};

use super::super::rows;
use super::files::KeyspaceSet;
use super::part::{PARTS, Part};

const KIB: u32 = 1024;
const MIB: u64 = 1024 * 1024;

/// The maximum size of one keyspace's rows in memory, in bytes, before they become a table; [`Keyspaces::backlog`]
/// bounds all keyspaces together. Twice as much is not faster. fjall stores this number in the database, so the
/// configuration can't change it.
pub(super) const MEMTABLE: u64 = 32 * MIB;
/// The size of a table. A merge also rewrites the older table where its range begins, so tables are small.
const TABLE: u64 = 8 * MIB;
/// The number of tables that are merged together; rather high, for the same reason.
const TABLES_OF_A_MERGE: u8 = 8;
/// The size of a block before compression. Blocks are compressed one by one, and the rows of a job, which
/// are in one block, repeat each other: with 4 KiB they shrink to a third, with this size to a fifth.
const BLOCK: u32 = 32 * KIB;

/// The limits are a little below those at which fjall itself waits: it waits forever if its worker threads
/// have ended.
const MAX_SEALED_MEMTABLES: usize = 2;
const MAX_FIRST_LEVEL_TABLES: usize = 28;

/// The number of tables after which each keyspace that has begun none meanwhile begins one. All writers wait while a
/// table is added to a keyspace, as long as six commits take, so each needless table counts. But data that is only in
/// memory keeps old write-ahead logs, which a restart after a crash has to read: four tables are half of the maximum
/// size of these logs, unless the configuration gives the store more memory.
const TABLES_PER_IDLE_TABLE: usize = 4;
/// The keyspace of the instance begins a table when it has one sixteenth of the bytes that may gather in memory,
/// whatever the other keyspaces do.
const SHARE_OF_INSTANCE: u64 = 16;

/// How much written data is not in tables yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backlog {
    /// So little that more can be written.
    Small,
    /// So much that writers have to wait.
    Large,
}

/// A range of names of rows.
pub(super) type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A range of rows to scan: the rows of all of these keyspaces, merged in the order of their names.
pub(super) type Scan<'a> = (Vec<&'a Keyspace>, Bounds);

/// The keyspaces of a store. Old data in memory prevents old write-ahead logs from being deleted, so a keyspace begins
/// a table now and then even if little was written to it. If the configuration gives so much memory that the engine's
/// own limits are reached first, its limit for write-ahead logs has this effect.
pub(super) struct Keyspaces {
    jobs: Keyspace,
    index: Keyspace,
    instance: Keyspace,
    /// `None` in the database of an earlier version: then these rows are among the other rows of jobs.
    submissions: Option<Keyspace>,
    /// The parts that have begun tables since the idle keyspaces last did, one entry for each table.
    begun: Mutex<Vec<Part>>,
}

impl Keyspaces {
    /// Opens the keyspaces, and creates those that do not exist.
    pub(super) fn open(db: &Database, set: KeyspaceSet) -> fjall::Result<Self> {
        Ok(Self {
            jobs: db.keyspace(Part::Jobs.name(), options)?,
            index: db.keyspace(Part::Index.name(), options)?,
            instance: db.keyspace(Part::Instance.name(), options)?,
            submissions: match set {
                KeyspaceSet::All => Some(db.keyspace(Part::Submissions.name(), options)?),
                KeyspaceSet::WithoutSubmissions => None,
            },
            begun: Mutex::default(),
        })
    }

    /// Whether all of these keyspaces exist.
    pub(super) fn are_in(db: &Database, set: KeyspaceSet) -> bool {
        set.parts().iter().all(|part| db.keyspace_exists(part.name()))
    }

    /// The keyspace of the row with this name.
    pub(super) fn keyspace_for(&self, name: &[u8]) -> &Keyspace {
        if rows::is_first_bundle(name) {
            self.part(Part::Submissions)
        } else if name.starts_with(rows::ALL_JOBS) {
            &self.jobs
        } else if name.starts_with(rows::ALL_INDEX) {
            &self.index
        } else {
            &self.instance
        }
    }

    /// The keyspace that has this part.
    pub(super) fn part(&self, part: Part) -> &Keyspace {
        match part {
            Part::Jobs => &self.jobs,
            Part::Index => &self.index,
            Part::Instance => &self.instance,
            Part::Submissions => self.submissions.as_ref().unwrap_or(&self.jobs),
        }
    }

    /// The name of the last row of all jobs.
    pub(super) fn last_of_jobs(&self) -> fjall::Result<Option<Vec<u8>>> {
        let mut last = None;
        for rows in self.of_jobs() {
            let name = rows.last_key_value().map(fjall::Guard::key).transpose()?;
            last = last.max(name.map(|name| name.to_vec()));
        }
        Ok(last)
    }

    /// The ranges with the rows whose names begin with `prefix`, in the order of the names.
    pub(super) fn parts(&self, prefix: &[u8]) -> Vec<Scan<'_>> {
        let start = Bound::Included(prefix.to_vec());
        let end = rows::after(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        let index = rows::ALL_INDEX.to_vec();
        if prefix == index || !index.starts_with(prefix) {
            let of_jobs = prefix.starts_with(rows::ALL_JOBS);
            let keyspaces = match of_jobs && rows::can_begin_first_bundle(prefix) {
                true => self.of_jobs().collect(),
                false => vec![self.keyspace_for(prefix)],
            };
            return vec![(keyspaces, (start, end))];
        }
        // The rows of the index lie in the middle of those of the instance.
        vec![
            (vec![&self.instance], (start, Bound::Excluded(index.clone()))),
            (vec![&self.index], (Bound::Unbounded, Bound::Unbounded)),
            (vec![&self.instance], (Bound::Included(index), end)),
        ]
    }

    /// Whether the data in memory leaves space for the next write. When `most` bytes have gathered, the
    /// keyspace with the most of them begins a table, unless one is being written. So no more than twice
    /// `most` is in memory, including data on its way to a table.
    ///
    /// After a few tables, each keyspace that has begun none meanwhile begins one. The keyspace of the instance also
    /// begins one when it has gathered much itself: each commit rewrites the number of commits, and a keyspace in
    /// memory keeps all versions of a row. They take several times the bytes that are counted, and it would take hours
    /// until they alone made the keyspace the largest, while the manager's memory grew; a table has only the last
    /// version.
    pub(super) fn backlog(&self, most: u64) -> fjall::Result<Backlog> {
        let is_behind = |rows: &Keyspace| {
            rows.sealed_memtable_count() > MAX_SEALED_MEMTABLES
                || rows.l0_table_count() >= MAX_FIRST_LEVEL_TABLES
        };
        if self.all().any(is_behind) {
            return Ok(Backlog::Large);
        }
        let gathered = |rows: &Keyspace| rows.tree.active_memtable().size();
        if self.all().map(gathered).sum::<u64>() < most {
            return Ok(Backlog::Small);
        }
        if self.all().any(|rows| rows.sealed_memtable_count() > 0) {
            return Ok(Backlog::Large);
        }
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let of_instance = gathered(&self.instance);
        let others = || PARTS.into_iter().filter(|part| *part != Part::Instance && self.has(*part));
        if let Some(largest) = others().max_by_key(|part| gathered(self.part(*part)))
            && gathered(self.part(largest)) >= of_instance
        {
            self.part(largest).rotate_memtable()?;
            begun.push(largest);
        }
        if begun.len() >= TABLES_PER_IDLE_TABLE {
            // A keyspace may be idle for hours, for example if no job is submitted.
            for part in PARTS.into_iter().filter(|part| !begun.contains(part) && self.has(*part)) {
                if gathered(self.part(part)) > 0 {
                    self.part(part).rotate_memtable()?;
                }
            }
            begun.clear();
        } else if of_instance >= most / SHARE_OF_INSTANCE {
            self.instance.rotate_memtable()?;
        }
        Ok(Backlog::Small)
    }

    /// Whether the part has a keyspace of its own.
    fn has(&self, part: Part) -> bool {
        part != Part::Submissions || self.submissions.is_some()
    }

    /// The keyspaces with rows of jobs.
    fn of_jobs(&self) -> impl Iterator<Item = &Keyspace> {
        self.submissions.iter().chain([&self.jobs])
    }

    fn all(&self) -> impl Iterator<Item = &Keyspace> {
        self.of_jobs().chain([&self.index, &self.instance])
    }

    /// The bytes that have gathered, and the number of memtables on their way to tables.
    #[cfg(test)]
    pub(super) fn in_memory(&self) -> (u64, usize) {
        let add = |(bytes, sealed), rows: &Keyspace| {
            (bytes + rows.tree.active_memtable().size(), sealed + rows.sealed_memtable_count())
        };
        self.all().fold((0, 0), add)
    }

    /// The bytes that have gathered in the keyspace of a part.
    #[cfg(test)]
    pub(super) fn in_memory_of(&self, part: Part) -> u64 {
        self.part(part).tree.active_memtable().size()
    }

    /// Starts to write the data in memory to tables.
    #[cfg(test)]
    pub(super) fn begin_tables(&self) {
        for rows in self.all() {
            let _ = rows.rotate_memtable();
        }
    }

    /// Writes the data in memory to tables.
    #[cfg(test)]
    pub(super) fn flush_to_tables(&self) {
        for rows in self.all() {
            let _ = rows.rotate_memtable_and_wait();
        }
    }
}

fn options() -> KeyspaceCreateOptions {
    let merging =
        Leveled::default().with_l0_threshold(TABLES_OF_A_MERGE).with_table_target_size(TABLE);
    KeyspaceCreateOptions::default()
        .max_memtable_size(MEMTABLE)
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
        .data_block_size_policy(BlockSizePolicy::all(BLOCK))
        .compaction_strategy(Arc::new(merging))
        // Keeps filters on the last level: an append looks up a record that usually doesn't exist.
        .expect_point_read_hits(false)
}
