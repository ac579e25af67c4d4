//! The messages that wait for the engine, and the order in which it takes them.
//!
//! Each connection has a queue of its own, and the engine takes from them in turn: first over the users, then over the
//! connections of each user. So a client that sends thousands of requests delays another client by one request, not by
//! thousands, and a user with many connections gets no more turns than a user with one. Messages of the manager itself,
//! such as the ends of jobs, get every second turn, however many clients there are. A timer that is due is such a
//! message.

use std::collections::VecDeque;
use std::hash::Hash;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use jobtap_core::engine::TimerId;
use jobtap_core::job::{Timestamp, Uid};
use rustc_hash::FxHashMap;

use super::timers::Timers;

/// The queue that a message is put on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::daemon) enum Source {
    /// The manager's own queue.
    Manager,
    /// The queue of a connection.
    Client {
        /// The user at its other end.
        user: Uid,
        /// The connection's number.
        connection: u64,
    },
}

/// The queues of messages for the engine's thread.
pub(in crate::daemon) struct Intake<T> {
    waiting: Mutex<Waiting<T>>,
    arrived: Condvar,
}

struct Waiting<T> {
    own: VecDeque<T>,
    timers: Timers,
    clients: RoundRobin<Uid, RoundRobin<u64, VecDeque<T>>>,
    /// Whether it is the turn of the manager's own queue.
    own_next: bool,
    /// Whether the engine's thread sleeps until something arrives.
    asleep: bool,
    closed: bool,
}

impl<T> Default for Intake<T> {
    fn default() -> Self {
        let waiting = Waiting {
            own: VecDeque::new(),
            timers: Timers::default(),
            clients: RoundRobin::default(),
            own_next: true,
            asleep: false,
            closed: false,
        };
        Self { waiting: Mutex::new(waiting), arrived: Condvar::new() }
    }
}

impl<T> Intake<T> {
    /// Puts a message at the end of a queue. Returns false when the intake is closed.
    pub(in crate::daemon) fn put(&self, source: Source, what: T) -> bool {
        self.put_all(source, std::iter::once(what))
    }

    /// Puts messages at the end of a queue at once. Returns false when the intake is closed.
    pub(in crate::daemon) fn put_all(
        &self,
        source: Source,
        all: impl IntoIterator<Item = T>,
    ) -> bool {
        let mut waiting = self.lock();
        if waiting.closed {
            return false;
        }
        match source {
            Source::Manager => waiting.own.extend(all),
            Source::Client { user, connection } => {
                waiting.clients.queue_for(user).queue_for(connection).extend(all);
            }
        }
        if std::mem::take(&mut waiting.asleep) {
            self.arrived.notify_one();
        }
        true
    }

    /// Sets a timer. It is put at the end of the manager's own queue at this time, or soon if the time is past.
    pub(in crate::daemon) fn set_timer(&self, id: TimerId, at: Timestamp) {
        let mut waiting = self.lock();
        // The engine's thread sleeps until the first timer: only an earlier one has to wake it.
        if !waiting.closed && waiting.timers.set(id, at) && std::mem::take(&mut waiting.asleep) {
            self.arrived.notify_one();
        }
    }

