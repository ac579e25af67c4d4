//! Free space: a manager refuses submissions while there is still enough space for the events of the
//! active jobs, since a commit that fails for lack of space ends the manager.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::reserve::Reserve;
use super::{Store, StoreError};
use crate::clock;

/// The free space of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// The directory of the store's data.
    pub path: PathBuf,
    /// Bytes that the manager's user may still write there.
    pub free: u64,
}

impl Reserve {
    /// Whether the store may take new jobs.
    ///
    /// # Errors
    /// Fails with [`StoreError::NoSpace`] if less than the reserve is free, and if the file system can't
    /// be queried.
    pub fn check(self, store: &dyn Store) -> Result<(), StoreError> {
        match store.free_space()? {
            Some(Space { path, free }) if free < self.bytes() => {
                Err(StoreError::NoSpace { path, free, needed: self.bytes() })
            }
            _ => Ok(()),
        }
    }
}

/// How long a check that found enough space holds, which saves system calls. In this time the manager can't
/// write a tenth of the reserve.
const CHECKED_FOR: Duration = Duration::from_millis(10);

/// Checks the reserve for each submission. There may be tens of thousands of them per second.
#[derive(Debug)]
pub struct SpaceCheck {
    reserve: Reserve,
    begun: Instant,
    /// The time until which the last successful check holds, in milliseconds since `begun`.
    enough_until: AtomicU64,
}

impl SpaceCheck {
    /// A check of this reserve.
    pub fn new(reserve: Reserve) -> Self {
        Self { reserve, begun: clock::monotonic(), enough_until: AtomicU64::new(0) }
    }

    /// As [`Reserve::check`], but a check that found enough space holds for a few milliseconds.
    ///
    /// # Errors
    /// As [`Reserve::check`].
    pub fn check(&self, store: &dyn Store) -> Result<(), StoreError> {
        let now = clock::monotonic().saturating_duration_since(self.begun);
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        if millis(now) < self.enough_until.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.reserve.check(store)?;
        self.enough_until.store(millis(now + CHECKED_FOR), Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::memory::MemoryStore;

    #[test]
    fn submissions_are_refused_before_commits_fail() {
        let store = MemoryStore::default();
        let reserve = Reserve::new(1000);
        reserve.check(&store).expect("no limit known");
        store.set_free_space(1000);
        reserve.check(&store).expect("the reserve itself is enough");
        store.set_free_space(999);
        let refusal = reserve.check(&store).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "memory has too little space (999 bytes free, 1000 needed): free some there"
        );
        Reserve::new(0).check(&store).expect("switched off");
    }

    #[test]
    fn too_little_space_is_noticed_at_once_and_enough_of_it_soon() {
        let store = MemoryStore::default();
        let check = SpaceCheck::new(Reserve::new(1000));
        store.set_free_space(999);
        check.check(&store).unwrap_err();
        store.set_free_space(1000);
        check.check(&store).expect("a refusal is not remembered");
        store.set_free_space(0);
        let deadline = Instant::now() + Duration::from_secs(60);
        while check.check(&store).is_ok() {
            assert!(Instant::now() < deadline, "enough space is remembered for ever");
            std::thread::yield_now();
        }
    }
}
