//! Passes plugins' requests from the committing thread to the services.

use jobtap_core::host::{PluginKey, RpcCommand};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Passes on the requests. What plugins have under way is bounded where they are served.
pub(in crate::daemon) struct PluginRequests(UnboundedSender<(PluginKey, RpcCommand)>);

/// Where the requests come out.
pub(in crate::daemon) type Requested = UnboundedReceiver<(PluginKey, RpcCommand)>;

impl PluginRequests {
    /// Both ends.
    pub(in crate::daemon) fn new() -> (Self, Requested) {
        let (sender, requested) = unbounded_channel();
        (Self(sender), requested)
    }

    /// Passes on a command. This never waits.
    pub(in crate::daemon) fn send(&self, plugin: PluginKey, command: RpcCommand) {
        // Fails when the manager ends. The answer is dropped then, and the waiter gets `Gone`.
        let _ = self.0.send((plugin, command));
    }
}
