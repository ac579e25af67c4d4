//! The way back: from timers and from work outside the manager's thread to the plugin.
//!
//! Plugins live on the manager's one thread. A [`Remote`] is the `Send` handle that brings a
//! closure back to it.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use super::call::{Args, Call};
use super::cx::Cx;
use super::host::Command;
use crate::job::Timestamp;
use crate::topic::Later;

/// Names one loading of one plugin; what comes back for an earlier one is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PluginKey(pub u64);

/// Names a plugin's timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TimerKey(pub u64);

/// Takes what comes back and hands it to the manager's thread.
///
/// The daemon's puts it into the engine's channel, the test kit's into a queue.
pub trait RemoteSink: Send + Sync {
    /// Hands over; never blocks. What comes after the manager's end is dropped.
    fn send(&self, call: RemoteCall);
}

/// Something that came back for a plugin.
#[derive(Debug)]
pub struct RemoteCall {
    /// For which one.
    pub plugin: PluginKey,
    /// What.
    pub work: Work,
}

/// A closure for a plugin's instance, which it finds behind `dyn Any`.
pub type LaterCall = Box<dyn FnOnce(&mut dyn Any, Args<'_>) + Send>;

/// What is to be done on the manager's thread.
pub enum Work {
    /// Call into the plugin.
    Call(LaterCall),
    /// Do what a handler could have asked for.
    Commands(Vec<Command>),
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Work::Call(_) => f.write_str("Call"),
            Work::Commands(commands) => f.debug_tuple("Commands").field(commands).finish(),
        }
    }
}

/// [`Remote`] before the plugin's type is known.
#[derive(Clone)]
pub struct RemoteHandle {
    plugin: PluginKey,
    name: Arc<str>,
    sink: Arc<dyn RemoteSink>,
}

impl RemoteHandle {
    /// A handle for this loading of the plugin.
    pub fn new(plugin: PluginKey, name: Arc<str>, sink: Arc<dyn RemoteSink>) -> Self {
        Self { plugin, name, sink }
    }

    /// The plugin's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn commands(&self, commands: Vec<Command>) {
        self.work(Work::Commands(commands));
    }

    fn work(&self, work: Work) {
        self.sink.send(RemoteCall {
            plugin: self.plugin,
            work,
        });
    }
}

impl fmt::Debug for RemoteHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteHandle")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A `Send` handle to plugin `P` on the manager's thread.
///
/// A handler takes it as a parameter: `remote: Remote<Self>`.
pub struct Remote<P> {
    handle: RemoteHandle,
    plugin: PhantomData<fn(P)>,
}

impl<P> Clone for Remote<P> {
    fn clone(&self) -> Self {
        Self {
            handle: self.handle.clone(),
            plugin: PhantomData,
        }
    }
}

/// The plugin was unloaded, or the manager stopped, before the answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the plugin was unloaded or the manager stopped")]
pub struct Gone;

impl<P: 'static> Remote<P> {
    pub(crate) fn new(handle: RemoteHandle) -> Self {
        Self {
            handle,
            plugin: PhantomData,
        }
    }

    /// Runs `work` with the plugin on the manager's thread, some time soon.
    pub fn run(&self, work: impl FnOnce(&mut P, Cx<'_, Later>) + Send + 'static) {
        self.handle.work(call(work));
    }

    /// Runs `work` with the plugin on the manager's thread and waits for what it returns.
    ///
    /// # Errors
    /// [`Gone`] when that can't happen any more.
    pub async fn call<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut P, Cx<'_, Later>) -> R + Send + 'static,
    ) -> Result<R, Gone> {
        let (answer, waiting) = oneshot();
        self.run(move |plugin, cx| answer.send(work(plugin, cx)));
        waiting.await
    }

    /// Runs `work` with the plugin at a time. A time in the past is due at once.
    pub fn at(
        &self,
        when: Timestamp,
        work: impl FnOnce(&mut P, Cx<'_, Later>) + Send + 'static,
    ) -> Timer {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let key = TimerKey(NEXT.fetch_add(1, Ordering::Relaxed));
        self.handle.commands(vec![Command::StartTimer {
            key,
            at: when,
            work: call(work),
        }]);
        Timer {
            key,
            handle: self.handle.clone(),
        }
    }

    /// Waits, in the host's time. In tests that time is virtual.
    ///
    /// # Errors
    /// [`Gone`] when the plugin was unloaded meanwhile.
    pub async fn sleep(&self, seconds: f64) -> Result<(), Gone> {
        let (answer, waiting) = oneshot();
        let remote = self.clone();
        self.run(move |_, cx| {
            remote.at(cx.now() + seconds, move |_, _| answer.send(()));
        });
        waiting.await
    }
}

fn call<P: 'static>(work: impl FnOnce(&mut P, Cx<'_, Later>) + Send + 'static) -> Work {
    Work::Call(Box::new(move |plugin, args| {
        if let Some(plugin) = plugin.downcast_mut::<P>() {
            work(plugin, Cx::new(Call::new(args)));
        }
    }))
}

/// A timer of a plugin. It goes on when this handle is dropped, and ends with the plugin.
#[derive(Debug, Clone)]
pub struct Timer {
    key: TimerKey,
    handle: RemoteHandle,
}

impl Timer {
    /// Stops it; no effect once it has fired.
    pub fn cancel(self) {
        self.handle
            .commands(vec![Command::CancelTimer { key: self.key }]);
    }
}

/// One value from the manager's thread to a waiting future, without an async runtime.
fn oneshot<R>() -> (Answer<R>, Waiting<R>) {
    let shared = Arc::new(Mutex::new(Slot {
        value: None,
        closed: false,
        waker: None,
    }));
    (Answer(Arc::clone(&shared)), Waiting(shared))
}

struct Slot<R> {
    value: Option<R>,
    closed: bool,
    waker: Option<Waker>,
}

struct Answer<R>(Arc<Mutex<Slot<R>>>);

impl<R> Answer<R> {
    fn send(self, value: R) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).value = Some(value);
    }
}

impl<R> Drop for Answer<R> {
    fn drop(&mut self) {
        let waker = {
            let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            slot.closed = true;
            slot.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

struct Waiting<R>(Arc<Mutex<Slot<R>>>);

impl<R> Future for Waiting<R> {
    type Output = Result<R, Gone>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = slot.value.take() {
            return Poll::Ready(Ok(value));
        }
        if slot.closed {
            return Poll::Ready(Err(Gone));
        }
        slot.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}
