//! The state of the process, which calls from several threads share.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

use super::{Own, system};

struct Shared {
    locked: AtomicBool,
    state: UnsafeCell<Option<Own>>,
}

// SAFETY: only `with_state` accesses the state, and only while it holds the lock. The state is `Send`: it consists of
// numbers and bytes.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared { locked: AtomicBool::new(false), state: UnsafeCell::new(None) };

/// Releases the lock when dropped, even if the call panics.
struct Held;

impl Drop for Held {
    fn drop(&mut self) {
        SHARED.locked.store(false, Ordering::Release);
    }
}

/// Calls `act` with exclusive access to the state. `act` must not call this function: it would wait forever.
pub(super) fn with_state<T>(act: impl FnOnce(&mut Option<Own>) -> T) -> T {
    while SHARED.locked.swap(true, Ordering::Acquire) {
        // Sleep instead of spinning: another thread may hold the lock as long as it waits in a barrier.
        system::pause(1);
    }
    let held = Held;
    // SAFETY: this thread holds the lock, so there is no other reference to the state, and `T` can't borrow from it.
    let outcome = act(unsafe { &mut *SHARED.state.get() });
    drop(held);
    outcome
}
