//! An in-memory store, for tests of code that uses a store. It can fail on request, and block a commit
//! so that a test controls which batches gather meanwhile.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};

use super::layout::{self, Rows, Visit};
use super::log_ends::LogEnds;
use super::{Found, Key, Op, Space, Store, StoreError, StoredJob, reading, rows};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// The store.
#[derive(Default)]
pub(crate) struct MemoryStore {
    rows: Mutex<Map>,
    ends: Mutex<LogEnds>,
    commits: Mutex<Vec<Vec<Op>>>,
    failing: AtomicBool,
    blocked: Mutex<Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>>,
    free: Mutex<Option<u64>>,
}

/// Controls a commit that a [`MemoryStore`] blocks.
pub(crate) struct BlockedCommit {
    arrived: mpsc::Receiver<()>,
    go: mpsc::Sender<()>,
}

impl BlockedCommit {
    /// Waits until the commit has begun.
    pub(crate) fn wait_for_commit(&self) {
        self.arrived.recv().unwrap();
    }

    /// Lets the commit end.
    pub(crate) fn release(self) {
        self.go.send(()).unwrap();
    }
}

impl MemoryStore {
    /// Makes every commit that begins from now on fail.
    pub(crate) fn fail_from_now(&self) {
        self.failing.store(true, Ordering::SeqCst);
    }

    /// Blocks the next commit until it is released.
    pub(crate) fn block_commit(&self) -> BlockedCommit {
        let (sender, arrived) = mpsc::channel();
        let (go, wait) = mpsc::channel();
        *self.blocked.lock().unwrap() = Some((sender, wait));
        BlockedCommit { arrived, go }
    }

    /// The commits that succeeded.
    pub(crate) fn commits(&self) -> Vec<Vec<Op>> {
        self.commits.lock().unwrap().clone()
    }

    /// A copy of the rows, so that a visitor may call the store again.
    fn snapshot(&self) -> Map {
        self.rows.lock().unwrap().clone()
    }

    /// Pretends that the disk has this many bytes left.
    pub(crate) fn set_free_space(&self, bytes: u64) {
        *self.free.lock().unwrap() = Some(bytes);
    }
}

struct MapRows<'a>(&'a Map);

impl Rows for MapRows<'_> {
    fn each(&self, prefix: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        for (name, value) in with_prefix(self.0, prefix) {
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

fn with_prefix<'a>(
    rows: &'a Map,
    prefix: &'a [u8],
) -> impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)> {
    rows.range(prefix.to_vec()..).take_while(move |(name, _)| name.starts_with(prefix))
}

impl Store for MemoryStore {
    fn commit(&self, ops: Vec<Op>) -> Result<(), StoreError> {
        let failing = self.failing.load(Ordering::SeqCst);
        let blocked = self.blocked.lock().unwrap().take();
        if let Some((arrived, go)) = blocked {
            arrived.send(()).unwrap();
            go.recv().unwrap();
        }
        if failing {
            return Err(StoreError::io("memory".as_ref(), std::io::Error::other("injected")));
        }
        let (mut rows, mut ends) = (self.rows.lock().unwrap(), self.ends.lock().unwrap());
        let mut commits = self.commits.lock().unwrap();
        let changes = layout::resolve(&MapRows(&rows), &mut ends, ops.clone())?;
        for (name, change) in changes.into_rows(commits.len() as u64) {
            match change {
                Some(value) => rows.insert(name.into_vec(), value),
                None => rows.remove(&*name),
            };
        }
        commits.push(ops);
        Ok(())
    }

    fn find(&self, key: &Key) -> Result<Option<Found>, StoreError> {
        reading::find(&MapRows(&self.snapshot()), key)
    }

    fn read_log(&self, key: &Key) -> Result<Option<Vec<u8>>, StoreError> {
        reading::log(&MapRows(&self.snapshot()), key)
    }

    fn scan_jobs(
        &self,
        wanted: &dyn Fn(&str) -> bool,
        visit: &mut dyn FnMut(StoredJob) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        reading::scan_jobs(&MapRows(&self.snapshot()), rows::ALL_JOBS, wanted, visit)
    }

    fn job(&self, id: u64, wanted: &dyn Fn(&str) -> bool) -> Result<Option<StoredJob>, StoreError> {
        reading::job(&MapRows(&self.snapshot()), id, wanted)
    }

    fn scan_values(
        &self,
        prefix: &str,
        visit: &mut dyn FnMut(&str, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        reading::scan_values(&MapRows(&self.snapshot()), prefix, visit)
    }

    fn list(&self, prefix: &str) -> Result<Vec<Key>, StoreError> {
        reading::list(&MapRows(&self.snapshot()), prefix)
    }

    fn instance_keys(&self) -> Result<Vec<Key>, StoreError> {
        reading::instance_keys(&MapRows(&self.snapshot()))
    }

    fn free_space(&self) -> Result<Option<Space>, StoreError> {
        let free = *self.free.lock().unwrap();
        Ok(free.map(|free| Space { path: "memory".into(), free }))
    }
}
