//! Plugins that keep panicking are taken out of service, in their place.
//!
//! One panic is a fault of one callback. Several in a short time mean that the plugin's own state
//! cannot be trusted any more. Such a plugin is *faulted* until it is loaded anew: its gates reject,
//! since a fault must never open a gate; its other topics are skipped; its open prologs and epilogs
//! end with an exception. Dependencies and priorities that the plugin has still to settle stay
//! unsettled: no job passes a policy because the policy is broken.

use serde_json::Value;

use super::buffer::Panicked;
use crate::engine::agenda::Work;
use crate::engine::api::Level;
use crate::engine::core::Core;
use crate::host::PluginKey;

/// How many panics within [`PERIOD`] make a plugin faulted, unless
/// `job-manager.plugin-panic-limit` says otherwise.
const LIMIT: u64 = 3;

/// In seconds.
const PERIOD: f64 = 60.0;

/// Counts a panic of a plugin, which is logged already, and faults the plugin if the limit is reached.
/// What it has open is closed as the next piece of work.
pub(crate) fn note_panic(core: &mut Core, key: PluginKey) {
    let limit = core.config.pointer("/job-manager/plugin-panic-limit").and_then(Value::as_u64);
    let limit = limit.unwrap_or(LIMIT).max(1);
    let now = core.clock.now;
    let Some(plugin) = core.plugins.stack.get(key).cloned() else {
        return;
    };
    let times = core.plugins.panics.entry(key).or_default();
    times.retain(|time| now - *time < PERIOD);
    times.push(now);
    if plugin.is_faulted() || (times.len() as u64) < limit {
        return;
    }
    plugin.set_faulted();
    let name = plugin.name();
    core.log(
        Level::Error,
        format!(
            "{name}: faulted after {limit} panics within {PERIOD} s: its gates reject and its other \
             topics are skipped until it is removed and loaded again"
        ),
    );
    core.agenda.push(Work::CloseFaulted(key));
}

/// Logs and counts the panics of plugins whose topics another plugin called.
pub(crate) fn note_panics(core: &mut Core, panicked: Panicked) {
    for (plugin, text) in panicked {
        let name = core.plugins.name(plugin);
        core.log(Level::Error, format!("{name}: panicked: {text}"));
        note_panic(core, plugin);
    }
}
