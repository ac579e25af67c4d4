//! Work for a plugin from outside the manager's thread.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::host::command::{Command, RemoteWork, TimerDue, TimerKey};
use crate::host::metering::meter::{Polls, Ticks};
use crate::job::Timestamp;

/// Identifies one load of a plugin. A plugin that is loaded again gets another key, so that work for its
/// earlier instance is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PluginKey(pub u64);

/// Passes work to the manager's thread; implemented by each host.
///
/// The daemon's implementation sends it to the engine's channel; hosts with one thread have a [`RemoteQueue`].
pub trait RemoteSink: Send + Sync {
    /// Passes on the work. It must not block. After the manager has stopped the work is dropped.
    fn send(&self, call: RemoteCall);
}

/// The sink of a host where nothing returns to plugins. It drops the work.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoReturn;

impl RemoteSink for NoReturn {
    fn send(&self, _: RemoteCall) {}
}

/// The sink of a host with one thread: a queue, from which the host takes the work later.
#[derive(Debug, Default)]
pub struct RemoteQueue(Mutex<VecDeque<RemoteCall>>);

impl RemoteQueue {
    /// Takes the oldest work.
    pub fn pop(&self) -> Option<RemoteCall> {
        self.calls().pop_front()
    }

    /// Whether there is no work.
    pub fn is_empty(&self) -> bool {
        self.calls().is_empty()
    }

    /// Drops all work. A host calls it at its end, since the work may own handles that refer to this queue.
    pub fn clear(&self) {
        let lost = std::mem::take(&mut *self.calls());
        // Dropped without the lock, since that may pass on more work.
        drop(lost);
    }

    fn calls(&self) -> MutexGuard<'_, VecDeque<RemoteCall>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RemoteSink for RemoteQueue {
    fn send(&self, call: RemoteCall) {
        self.calls().push_back(call);
    }
}

/// Work for a plugin.
#[derive(Debug)]
pub struct RemoteCall {
    /// The plugin.
    pub plugin: PluginKey,
    /// The work.
    pub work: RemoteWork,
}

/// A [`Remote`](crate::plugin::Remote) without the type of the plugin.
#[derive(Clone)]
pub struct RemoteHandle {
    plugin: PluginKey,
    name: Arc<str>,
    sink: Arc<dyn RemoteSink>,
    ticks: Ticks,
    polls: Arc<Polls>,
}

impl RemoteHandle {
    /// A handle for this load of the plugin.
    pub fn new(plugin: PluginKey, name: Arc<str>, sink: Arc<dyn RemoteSink>) -> Self {
        Self { plugin, name, sink, ticks: Ticks::default(), polls: Arc::default() }
    }

    /// Returns the handle with the clocks that meter the plugin's calls and futures.
    #[must_use]
    pub fn metered(self, ticks: Ticks) -> Self {
        Self { ticks, ..self }
    }

    pub(in crate::host) fn ticks(&self) -> &Ticks {
        &self.ticks
    }

    pub(in crate::host) fn polls(&self) -> &Polls {
        &self.polls
    }

    /// Waits for a result that comes through the manager's thread.
    ///
    /// # Panics
    /// If called on that thread, in a handler, where the wait would never end. The panic ends the handler like
    /// any other, and its message names the handler.
    pub(crate) async fn wait<F: Future>(&self, what: F) -> F::Output {
        let mut what = pin!(what);
        poll_fn(|cx| {
            let polled = what.as_mut().poll(cx);
            if polled.is_pending()
                && let Some(call) = self.ticks.calls().on_this_thread()
            {
                waits_for_itself(&call);
            }
            polled
        })
        .await
    }

    /// The plugin's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The key of this load of the plugin.
    pub fn plugin(&self) -> PluginKey {
        self.plugin
    }

    pub(crate) fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn commands(&self, commands: Vec<Command>) {
        self.work(RemoteWork::Commands(commands));
    }

    /// Calls `work` after some seconds of the host's time. Before, it calls `due` with the time at which that
    /// will happen.
    pub(crate) fn after(
        &self,
        seconds: f64,
        due: impl FnOnce(Timestamp) + Send + 'static,
        work: impl FnOnce() + Send + 'static,
    ) -> TimerKey {
        let key = TimerKey::next();
        // Two steps, since only the manager's thread knows the host's time.
        self.work(RemoteWork::Call(Box::new(move |_, args| {
            let at = args.host.now() + seconds;
            due(at);
            let work = RemoteWork::Call(Box::new(move |_, _| work()));
            args.host.push(Command::StartTimer { key, due: TimerDue::After(seconds), work });
        })));
        key
    }

    pub(crate) fn work(&self, work: RemoteWork) {
        self.sink.send(RemoteCall { plugin: self.plugin, work });
    }
}

#[cold]
#[allow(clippy::panic, reason = "a handler that goes on would stop the manager")]
fn waits_for_itself(call: &str) -> ! {
    panic!(
        "{call}: the handler waits for the manager's thread, on which it is called itself, and would never return: \
         make it `async` and `.await` there, or take the result in a closure of `Remote`"
    )
}

impl fmt::Debug for RemoteHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteHandle").field("name", &self.name).finish_non_exhaustive()
    }
}
