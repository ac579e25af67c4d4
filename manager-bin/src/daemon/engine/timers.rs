//! The engine's timers: a thread that sleeps until the next one is due and sends it to the engine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jobtap_core::engine::{Input, TimerId};
use jobtap_core::job::Timestamp;

use super::EngineHandle;

/// The longest sleep, so that a clock that was set back or corrected is noticed.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// Sets timers. The thread ends when all handles are dropped.
#[derive(Clone)]
pub(in crate::daemon) struct Timers(Arc<Handle>);

/// A timer in the heap, the earliest first; times are compared in microseconds.
type Entry = Reverse<(u64, TimerId)>;

/// What the handles share. Its end is that of the thread.
struct Handle(Arc<Shared>);

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// The thread has to look anew: a timer is due before all others, or no handle is left.
    wake: Condvar,
}

#[derive(Default)]
struct Waiting {
    heap: BinaryHeap<Entry>,
    ended: bool,
}

impl Timers {
    /// Starts the thread; due timers go to the engine.
    pub(in crate::daemon) fn start(engine: EngineHandle) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let timers = Self(Arc::new(Handle(Arc::clone(&shared))));
        std::thread::Builder::new()
            .name("timers".into())
            .spawn(move || run(&shared, |id| engine.input(Input::Timer(id))))?;
        Ok(timers)
    }

    /// Sends the timer to the engine at this time, or at once if the time is past.
    pub(in crate::daemon) fn set(&self, id: TimerId, at: Timestamp) {
        let Handle(shared) = &*self.0;
        let entry = Reverse((micros(at), id));
        let mut waiting = shared.lock();
        // The thread sleeps until the earliest timer: only an earlier one has to wake it.
        let is_first = waiting.heap.peek().is_none_or(|first| entry > *first);
        waiting.heap.push(entry);
        drop(waiting);
        if is_first {
            shared.wake.notify_one();
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.wake.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn run(shared: &Shared, mut due: impl FnMut(TimerId) -> bool) {
    let mut waiting = shared.lock();
    while !waiting.ended {
        let now = micros(crate::clock::now());
        if let Some(Reverse((_, id))) = waiting.heap.pop_if_due(now) {
            // Without the lock: the engine may be about to set a timer.
            drop(waiting);
            if !due(id) {
                return;
            }
            waiting = shared.lock();
            continue;
        }
        let sleep = waiting.heap.peek().map_or(LONGEST_SLEEP, |Reverse((at, _))| {
            Duration::from_micros(at.saturating_sub(now)).min(LONGEST_SLEEP)
        });
        let woken = shared.wake.wait_timeout(waiting, sleep);
        waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
    }
}

trait PopIfDue {
    fn pop_if_due(&mut self, now: u64) -> Option<Entry>;
}

impl PopIfDue for BinaryHeap<Entry> {
    fn pop_if_due(&mut self, now: u64) -> Option<Entry> {
        if self.peek().is_some_and(|Reverse((at, _))| *at <= now) { self.pop() } else { None }
    }
}

/// The time until then, rounded up so that a timer is never early.
fn micros(time: Timestamp) -> u64 {
    (time.as_secs() * 1e6).ceil() as u64
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn at(secs: f64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn set_up() -> (Timers, Arc<Shared>) {
        let shared = Arc::new(Shared::default());
        (Timers(Arc::new(Handle(Arc::clone(&shared)))), shared)
    }

    #[test]
    fn past_timers_fire_in_the_order_of_their_times() {
        let (timers, shared) = set_up();
        for (secs, id) in [(3.0, 3), (1.0, 1), (2.0, 2)] {
            timers.set(TimerId(id), at(secs));
        }
        let mut fired = Vec::new();
        run(&shared, |id| {
            fired.push(id.0);
            fired.len() < 3
        });
        assert_eq!(fired, [1, 2, 3]);
    }

    #[test]
    fn a_timer_before_all_others_wakes_the_thread() {
        let (timers, shared) = set_up();
        timers.set(TimerId(1), crate::clock::now() + 1e6);
        let fired = std::thread::spawn(move || {
            let mut fired = None;
            run(&shared, |id| {
                fired = Some(id);
                false
            });
            fired
        });
        let set = Instant::now();
        timers.set(TimerId(2), crate::clock::now() + 0.001);
        assert_eq!(fired.join().unwrap(), Some(TimerId(2)));
        // Otherwise it was found after the longest sleep only.
        assert!(set.elapsed() < LONGEST_SLEEP / 2);
    }

    #[test]
    fn the_thread_ends_with_the_last_handle_or_with_the_engine() {
        let (timers, shared) = set_up();
        let thread = std::thread::spawn(move || run(&shared, |_| true));
        drop(timers.clone());
        drop(timers);
        thread.join().unwrap();
        let (timers, shared) = set_up();
        timers.set(TimerId(1), at(0.0));
        run(&shared, |_| false);
    }
}
