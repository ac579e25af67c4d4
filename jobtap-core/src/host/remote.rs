//! The way back from outside the manager's thread: a `Send` handle that brings work to one loading
//! of one plugin.

use std::fmt;
use std::sync::Arc;

use super::command::{Command, TimerKey, Work};
use crate::job::Timestamp;

/// Names one loading of one plugin; what comes back for an earlier one is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PluginKey(pub u64);

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

/// [`Remote`](crate::plugin::Remote) before the plugin's type is known.
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

    /// Which loading of the plugin it leads to.
    pub fn plugin(&self) -> PluginKey {
        self.plugin
    }

    pub(super) fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn commands(&self, commands: Vec<Command>) {
        self.work(Work::Commands(commands));
    }

    /// Calls `work` after a while in the host's time; `due` is told before when that is.
    pub(crate) fn after(
        &self,
        seconds: f64,
        due: impl FnOnce(Timestamp) + Send + 'static,
        work: impl FnOnce() + Send + 'static,
    ) -> TimerKey {
        let key = TimerKey::next();
        self.work(Work::Call(Box::new(move |_, args| {
            let at = args.host.now() + seconds;
            due(at);
            let work = Work::Call(Box::new(move |_, _| work()));
            args.host.push(Command::StartTimer { key, at, work });
        })));
        key
    }

    pub(crate) fn work(&self, work: Work) {
        self.sink.send(RemoteCall { plugin: self.plugin, work });
    }
}

impl fmt::Debug for RemoteHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteHandle").field("name", &self.name).finish_non_exhaustive()
    }
}