    /// Takes the next message, and waits until there is one. `of_timer` makes a timer's message.
    pub(in crate::daemon) fn take(
        &self,
        now: impl Fn() -> Timestamp,
        of_timer: impl Fn(TimerId) -> T,
    ) -> T {
        let mut waiting = self.lock();
        loop {
            waiting.move_due_timers(&now, &of_timer);
            if let Some(what) = waiting.next() {
                return what;
            }
            waiting.asleep = true;
            let sleep = waiting.timers.sleep(now());
            let woken = self.arrived.wait_timeout(waiting, sleep);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Takes the next message or timer that is due, if there is one.
    pub(in crate::daemon) fn take_due(
        &self,
        now: impl Fn() -> Timestamp,
        of_timer: impl Fn(TimerId) -> T,
    ) -> Option<T> {
        let mut waiting = self.lock();
        waiting.move_due_timers(&now, &of_timer);
        waiting.next()
    }

    /// Takes the next message, if there is one.
    pub(in crate::daemon) fn try_take(&self) -> Option<T> {
        self.lock().next()
    }

    /// Whether no message waits.
    pub(in crate::daemon) fn is_empty(&self) -> bool {
        let waiting = self.lock();
        waiting.own.is_empty() && waiting.clients.is_empty()
    }

    /// Takes the messages of a closed connection off its queue: no response can be sent there. The caller drops them
    /// outside of the lock, since dropping a message may put another one on the manager's own queue.
    #[must_use]
    pub(in crate::daemon) fn take_messages_of(&self, source: Source) -> VecDeque<T> {
        let taken = match source {
            Source::Manager => None,
            Source::Client { user, connection } => self.lock().take_messages_of(user, connection),
        };
        taken.unwrap_or_default()
    }

    /// Closes the intake: drops all messages, and takes no more.
    pub(in crate::daemon) fn close(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        waiting.timers = Timers::default();
        let dropped = (std::mem::take(&mut waiting.own), std::mem::take(&mut waiting.clients));
        drop(waiting);
        // Outside of the lock, since dropping a message may put another one on a queue.
        drop(dropped);
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Waiting<T> {
    fn move_due_timers(&mut self, now: impl Fn() -> Timestamp, of_timer: impl Fn(TimerId) -> T) {
        if self.timers.is_empty() {
            return;
        }
        let now = now();
        while let Some(id) = self.timers.due(now) {
            self.own.push_back(of_timer(id));
        }
    }

    fn next(&mut self) -> Option<T> {
        let own = if self.own_next { self.own.pop_front() } else { None };
        self.own_next = own.is_none();
        own.or_else(|| self.of_a_client()).or_else(|| self.own.pop_front())
    }

    fn of_a_client(&mut self) -> Option<T> {
        self.clients.next(|user| {
            let what = user.next(|queue| (queue.pop_front(), queue.is_empty()));
            (what, user.is_empty())
        })
    }

    fn take_messages_of(&mut self, user: Uid, connection: u64) -> Option<VecDeque<T>> {
        let queues = self.clients.queues.get_mut(&user)?;
        // Its key stays in the ring; `next` passes over keys without a queue.
        queues.queues.remove(&connection)
    }
}

/// Queues that take turns.
struct RoundRobin<K, Q> {
    /// The queues that have messages, the one whose turn it is in front.
    ring: VecDeque<K>,
    queues: FxHashMap<K, Q>,
}

impl<K, Q> Default for RoundRobin<K, Q> {
    fn default() -> Self {
        Self { ring: VecDeque::new(), queues: FxHashMap::default() }
    }
}

impl<K: Copy + Eq + Hash, Q: Default> RoundRobin<K, Q> {
    /// Returns the queue of this key for a message to be added, and creates it if necessary.
    fn queue_for(&mut self, key: K) -> &mut Q {
        let ring = &mut self.ring;
        self.queues.entry(key).or_insert_with(|| {
            ring.push_back(key);
            Q::default()
        })
    }

    /// Takes from the queue whose turn it is. `take` also returns whether it has left the queue empty.
    fn next<T>(&mut self, mut take: impl FnMut(&mut Q) -> (Option<T>, bool)) -> Option<T> {
        while let Some(key) = self.ring.pop_front() {
            let Some(queue) = self.queues.get_mut(&key) else { continue };
            let (what, empty) = take(queue);
            match empty {
                true => drop(self.queues.remove(&key)),
                false => self.ring.push_back(key),
            }
            if what.is_some() {
                return what;
            }
        }
        None
    }

    fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    use super::*;

    fn client(user: u32, connection: u64) -> Source {
        Source::Client { user: Uid::new(user), connection }
    }

    fn all(intake: &Intake<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| intake.try_take()).collect()
    }

    #[test]
    fn connections_take_turns_and_keep_their_order() {
        let intake = Intake::default();
        for what in ["a1", "a2", "a3"] {
            intake.put(client(1, 1), what);
        }
        intake.put(client(1, 2), "b1");
        intake.put(client(1, 2), "b2");
        assert_eq!(all(&intake), ["a1", "b1", "a2", "b2", "a3"]);
        // A connection whose queue was empty gets its turn again.
        intake.put(client(1, 1), "a4");
        assert_eq!(all(&intake), ["a4"]);
    }

    #[test]
    fn many_connections_of_a_user_have_the_turns_of_one() {
        let intake = Intake::default();
        for connection in 0..50 {
            intake.put(client(1, connection), "many");
            intake.put(client(1, connection), "many");
        }
        intake.put(client(2, 99), "few");
        intake.put(client(2, 99), "few");
        assert_eq!(all(&intake).get(..4), Some(["many", "few", "many", "few"].as_slice()));
    }

    #[test]
    fn the_managers_own_reports_have_every_second_turn() {
        let intake = Intake::default();
        for what in ["1", "2"] {
            intake.put(client(1, 1), what);
            intake.put(client(2, 2), what);
        }
        for what in ["x", "y", "z"] {
            intake.put(Source::Manager, what);
        }
        assert_eq!(all(&intake), ["x", "1", "y", "1", "z", "2", "2"]);
    }

    #[test]
    fn a_connection_that_ended_loses_its_messages_and_no_other() {
        let intake = Intake::default();
        intake.put(client(1, 1), "gone");
        intake.put(client(1, 2), "stays");
        intake.put(client(1, 1), "gone");
        assert!(!intake.take_messages_of(client(1, 1)).is_empty());
        assert_eq!(all(&intake), ["stays"]);
        assert!(intake.lock().clients.queues.is_empty() && intake.lock().clients.ring.is_empty());
    }

    fn timer(number: u64) -> TimerId {
        TimerId(number.try_into().unwrap())
    }

    fn named(TimerId(id): TimerId) -> &'static str {
        ["", "timer 1", "timer 2", "timer 3"].get(id.get() as usize).copied().unwrap_or_default()
    }

    #[test]
    fn timers_that_are_due_are_messages_of_the_manager() {
        let intake = Intake::<&'static str>::default();
        let at = Timestamp::from_secs;
        intake.put(client(1, 1), "work");
        intake.set_timer(timer(2), at(2.0));
        intake.set_timer(timer(1), at(1.0));
        intake.set_timer(timer(3), at(9.0));
        assert_eq!(intake.take(|| at(2.0), named), "timer 1");
        assert_eq!(all(&intake), ["work", "timer 2"]);
        assert_eq!(intake.take(|| at(9.0), named), "timer 3");
    }

    /// Takes a message in another thread, calls `act` when that thread sleeps, and returns the message. A thread that
    /// is not woken sleeps for half a minute, which is longer than the test waits.
    fn taken_after(
        intake: &Arc<Intake<&'static str>>,
        act: impl FnOnce(&Intake<&'static str>),
    ) -> &'static str {
        let deadline = Instant::now() + Duration::from_secs(20);
        let (sender, taken) = channel();
        let of_thread = Arc::clone(intake);
        std::thread::spawn(move || sender.send(of_thread.take(crate::clock::now, named)));
        while !intake.lock().asleep {
            assert!(Instant::now() < deadline, "the engine's thread does not sleep");
            std::thread::yield_now();
        }
        act(intake);
        taken.recv_timeout(Duration::from_secs(20)).expect("the engine's thread was not woken")
    }

    #[test]
    fn a_timer_wakes_the_engine_when_it_is_due() {
        let taken = taken_after(&Arc::default(), |intake| {
            let now = crate::clock::now();
            intake.set_timer(timer(2), now + 1e6);
            intake.set_timer(timer(1), now + 0.001);
        });
        assert_eq!(taken, "timer 1");
    }

    #[test]
    fn a_message_wakes_the_engine_and_a_closed_intake_takes_none() {
        let intake = Arc::default();
        let taken = taken_after(&intake, |intake| assert!(intake.put(client(1, 1), "work")));
        assert_eq!(taken, "work");
        intake.put(Source::Manager, "late");
        intake.close();
        assert!(!intake.put(Source::Manager, "later"));
        assert_eq!(intake.try_take(), None);
    }
}
