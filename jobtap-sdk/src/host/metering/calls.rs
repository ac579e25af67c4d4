//! Which handler is being called now, for observers outside the manager's thread.
//!
//! A handler that blocks or loops stops the manager's thread, which then can't name the handler. So before each call
//! the host records the handler in memory that other threads can read. That costs only a few stores, since each handler
//! gets a number when its plugin is loaded.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;

use crate::job::JobId;

/// The callback that is under way; clones share it. A host has one in its [`Ticks`](crate::host::Ticks).
///
/// ```
/// use jobtap_core::host::Ticks;
///
/// let ticks = Ticks::default();
/// // On another thread, from time to time:
/// if let Some(call) = ticks.calls().present() {
///     println!("{}: has not returned yet", ticks.calls().describe(call));
/// }
/// ```
#[derive(Clone, Default)]
pub struct Calls(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// The number of the handler, and in the bits above it the count of its earlier calls, which distinguishes two
    /// calls of one handler; 0 if no handler is being called.
    handler: AtomicU64,
    /// The job that the call is about, 0 if there is none; valid only while a handler is being called.
    job: AtomicU64,
    /// The plugin and topic for each number.
    names: Mutex<Vec<String>>,
    /// The thread on which handlers are called.
    thread: OnceLock<ThreadId>,
}

/// The number of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::host) struct CallNumber(u64);

/// The number of bits in the number of a handler.
const NUMBER: u32 = 16;

/// A call that was under way at some moment. Another call of the same handler is not equal to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PresentCall {
    handler: u64,
    job: u64,
}

impl PresentCall {
    const NONE: Self = Self { handler: 0, job: 0 };
}

impl Calls {
    /// The call that is under way now, if any.
    pub fn present(&self) -> Option<PresentCall> {
        let present = self.now();
        (present.handler != 0).then_some(present)
    }

    /// The plugin, the topic and the job of a call: `deadline: job.validate: job ƒ2oM`.
    pub fn describe(&self, call: PresentCall) -> String {
        let PresentCall { handler, job } = call;
        let number = handler & ((1 << NUMBER) - 1);
        let index = usize::try_from(number).unwrap_or(0).wrapping_sub(1);
        let name = self.names().get(index).cloned().unwrap_or_default();
        match job {
            0 => name,
            job => format!("{name}: job {}", JobId::new(job)),
        }
    }

    /// Whether these are the calls of the same host.
    #[doc(hidden)]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Notes that handlers are called on this thread.
    pub fn set_thread(&self) {
        let _ = self.0.thread.set(std::thread::current().id());
    }

    /// Describes the call that is under way on this thread, if any: waiting here for the manager's thread would never
    /// end.
    pub(crate) fn on_this_thread(&self) -> Option<String> {
        let present = self.present()?;
        (self.0.thread.get() == Some(&std::thread::current().id())).then(|| self.describe(present))
    }

    /// The number of a handler of this plugin. The same names get the same number, so that reloading plugins uses up no
    /// numbers.
    pub(in crate::host) fn number(&self, plugin: &str, topic: &str) -> CallNumber {
        let name = format!("{plugin}: {topic}");
        let mut names = self.names();
        let index = names.iter().position(|known| *known == name).unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        // No manager has that many handlers. If one did, the rest would share the last number, and so its name.
        CallNumber((index as u64 + 1).min((1 << NUMBER) - 1))
    }

    #[doc(hidden)]
    #[inline]
    pub fn now(&self) -> PresentCall {
        PresentCall { handler: self.0.handler.load(Relaxed), job: self.0.job.load(Relaxed) }
    }

    /// Records a call of a handler, which has had `calls` calls before. Returns the call that it interrupts, since a
    /// handler may call an author's own topic.
    #[inline]
    pub(in crate::host) fn begin(
        &self,
        handler: CallNumber,
        calls: u64,
        job: Option<JobId>,
    ) -> PresentCall {
        let before = self.now();
        self.0.job.store(job.map_or(0, JobId::as_u64), Relaxed);
        self.0.handler.store((calls << NUMBER) | handler.0, Relaxed);
        before
    }

    /// Records that a call has returned and `before` goes on.
    #[doc(hidden)]
    #[inline]
    pub fn end(&self, before: PresentCall) {
        self.0.handler.store(before.handler, Relaxed);
        self.0.job.store(before.job, Relaxed);
    }

    /// A call as a test needs it.
    #[cfg(test)]
    fn present_of(&self, plugin: &str, topic: &str, calls: u64) -> PresentCall {
        let before = self.begin(self.number(plugin, topic), calls, None);
        let present = self.now();
        self.end(before);
        present
    }

    fn names(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let present = self.present().map(|call| self.describe(call));
        f.debug_struct("Calls").field("present", &present).finish_non_exhaustive()
    }
}

impl Default for PresentCall {
    fn default() -> Self {
        Self::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_named_until_it_is_over() {
        let calls = Calls::default();
        assert_eq!(calls.present(), None);
        let outer = calls.number("a", "job.validate");
        let inner = calls.number("b", "own");
        assert_eq!(calls.number("a", "job.validate"), outer);
        let id = JobId::new(7);
        let before = calls.begin(outer, 0, Some(id));
        let first = calls.present().unwrap();
        assert_eq!(calls.describe(first), format!("a: job.validate: job {id}"));
        let nested = calls.begin(inner, 70_000, None);
        assert_eq!(calls.describe(calls.present().unwrap()), "b: own");
        calls.end(nested);
        assert_eq!(calls.present(), Some(first));
        calls.end(before);
        assert_eq!(calls.present(), None);
    }

    #[test]
    fn two_calls_of_one_handler_are_told_apart() {
        let calls = Calls::default();
        let [first, second] = [1, 2].map(|count| calls.present_of("a", "job.new", count));
        assert_ne!(first, second);
        assert_eq!(calls.describe(first), calls.describe(second));
    }

    #[test]
    fn only_the_thread_of_the_handlers_waits_for_itself() {
        let calls = Calls::default();
        calls.set_thread();
        let number = calls.number("a", "job.new");
        assert_eq!(calls.on_this_thread(), None);
        calls.begin(number, 0, None);
        assert_eq!(calls.on_this_thread().as_deref(), Some("a: job.new"));
        let other = calls.clone();
        assert_eq!(std::thread::spawn(move || other.on_this_thread()).join().unwrap(), None);
    }
}
