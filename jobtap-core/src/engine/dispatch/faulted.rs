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
use crate::job::Timestamp;

/// How many panics within [`PERIOD`] make a plugin faulted, unless
/// `job-manager.plugin-panic-limit` says otherwise.
const LIMIT: u64 = 3;

/// In seconds.
pub(crate) const PERIOD: f64 = 60.0;

/// How many panics within [`PERIOD`] are too many.
pub(crate) fn limit(config: &Value) -> u64 {
    let limit = config.pointer("/job-manager/plugin-panic-limit").and_then(Value::as_u64);
    limit.unwrap_or(LIMIT).max(1)
}

/// Adds a panic to those of the last period. Returns whether there are too many now.
pub(crate) fn is_too_often(times: &mut Vec<Timestamp>, now: Timestamp, limit: u64) -> bool {
    times.retain(|time| now - *time < PERIOD);
    times.push(now);
    times.len() as u64 >= limit
}

/// Counts a panic of a plugin, which is logged already, and faults the plugin if the limit is reached.
/// What it has open is closed as the next piece of work.
pub(crate) fn note_panic(core: &mut Core, key: PluginKey) {
    let limit = limit(&core.config);
    let now = core.clock.now;
    let Some(plugin) = core.plugins.stack.get(key).cloned() else {
        return;
    };
    let times = core.plugins.panics.entry(key).or_default();
    if !is_too_often(times, now, limit) || plugin.is_faulted() {
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
