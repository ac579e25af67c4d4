//! The engine's timers: a thread that sleeps until the next one is due and sends it to the engine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use jobtap_core::engine::{Input, TimerId};
use jobtap_core::job::Timestamp;

use super::EngineHandle;

/// The longest sleep, so that a clock that was set back or corrected is noticed.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// Sets timers. The thread ends when all handles are dropped.
#[derive(Clone)]
pub(in crate::daemon) struct Timers(Sender<(Timestamp, TimerId)>);

/// A timer in the heap, the earliest first; times are compared in microseconds.
type Entry = Reverse<(u64, TimerId)>;

impl Timers {
    /// Starts the thread; due timers go to the engine.
    pub(in crate::daemon) fn start(engine: EngineHandle) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        std::thread::Builder::new()
            .name("timers".into())
            .spawn(move || run(&receiver, |id| engine.input(Input::Timer(id))))?;
        Ok(Self(sender))
    }

    /// Sends the timer to the engine at this time, or at once if the time is past.
    pub(in crate::daemon) fn set(&self, id: TimerId, at: Timestamp) {
        let _ = self.0.send((at, id));
    }
}

fn run(requests: &Receiver<(Timestamp, TimerId)>, mut due: impl FnMut(TimerId) -> bool) {
    let mut heap: BinaryHeap<Entry> = BinaryHeap::new();
    loop {
        let now = micros(crate::clock::now());
        while let Some(Reverse((_, id))) = heap.pop_if_due(now) {
            if !due(id) {
                return;
            }
        }
        let sleep = heap.peek().map_or(LONGEST_SLEEP, |Reverse((at, _))| {
            Duration::from_micros(at.saturating_sub(now)).min(LONGEST_SLEEP)
        });
        match requests.recv_timeout(sleep) {
            Ok((at, id)) => heap.push(Reverse((micros(at), id))),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
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
    use super::*;

    #[test]
    fn past_timers_fire_in_the_order_of_their_times() {
        let (sender, receiver) = channel();
        for (at, id) in [(3.0, 3), (1.0, 1), (2.0, 2)] {
            sender.send((Timestamp::from_secs(at), TimerId(id))).unwrap();
        }
        let mut heap = BinaryHeap::new();
        while let Ok((at, id)) = receiver.try_recv() {
            heap.push(Reverse((micros(at), id)));
        }
        let mut fired = Vec::new();
        while let Some(Reverse((_, id))) = heap.pop_if_due(micros(Timestamp::from_secs(2.5))) {
            fired.push(id.0);
        }
        assert_eq!(fired, [1, 2]);
    }

    #[test]
    fn the_thread_ends_when_the_engine_has_ended() {
        let (sender, receiver) = channel();
        sender.send((Timestamp::from_secs(0.0), TimerId(1))).unwrap();
        run(&receiver, |_| false);
    }
}
