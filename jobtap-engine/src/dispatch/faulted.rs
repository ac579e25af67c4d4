//! Takes plugins that keep panicking out of service; they stay in their places on the stack.
//!
//! One panic is a fault of one callback. Several in a short time mean that the plugin's own state
//! cannot be trusted any more. Such a plugin is *faulted* until it is loaded anew: its gates reject,
//! since a fault must never open a gate; its other topics are skipped; its open prologs and epilogs
//! end with an exception. Dependencies and priorities that the plugin has yet to settle stay
//! unsettled: a broken policy lets no job pass.

use serde_json::Value;

use super::buffer::Panicked;
use crate::agenda::Work;
use crate::api::Level;
use crate::host::PluginKey;
use crate::job::Timestamp;
use crate::plugins::{DEFAULT_PANIC_LIMIT, Plugins};
use crate::turn::Turn;

/// The period in which panics are counted, in seconds.
pub(crate) const PERIOD: f64 = 60.0;

const KEY: &str = "job-manager.plugin-panic-limit";

/// The value of `job-manager.plugin-panic-limit` is not an integer from 1.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{KEY}: must be a number from 1, not {0}")]
pub(crate) struct PanicLimitError(Value);

/// Applies `job-manager.plugin-panic-limit` from the configuration.
pub(crate) fn read_limit(plugins: &mut Plugins, config: &Value) -> Result<(), PanicLimitError> {
    plugins.panic_limit = limit(config)?;
    Ok(())
}

fn limit(config: &Value) -> Result<u64, PanicLimitError> {
    match config.pointer("/job-manager/plugin-panic-limit") {
        None => Ok(DEFAULT_PANIC_LIMIT),
        Some(limit) => {
            limit.as_u64().filter(|limit| *limit > 0).ok_or_else(|| PanicLimitError(limit.clone()))
        }
    }
}

/// Adds a panic to those of the last period. Returns whether there are too many now.
pub(crate) fn record_panic(times: &mut Vec<Timestamp>, now: Timestamp, limit: u64) -> bool {
    times.retain(|time| now - *time < PERIOD);
    times.push(now);
    times.len() as u64 >= limit
}

/// Counts a panic of a plugin, which is logged already, and faults the plugin if the limit is reached.
/// What it has open is closed as the next piece of work.
pub(crate) fn note_panic(turn: &mut Turn, plugins: &mut Plugins, key: PluginKey) {
    let limit = plugins.panic_limit;
    let now = turn.clock.now;
    let Some(plugin) = plugins.stack.get(key).cloned() else {
        return;
    };
    let times = plugins.panics.entry(key).or_default();
    if !record_panic(times, now, limit) || plugin.is_faulted() {
        return;
    }
    plugin.set_faulted();
    let name = plugin.name();
    turn.effects.log(
        Level::Error,
        format!(
            "{name}: faulted after {limit} panics within {PERIOD} s: its gates reject and its other \
             topics are skipped until it is removed and loaded again"
        ),
    );
    turn.agenda.push(Work::CloseFaulted(key));
}

/// Logs and counts the panics of plugins whose topics another plugin called.
pub(crate) fn note_panics(turn: &mut Turn, plugins: &mut Plugins, panicked: Panicked) {
    for (plugin, text) in panicked {
        let name = plugins.name(plugin);
        turn.effects.log(Level::Error, format!("{name}: panicked: {text}"));
        note_panic(turn, plugins, plugin);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_limit_that_is_no_number_from_1_is_refused() {
        let read = |value: Value| limit(&json!({"job-manager": {"plugin-panic-limit": value}}));
        assert_eq!((limit(&json!({})), read(json!(5))), (Ok(DEFAULT_PANIC_LIMIT), Ok(5)));
        for value in [json!(0), json!(-3), json!("x"), json!(1.5)] {
            let wanted = format!("{KEY}: must be a number from 1, not {value}");
            assert_eq!(read(value).unwrap_err().to_string(), wanted);
        }
    }
}
