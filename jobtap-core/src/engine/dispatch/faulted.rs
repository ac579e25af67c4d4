//! Plugins that keep panicking are taken out of service, in their place.
//!
//! One panic is a fault of one callback. Several in a short time mean that the plugin's own state
//! cannot be trusted any more. Such a plugin is *faulted* until it is loaded anew: its gates reject,
//! since a fault must never open a gate; its other topics are skipped; its open prologs and epilogs
//! end with an exception. Dependencies and priorities that the plugin has still to settle stay
//! unsettled: no job passes a policy because the policy is broken.

use std::sync::Arc;

use serde_json::Value;

use super::buffer::Panicked;
use super::{async_work, commands};
use crate::engine::alloc::retained;
use crate::engine::api::Level;
use crate::engine::core::Core;
use crate::host::PluginKey;
use crate::job::{JobId, Timestamp};

/// How many panics within [`PERIOD`] make a plugin faulted, unless
/// `job-manager.plugin-panic-limit` says otherwise.
const LIMIT: u64 = 3;

/// In seconds.
const PERIOD: f64 = 60.0;

/// The times of a plugin's panics within the last period.
#[derive(Debug, Default)]
pub(in crate::engine) struct Panics(Vec<Timestamp>);

/// Counts a panic of a plugin, which is logged already, and faults the plugin if the limit is reached.
pub(in crate::engine) fn note_panic(core: &mut Core, key: PluginKey) {
    let limit = core.config.pointer("/job-manager/plugin-panic-limit").and_then(Value::as_u64);
    let limit = limit.unwrap_or(LIMIT).max(1);
    let now = core.clock.now;
    let Some(plugin) = core.plugins.stack.get(key).cloned() else {
        return;
    };
    let Panics(times) = core.plugins.panics.entry(key).or_default();
    times.retain(|time| now - *time < PERIOD);
    times.push(now);
    if plugin.is_faulted() || (times.len() as u64) < limit {
        return;
    }
    plugin.set_faulted();
    let name = Arc::clone(plugin.name());
    core.log(
        Level::Error,
        format!(
            "{name}: faulted after {limit} panics within {PERIOD} s: its gates reject and its other \
             topics are skipped until it is removed and loaded again"
        ),
    );
    let gone = [(key, name)];
    core.timers.stop_timers_of(&[key]);
    core.plugins.refuse_awaited(&mut core.agenda, &gone, "failed");
    core.plugins.refuse_requests(&mut core.effects, &gone);
    async_work::kill_processes(&mut core.effects, &[key]);
    retained::free_all_of(core, &[key]);
    let jobs: Vec<JobId> = core.jobs.active.iter().copied().collect();
    for id in jobs {
        async_work::abort_of(&mut core.jobs, id, &[key]);
        commands::fail_perilogs_of(core, id, &[key]);
    }
}

/// Logs and counts the panics of plugins whose topics another plugin called.
pub(in crate::engine) fn note_panics(core: &mut Core, panicked: Panicked) {
    for (plugin, text) in panicked {
        let name = core.plugins.name(plugin);
        core.log(Level::Error, format!("{name}: panicked: {text}"));
        note_panic(core, plugin);
    }
}
