//! A command that waits to be carried out.

use jobtap_core::host::{Command, PluginKey};

/// A command, and the plugin that asked for it.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) plugin: PluginKey,
    pub(super) command: Command,
}
