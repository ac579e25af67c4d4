//! The state of the process, which calls of several threads share.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

use super::{Own, system};

struct Shared {
    locked: AtomicBool,
    state: UnsafeCell<Option<Own>>,
}

// SAFETY: `with_state` alone touches the state, and only while it holds the lock. What is in it may be used by any
// thread: numbers and bytes.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared { locked: AtomicBool::new(false), state: UnsafeCell::new(None) };

/// Gives the lock back, however the call ends.
struct Held;

impl Drop for Held {
    fn drop(&mut self) {
        SHARED.locked.store(false, Ordering::Release);
    }
}

/// Calls `act` with the state while no other thread has it. `act` must not call this function.
pub(super) fn with_state<T>(act: impl FnOnce(&mut Option<Own>) -> T) -> T {
    while SHARED.locked.swap(true, Ordering::Acquire) {
        // Another thread may wait in a barrier.
        system::pause(1);
    }
    let held = Held;
    // SAFETY: the lock is held, so there is no other reference to the state.
    let outcome = act(unsafe { &mut *SHARED.state.get() });
    drop(held);
    outcome
}
