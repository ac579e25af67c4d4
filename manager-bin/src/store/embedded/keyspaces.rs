//! The engine's keyspaces: which rows each holds, and how they are written to tables.
//!
//! Jobs begin and end nearly in the order of their ids. The tables of a keyspace that holds
//! nothing but their rows follow one another, and a merge rewrites little that was merged before.
//! One other row that changes all the time, such as the number of commits, would stretch each
//! table over all rows, and each merge with it: the cost of a job would grow with their number.

use std::ops::Bound;
use std::sync::Arc;

use fjall::compaction::Leveled;
use fjall::config::{BlockSizePolicy, CompressionPolicy};
use fjall::{AbstractTree, CompressionType, Database, Keyspace, KeyspaceCreateOptions};

use super::super::rows;

const KIB: u32 = 1024;
const MIB: u64 = 1024 * 1024;

/// What a keyspace holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The rows of jobs.
    Jobs,
    /// The index of jobs.
    Index,
    /// The rows of the instance and of the store itself.
    Instance,
}

/// The parts in the order in which their keyspaces are made.
pub(super) const PARTS: [Part; 3] = [Part::Jobs, Part::Index, Part::Instance];

impl Part {
    /// What the engine calls the keyspace.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Jobs => "jobs",
            Self::Index => "index",
            Self::Instance => "instance",
        }
    }
}

/// What gathers of one keyspace in memory before it becomes a table, if it gets there: the bound of
/// all keyspaces together is [`Keyspaces::room`]'s. Twice as much is no faster. fjall keeps it in
/// the store, so that it can't be changed by the configuration.
pub(super) const MEMTABLE: u64 = 32 * MIB;
/// What a merge rewrites beside its own tables is the table where they begin: small ones, then.
const TABLE: u64 = 8 * MIB;
/// How many tables are merged together, for the same reason rather many.
const TABLES_OF_A_MERGE: u8 = 8;
/// A block is compressed by itself. A job's rows, which one block holds, repeat each other: with
/// 4 KiB they shrink to a third, with this to a fifth.
const BLOCK: u32 = 32 * KIB;

/// Waiting here begins a little before fjall waits by itself, which it does without noticing
/// that its worker threads have ended and nothing will ever get better.
const MAX_SEALED_MEMTABLES: usize = 2;
const MAX_FIRST_LEVEL_TABLES: usize = 28;

/// Whether more can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// It can.
    Enough,
    /// Tables are written more slowly than there is something to write.
    None,
}

/// Rows of a keyspace, to be scanned.
pub(super) type Scan<'a> = (&'a Keyspace, (Bound<Vec<u8>>, Bound<Vec<u8>>));

/// The keyspaces of a store. All are written to all the time, so that none keeps old journals from
/// being deleted.
pub(super) struct Keyspaces {
    jobs: Keyspace,
    index: Keyspace,
    instance: Keyspace,
}

impl Keyspaces {
    /// Opens the keyspaces, and makes those that aren't there.
    pub(super) fn open(db: &Database) -> fjall::Result<Self> {
        Ok(Self {
            jobs: db.keyspace(Part::Jobs.name(), options)?,
            index: db.keyspace(Part::Index.name(), options)?,
            instance: db.keyspace(Part::Instance.name(), options)?,
        })
    }

    /// Whether all are there.
    pub(super) fn are_in(db: &Database) -> bool {
        PARTS.iter().all(|part| db.keyspace_exists(part.name()))
    }

    /// The one with the row of this name.
    pub(super) fn of(&self, name: &[u8]) -> &Keyspace {
        if name.starts_with(rows::ALL_JOBS) {
            &self.jobs
        } else if name.starts_with(rows::ALL_INDEX) {
            &self.index
        } else {
            &self.instance
        }
    }

    /// The one of this part.
    pub(super) fn part(&self, part: Part) -> &Keyspace {
        match part {
            Part::Jobs => &self.jobs,
            Part::Index => &self.index,
            Part::Instance => &self.instance,
        }
    }

    /// The name of the last row of all jobs.
    pub(super) fn last_of_jobs(&self) -> fjall::Result<Option<Vec<u8>>> {
        let last = self.jobs.last_key_value().map(fjall::Guard::key).transpose()?;
        Ok(last.map(|name| name.to_vec()))
    }

    /// Where the rows are whose names begin with `prefix`, in the order of the names.
    pub(super) fn parts(&self, prefix: &[u8]) -> Vec<Scan<'_>> {
        let start = Bound::Included(prefix.to_vec());
        let end = rows::after(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        let index = rows::ALL_INDEX.to_vec();
        if prefix == index || !index.starts_with(prefix) {
            return vec![(self.of(prefix), (start, end))];
        }
        vec![
            (&self.instance, (start, Bound::Excluded(index.clone()))),
            (&self.index, (Bound::Unbounded, Bound::Unbounded)),
            (&self.instance, (Bound::Included(index), end)),
        ]
    }

    /// Whether there is room in memory for what is to be written next. When as much as `most` has
    /// gathered, the keyspace with the most of it begins a table, unless one is being written: so
    /// no more than twice `most` is in memory, what is on its way to a table included.
    pub(super) fn room(&self, most: u64) -> fjall::Result<Room> {
        let is_behind = |rows: &&Keyspace| {
            rows.sealed_memtable_count() > MAX_SEALED_MEMTABLES
                || rows.l0_table_count() >= MAX_FIRST_LEVEL_TABLES
        };
        if self.all().iter().any(is_behind) {
            return Ok(Room::None);
        }
        let gathered = |rows: &Keyspace| rows.tree.active_memtable().size();
        if self.all().into_iter().map(gathered).sum::<u64>() < most {
            return Ok(Room::Enough);
        }
        if self.all().iter().any(|rows| rows.sealed_memtable_count() > 0) {
            return Ok(Room::None);
        }
        if let Some(rows) = self.all().into_iter().max_by_key(|rows| gathered(rows)) {
            rows.rotate_memtable()?;
        }
        Ok(Room::Enough)
    }

    fn all(&self) -> [&Keyspace; 3] {
        [&self.jobs, &self.index, &self.instance]
    }

    /// Bytes that have gathered, and how many of what had gathered before are on their way to tables.
    #[cfg(test)]
    pub(super) fn in_memory(&self) -> (u64, usize) {
        let all = self.all().into_iter();
        let add = |(bytes, sealed), rows: &Keyspace| {
            (bytes + rows.tree.active_memtable().size(), sealed + rows.sealed_memtable_count())
        };
        all.fold((0, 0), add)
    }

    /// Has what is in memory written to tables.
    #[cfg(test)]
    pub(super) fn begin_tables(&self) {
        for rows in self.all() {
            let _ = rows.rotate_memtable();
        }
    }

    /// Writes what is in memory to tables.
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
        // Keeps filters on the last level: an append asks for a record that isn't there.
        .expect_point_read_hits(false)
}
