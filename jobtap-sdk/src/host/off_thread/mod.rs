//! Work of plugins that a host runs off its own thread, and the way back from there.

pub(crate) mod blocking;
pub(super) mod plugin_future;
pub(crate) mod process;
pub(super) mod remote;
pub(crate) mod rpc;
