//! Plugins that keep panicking are taken out of service, in their place.
//!
//! One panic is a bug in one callback. Several in a short time mean that the plugin's own state can't
//! be trusted any more. Such a plugin is *faulted* until it is loaded anew: its gates reject, since a
//! gate must never open by a fault; its other topics are skipped; its open prologs and epilogs end
//! with an exception. Dependencies and priorities that it owes stay owed: no job gets past a policy
//! because the policy is broken.

use std::sync::Arc;

use serde_json::Value;

use super::{Engine, Level};
use crate::host::PluginKey;
use crate::job::{JobId, Timestamp};

/// Panics within [`PERIOD`] that make a plugin faulted, unless
/// `job-manager.plugin-panic-limit` says otherwise.
const LIMIT: u64 = 3;

/// In seconds.
const PERIOD: f64 = 60.0;

/// How a plugin has behaved so far.
#[derive(Debug, Default)]
pub(super) struct Conduct {
    /// Times of its panics within the last period.
    panics: Vec<Timestamp>,
}

impl Engine {
    /// Notes a panic of a plugin, already logged, and faults the plugin when it was one too many.
    pub(super) fn note_panic(&mut self, key: PluginKey) {
        let limit = self.config.pointer("/job-manager/plugin-panic-limit").and_then(Value::as_u64);
        let limit = limit.unwrap_or(LIMIT).max(1);
        let now = self.now;
        let Some(plugin) = self.plugins.stack.get(key).cloned() else {
            return;
        };
        let conduct = self.plugins.conducts.entry(key).or_default();
        conduct.panics.retain(|time| now - *time < PERIOD);
        conduct.panics.push(now);
        if plugin.is_faulted() || (conduct.panics.len() as u64) < limit {
            return;
        }
        plugin.set_faulted();
        let name = Arc::clone(plugin.name());
        self.log(
            Level::Error,
            format!(
                "{name}: faulted after {limit} panics within {PERIOD} s: its gates reject and its \
                 other topics are skipped until it is removed and loaded again"
            ),
        );
        self.timers.forget(&[key]);
        let gone = [(key, name)];
        self.refuse_awaiting(&gone, "failed");
        self.refuse_services(&gone);
        self.kill_processes(&[key]);
        self.give_back_all(&[key]);
        let jobs: Vec<JobId> = self.active.iter().copied().collect();
        for id in jobs {
            self.abort_work(id, &[key]);
            self.fail_opened(id, &[key]);
        }
    }

    /// Logs and notes the panics of plugins whose topics another one called.
    pub(super) fn note_panics(&mut self, panicked: Vec<(PluginKey, String)>) {
        for (plugin, text) in panicked {
            let name = self.plugins.name(plugin);
            self.log(Level::Error, format!("{name}: panicked: {text}"));
            self.note_panic(plugin);
        }
    }
}
