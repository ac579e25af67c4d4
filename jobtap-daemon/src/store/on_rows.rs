//! A store on any ordered rows that are kept in memory and written to a [`Medium`]: the layout, the checks and the reading
//! of the [embedded](super::EmbeddedStore) one, without its engine. Tests and the simulator, whose disk is played, use it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::layout::{self, Rows, Visit};
use super::log_ends::LogEnds;
use super::{Found, Key, Op, Space, Store, StoreError, StoredJob, reading, rows};

/// All rows, by their names.
pub type AllRows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A row's name and its new value; without one, the row is removed.
pub type RowChange = (Vec<u8>, Option<Vec<u8>>);

/// Where rows are written to.
pub trait Medium: Send + Sync {
    /// Makes the changes of a commit durable, all of them or none.
    ///
    /// # Errors
    /// Whether they are durable is unknown then, and no later commit may succeed.
    fn write(&self, commit: u64, ops: &[Op], changes: &[RowChange]) -> Result<(), StoreError>;

    /// The free space, if it has a known limit.
    ///
    /// # Errors
    /// It can't be queried.
    fn free_space(&self) -> Result<Option<Space>, StoreError>;
}

/// The store.
pub struct RowStore<M> {
    medium: M,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    rows: AllRows,
    ends: LogEnds,
    commits: u64,
}

impl<M: Medium + Default> Default for RowStore<M> {
    fn default() -> Self {
        Self { medium: M::default(), state: Mutex::default() }
    }
}

impl<M: Medium> RowStore<M> {
    /// The store of a medium that has these rows, after so many commits.
    pub fn open(medium: M, rows: AllRows, commits: u64) -> Self {
        let newest = rows.keys().rev().find_map(|name| rows::job_of(name));
        let ends = LogEnds::after(newest);
        Self { medium, state: Mutex::new(State { rows, ends, commits }) }
    }

    /// The medium.
    pub fn medium(&self) -> &M {
        &self.medium
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A commit that panics has failed, and changes nothing in memory.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of the rows that begin like this, so that a visitor may call the store again.
    fn copied(&self, prefix: &[u8]) -> AllRows {
        let state = self.state();
        let found = beginning(&state.rows, prefix);
        found.map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

struct Borrowed<'a>(&'a AllRows);

fn beginning<'a>(
    rows: &'a AllRows,
    prefix: &'a [u8],
) -> impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)> {
    rows.range(prefix.to_vec()..).take_while(move |(name, _)| name.starts_with(prefix))
}

impl Rows for Borrowed<'_> {
    fn each(&self, prefix: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        for (name, value) in beginning(self.0, prefix) {
            if visit(name, value)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn row(&self, name: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.get(name).cloned())
    }

    fn contains(&self, name: &[u8]) -> Result<bool, StoreError> {
        Ok(self.0.contains_key(name))
    }

    fn damaged(&self, detail: &str) -> StoreError {
        StoreError::Corrupt { path: "memory".into(), detail: detail.to_owned() }
    }
}

impl<M: Medium> Store for RowStore<M> {
    fn commit(&self, ops: Vec<Op>) -> Result<(), StoreError> {
        let mut state = self.state();
        let State { rows, ends, commits } = &mut *state;
        let changes = layout::resolve(&Borrowed(rows), ends, ops.clone())?;
        let changes = changes.into_rows(*commits);
        let changes: Vec<RowChange> = changes.map(|(name, value)| (name.to_vec(), value)).collect();
        self.medium.write(*commits, &ops, &changes)?;
        for (name, value) in changes {
            match value {
                Some(value) => drop(rows.insert(name, value)),
                None => drop(rows.remove(&name)),
            }
        }
        *commits += 1;
        Ok(())
    }

    fn find(&self, key: &Key) -> Result<Option<Found>, StoreError> {
        reading::find(&Borrowed(&self.state().rows), key)
    }

    fn read_log(&self, key: &Key) -> Result<Option<Vec<u8>>, StoreError> {
        reading::log(&Borrowed(&self.state().rows), key)
    }

    fn scan_jobs(
        &self,
        wanted: &dyn Fn(&str) -> bool,
        visit: &mut dyn FnMut(StoredJob) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let rows = self.copied(rows::ALL_JOBS);
        reading::scan_jobs(&Borrowed(&rows), rows::ALL_JOBS, wanted, visit)
    }

    fn job(&self, id: u64, wanted: &dyn Fn(&str) -> bool) -> Result<Option<StoredJob>, StoreError> {
        reading::job(&Borrowed(&self.state().rows), id, wanted)
    }

    fn scan_values(
        &self,
        prefix: &str,
        visit: &mut dyn FnMut(&str, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        reading::scan_values(&Borrowed(&self.copied(rows::ALL_INSTANCE)), prefix, visit)
    }

    fn list(&self, prefix: &str) -> Result<Vec<Key>, StoreError> {
        reading::list(&Borrowed(&self.state().rows), prefix)
    }

    fn instance_keys(&self) -> Result<Vec<Key>, StoreError> {
        reading::instance_keys(&Borrowed(&self.state().rows))
    }

    fn free_space(&self) -> Result<Option<Space>, StoreError> {
        self.medium.free_space()
    }
}
