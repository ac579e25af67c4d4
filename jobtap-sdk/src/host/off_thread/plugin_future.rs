//! Work that a host runs off its own thread.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::remote::{PluginKey, RemoteHandle};
use crate::host::careful::Careful;
use crate::host::command::Command;
use crate::job::JobId;

/// A future that the host runs for a plugin. Its polls are metered like callbacks: a poll that takes long delays
/// the other futures of the plugin.
pub struct PluginFuture {
    origin: Origin,
    remote: RemoteHandle,
    future: Careful<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// Whose work it is: `PLUGIN: TOPIC: job ID`.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The key of this load of the plugin.
    pub plugin: PluginKey,
    /// The plugin's name.
    pub name: Arc<str>,
    /// The topic of the asynchronous handler, or `spawn` for other futures.
    pub topic: &'static str,
    /// The job that it is about, if any.
    pub job: Option<JobId>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, topic, job, .. } = self;
        write!(f, "{name}: {topic}")?;
        job.iter().try_for_each(|job| write!(f, ": job {job}"))
    }
}

/// Polls shorter than this, in milliseconds, are not reported, whatever the budget.
const SHORT: u64 = 5;

/// The default time budget of a callback or a poll of a future, in milliseconds.
pub const TIME_BUDGET: u64 = 100;

/// The log message about a call or a poll that has taken longer than its budget. Both times are in milliseconds.
pub fn over_budget(what: impl fmt::Display, milliseconds: u64, budget: u64) -> String {
    let (took, budget) = (milliseconds as f64 / 1e3, budget as f64 / 1e3);
    format!("{what}: took {took} s, more than its budget of {budget} s")
}

impl PluginFuture {
    /// Wraps a future of this handle's plugin.
    pub fn new(
        remote: &RemoteHandle,
        topic: &'static str,
        job: Option<JobId>,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let (plugin, name) = (remote.plugin(), Arc::clone(remote.shared_name()));
        let origin = Origin { plugin, name, topic, job };
        Self { origin, remote: remote.clone(), future: Careful::new(Box::pin(future)) }
    }

    /// Whose work it is.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }
}

impl Future for PluginFuture {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { origin, remote, future } = self.get_mut();
        let begun = remote.ticks().precise();
        let polled = future.get_mut().map_or(Poll::Ready(()), |future| future.as_mut().poll(cx));
        let took = remote.ticks().precise().saturating_sub(begun);
        remote.polls().note(origin.topic, took);
        let milliseconds = took / 1_000_000;
        if milliseconds >= SHORT {
            let (topic, job) = (origin.topic, origin.job);
            // Only the manager knows the budget.
            remote.commands(vec![Command::PollTook { topic, job, milliseconds }]);
        }
        polled
    }
}

impl fmt::Debug for PluginFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PluginFuture").field(&self.origin).finish()
    }
}
