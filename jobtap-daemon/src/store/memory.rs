//! An in-memory store, for tests of code that uses a store. It can fail on request, and block a commit
//! so that a test controls which batches gather meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};

use super::on_rows::{Medium, RowChange, RowStore};
use super::{Op, Space, StoreError};

/// The store.
pub(crate) type MemoryStore = RowStore<Memory>;

/// What a test makes of commits.
#[derive(Default)]
pub(crate) struct Memory {
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
        self.medium().failing.store(true, Ordering::SeqCst);
    }

    /// Blocks the next commit until it is released.
    pub(crate) fn block_commit(&self) -> BlockedCommit {
        let (sender, arrived) = mpsc::channel();
        let (go, wait) = mpsc::channel();
        *self.medium().blocked.lock().unwrap() = Some((sender, wait));
        BlockedCommit { arrived, go }
    }

    /// The commits that succeeded.
    pub(crate) fn commits(&self) -> Vec<Vec<Op>> {
        self.medium().commits.lock().unwrap().clone()
    }

    /// Pretends that the disk has this many bytes left.
    pub(crate) fn set_free_space(&self, bytes: u64) {
        *self.medium().free.lock().unwrap() = Some(bytes);
    }
}

impl Medium for Memory {
    fn write(&self, _: u64, ops: &[Op], _: &[RowChange]) -> Result<(), StoreError> {
        let failing = self.failing.load(Ordering::SeqCst);
        let blocked = self.blocked.lock().unwrap().take();
        if let Some((arrived, go)) = blocked {
            arrived.send(()).unwrap();
            go.recv().unwrap();
        }
        if failing {
            return Err(StoreError::io("memory".as_ref(), std::io::Error::other("injected")));
        }
        self.commits.lock().unwrap().push(ops.to_vec());
        Ok(())
    }

    fn free_space(&self) -> Result<Option<Space>, StoreError> {
        let free = *self.free.lock().unwrap();
        Ok(free.map(|free| Space { path: "memory".into(), free }))
    }
}
