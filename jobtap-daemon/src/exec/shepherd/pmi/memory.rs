//! Bounds the memory that PMI values take: for each user, and for all users together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes for the values of all jobs of one user.
pub(super) const OF_USER: usize = 256 << 20;

/// Bytes for the values of all jobs.
const OF_ALL: usize = 4 * OF_USER;

/// The bytes that a value takes besides its own and those of its key.
pub(super) const ENTRY: usize = 128;

/// The bytes that the values of all jobs take, by user.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory(Arc<Mutex<HashMap<u32, usize>>>);

impl Memory {
    /// The share of one job of a user, empty at first.
    pub(super) fn share(&self, user: u32) -> Share {
        Share { memory: self.clone(), user, bytes: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The share of one job. It is given back when the job ends.
#[derive(Debug)]
pub(super) struct Share {
    memory: Memory,
    user: u32,
    bytes: usize,
}

impl Share {
    /// Takes memory for a value; `false` if there is none left for the user, or for all users.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let mut users = self.memory.lock();
        let all: usize = users.values().sum();
        let own = users.entry(self.user).or_default();
        if *own + bytes > OF_USER || all + bytes > OF_ALL {
            return false;
        }
        *own += bytes;
        self.bytes += bytes;
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut users = self.memory.lock();
        if let Some(own) = users.get_mut(&self.user) {
            *own -= self.bytes;
            if *own == 0 {
                users.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_user_and_of_all_is_bounded() {
        let memory = Memory::default();
        let (mut one, mut other) = (memory.share(1), memory.share(1));
        assert!(one.take(OF_USER - 10) && other.take(10));
        assert!(!one.take(1) && !other.take(1), "the jobs of a user share a bound");
        let mut others: Vec<Share> = (2..5).map(|user| memory.share(user)).collect();
        assert!(others.iter_mut().all(|share| share.take(OF_USER)));
        assert!(!memory.share(9).take(1), "all users share a bound");
        drop(one);
        assert!(other.take(OF_USER - 10), "what a job had is given back");
        drop((other, others));
        assert!(memory.lock().is_empty());
    }
}
