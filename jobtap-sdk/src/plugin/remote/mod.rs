//! Work outside the manager's thread that comes back to the plugin: timers, futures, threads,
//! processes and requests.

pub(super) mod blocking;
pub(super) mod bulk;
pub(super) mod handle;
pub(super) mod process;
pub(super) mod rpc;
pub(super) mod then;
pub(super) mod timers;
