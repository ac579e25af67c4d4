//! A store in memory, for tests of the users of a store. It can fail on request, and block a commit so
//! that a test controls which batches gather meanwhile.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Deref};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};

use super::layout::{self, JobScan, Listing, LogEnds, Rows};
use super::{Key, Op, Space, Store, StoreError, StoredJob, request, rows};

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

    /// Pretends that the disk has this many bytes left.
    pub(crate) fn set_free_space(&self, bytes: u64) {
        *self.free.lock().unwrap() = Some(bytes);
    }
}

struct MapRows<'a>(&'a Map);

impl Rows for MapRows<'_> {
    fn names(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
        Ok(with_prefix(self.0, prefix).map(|(name, _)| name.clone()).collect())
    }

    fn contains(&self, name: &[u8]) -> Result<bool, StoreError> {
        Ok(self.0.contains_key(name))
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
        for (name, change) in layout::resolve(&MapRows(&rows), &mut ends, ops.clone())? {
            match change {
                Some(value) => rows.insert(name.into_vec(), value),
                None => rows.remove(&*name),
            };
        }
        self.commits.lock().unwrap().push(ops);
        Ok(())
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, StoreError> {
        let map = self.rows.lock().unwrap();
        let stored = map.get(&*rows::of_value(key)).cloned();
        Ok(stored.map(|stored| request::shown(key.name(), stored)))
    }

    fn read_log(&self, key: &Key) -> Result<Option<Vec<u8>>, StoreError> {
        let map = self.rows.lock().unwrap();
        let prefix = rows::of_log(key);
        let records: Vec<_> = with_prefix(&map, &prefix).map(|(_, value)| value.deref()).collect();
        Ok((!records.is_empty()).then(|| records.concat()))
    }

    fn scan_jobs(
        &self,
        wanted: &dyn Fn(&str) -> bool,
        visit: &mut dyn FnMut(StoredJob) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let map = self.rows.lock().unwrap().clone();
        let mut scan = JobScan::new(wanted, visit);
        for (name, value) in with_prefix(&map, rows::ALL_JOBS) {
            if scan.row(name, value).expect("only we write rows").is_break() {
                return Ok(());
            }
        }
        let _ = scan.finish();
        Ok(())
    }

    fn job(&self, id: u64, wanted: &dyn Fn(&str) -> bool) -> Result<Option<StoredJob>, StoreError> {
        let mut found = None;
        let mut visit = |job: StoredJob| {
            let wanted = job.id == id;
            found = wanted.then_some(job);
            if wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        self.scan_jobs(wanted, &mut visit)?;
        Ok(found)
    }

    fn scan_values(
        &self,
        prefix: &str,
        visit: &mut dyn FnMut(&str, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let map = self.rows.lock().unwrap().clone();
        for (row, value) in with_prefix(&map, &rows::of_instance(prefix)) {
            let row = rows::parse(row).expect("only we write rows");
            if row.seq.is_none() && visit(row.name, value).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn list(&self, prefix: &str) -> Result<Vec<Key>, StoreError> {
        let map = self.rows.lock().unwrap();
        let mut listing = Listing::new(prefix);
        for start in rows::covering(prefix) {
            for (name, _) in with_prefix(&map, &start) {
                listing.row(name).expect("only we write rows");
            }
        }
        Ok(listing.finish())
    }

    fn instance_keys(&self) -> Result<Vec<Key>, StoreError> {
        let map = self.rows.lock().unwrap();
        let mut listing = Listing::new("");
        for (name, _) in with_prefix(&map, rows::ALL_INSTANCE) {
            listing.row(name).expect("only we write rows");
        }
        Ok(listing.finish())
    }

    fn free_space(&self) -> Result<Option<Space>, StoreError> {
        let free = *self.free.lock().unwrap();
        Ok(free.map(|free| Space { path: "memory".into(), free }))
    }
}
