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

const KEY: &str = "job-manager.plugin-panic-limit";

/// How many panics within [`PERIOD`] are too many.
pub(crate) fn limit(config: &Value) -> u64 {
    // It was checked when the configuration came into force.
    read_limit(config).unwrap_or(LIMIT)
}

/// Reads the number from the configuration.
///
/// # Errors
/// It is no number from 1, with the key.
pub(crate) fn read_limit(config: &Value) -> Result<u64, String> {
    match config.pointer("/job-manager/plugin-panic-limit") {
        None => Ok(LIMIT),
        Some(limit) => limit
            .as_u64()
            .filter(|limit| *limit > 0)
            .ok_or_else(|| format!("{KEY}: must be a number from 1, not {limit}")),
    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_limit_that_is_no_number_from_1_is_refused() {
        let read =
            |limit: Value| read_limit(&json!({"job-manager": {"plugin-panic-limit": limit}}));
        assert_eq!((read_limit(&json!({})), read(json!(5))), (Ok(LIMIT), Ok(5)));
        for limit in [json!(0), json!(-3), json!("x"), json!(1.5)] {
            let wanted = format!("{KEY}: must be a number from 1, not {limit}");
            assert_eq!(read(limit), Err(wanted));
        }
    }
}
