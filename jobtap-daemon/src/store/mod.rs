//! The store: the durable data of jobs and of the instance.
//!
//! The manager sees RFC 16 keys and atomic, durable commits. The storage engine is used in
//! the module `embedded` only, so that a distributed store can replace it.

mod acked;
mod bundle;
mod changes;
mod commit_times;
mod committer;
mod embedded;
mod error;
mod group;
mod guest_files;
mod keys;
mod layout;
mod lock;
mod log_ends;
#[cfg(test)]
pub(crate) mod memory;
pub mod on_rows;
mod reading;
pub mod request;
mod reserve;
mod rows;
mod settings;
pub mod shared;
mod space;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

pub use commit_times::CommitTimes;
pub use committer::{Batch, Committer};
pub use embedded::{Cut, Damage, EmbeddedStore, Repaired, check, repair};
pub use error::StoreError;
pub use group::coalesce;
pub use guest_files::GuestFiles;
pub use keys::{Key, KeyError};
pub use lock::FILE as LOCK_FILE;
pub use reserve::Reserve;
pub use settings::{Memory, OnDamage, StoreSettings, StoreSettingsError};
pub use space::{Space, SpaceCheck};

/// One change. A key is written either by [`Op::Put`] or by [`Op::Append`], never by both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Sets a value.
    Put {
        /// The key.
        key: Key,
        /// The new value.
        value: Vec<u8>,
    },
    /// Adds a record to a log. Records are read in the order of `seq`; within one commit, records
    /// of the same `seq` are joined.
    Append {
        /// The log.
        key: Key,
        /// The record's sequence number, which must be new to the log.
        seq: u64,
        /// The record.
        value: Vec<u8>,
    },
    /// Removes a value or a whole log.
    Remove {
        /// The key.
        key: Key,
    },
    /// Removes all keys of a job.
    RemoveJob(u64),
}

/// What is stored at a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A value, as it is stored; [`request`] says what differs from what a reader expects.
    Value(Vec<u8>),
    /// The key of the instance that has the value, which several jobs share.
    Shared(Key),
}

impl Found {
    /// The value, unless another key has it.
    pub fn into_value(self) -> Option<Vec<u8>> {
        match self {
            Self::Value(value) => Some(value),
            Self::Shared(_) => None,
        }
    }
}

/// One job of a scan, with the requested keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredJob {
    /// The job's id.
    pub id: u64,
    /// Its keys in byte order of their names.
    pub entries: Vec<StoredEntry>,
}

impl StoredJob {
    /// The content of the key with this name.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let entry = self.entries.iter().find(|entry| entry.name == name)?;
        Some(&entry.value)
    }
}

/// One key of a [`StoredJob`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEntry {
    /// The name below the job, such as `eventlog`.
    pub name: String,
    /// The value, or the log's records joined in order.
    pub value: Vec<u8>,
    /// For a log, the first `seq` after its last record.
    pub next_seq: Option<u64>,
}

/// Stores the data of jobs and of the instance. Reads return durable data only.
pub trait Store: Send + Sync {
    /// Applies all of `ops`, in order, or none of them. On return they are durable.
    ///
    /// # Errors
    /// [`StoreError::Sequence`] and [`StoreError::TooLarge`] are found before anything is written. After
    /// any other error, whether the commit was applied is unknown until the store is opened again, and
    /// no later commit succeeds.
    fn commit(&self, ops: Vec<Op>) -> Result<(), StoreError>;

    /// What is stored at a key; `None` if the key does not exist or is a log.
    ///
    /// # Errors
    /// Fails if the disk can't be read, or the data is damaged.
    fn find(&self, key: &Key) -> Result<Option<Found>, StoreError>;

    /// The value at a key as a reader expects it; `None` if the key does not exist or is a log.
    ///
    /// # Errors
    /// As [`Store::find`].
    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, StoreError> {
        let found = match self.find(key)? {
            Some(Found::Shared(with)) => self.find(&with)?,
            found => found,
        };
        Ok(found.and_then(Found::into_value).map(|stored| request::shown(key.name(), stored)))
    }

    /// All records of a log, joined in order; `None` if it has no record.
    ///
    /// # Errors
    /// As [`Store::get`].
    fn read_log(&self, key: &Key) -> Result<Option<Vec<u8>>, StoreError>;

    /// The ids of all jobs in ascending order.
    ///
    /// # Errors
    /// As [`Store::get`].
    fn job_ids(&self) -> Result<Vec<u64>, StoreError> {
        let mut ids = Vec::new();
        self.scan_jobs(&|_| false, &mut |job| {
            ids.push(job.id);
            ControlFlow::Continue(())
        })?;
        Ok(ids)
    }

    /// Visits all jobs in order of their ids, as of the start of the scan, each with the keys whose
    /// names `wanted` accepts. A job is visited even if `wanted` accepts none of its keys.
    ///
    /// # Errors
    /// As [`Store::get`].
    fn scan_jobs(
        &self,
        wanted: &dyn Fn(&str) -> bool,
        visit: &mut dyn FnMut(StoredJob) -> ControlFlow<()>,
    ) -> Result<(), StoreError>;

    /// One job, with the keys whose names `wanted` accepts; `None` if it has no key at all.
    ///
    /// # Errors
    /// As [`Store::get`].
    fn job(&self, id: u64, wanted: &dyn Fn(&str) -> bool) -> Result<Option<StoredJob>, StoreError>;

    /// Visits the instance's values whose names begin with `prefix`, in byte order of their names.
    ///
    /// # Errors
    /// As [`Store::get`].
    fn scan_values(
        &self,
        prefix: &str,
        visit: &mut dyn FnMut(&str, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError>;

    /// The keys that begin with `prefix`, in byte order. A log is listed once.
    ///
    /// # Errors
    /// As [`Store::get`].
    fn list(&self, prefix: &str) -> Result<Vec<Key>, StoreError>;

    /// The keys of the instance, in byte order. Does not scan the keys of jobs, which are many.
    ///
    /// # Errors
    /// As [`Store::get`].
    fn instance_keys(&self) -> Result<Vec<Key>, StoreError>;

    /// The free space of the store; `None` if the store has no known limit.
    ///
    /// # Errors
    /// Fails if the file system can't be queried.
    fn free_space(&self) -> Result<Option<Space>, StoreError>;
}
