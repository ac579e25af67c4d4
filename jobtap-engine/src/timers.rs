//! The timers of the engine and of plugins. Outside, a timer is only known by its [`TimerId`].

use std::num::NonZeroU64;

use rustc_hash::FxHashMap;

use super::api::{Effect, Effects, TimerId};
use crate::host::{PluginKey, RemoteWork, TimerKey};
use crate::job::{JobId, Timestamp};
use crate::jobspec::Warning;

/// What to do when a timer fires.
#[derive(Debug)]
pub(super) enum Due {
    /// End a job whose time is up.
    Expire(JobId),
    /// Send a job the signal that it wants before its time is up; not if `expiry` is no longer the
    /// timer of its end.
    Warn { job: JobId, warning: Warning, expiry: TimerId },
    /// End a simulated job.
    Simulated(JobId),
    /// Return nodes whose maintenance is over to the pool.
    MaintenanceEnd,
    /// Let the schedulers plan anew: a maintenance has come too near for a pending job.
    MaintenanceTooNear,
    /// Purge inactive jobs beyond the limits.
    Heartbeat,
    /// Call a plugin.
    Plugin(PluginKey, TimerKey, RemoteWork),
}

/// The timers that are set.
#[derive(Debug, Default)]
pub(super) struct Timers {
    last: u64,
    due: FxHashMap<TimerId, Due>,
    /// The timers of plugins by the keys that plugins know.
    by_key: FxHashMap<TimerKey, TimerId>,
}

impl Timers {
    /// Sets a timer.
    pub(super) fn start(&mut self, effects: &mut Effects, at: Timestamp, due: Due) -> TimerId {
        // No manager ever sets 2^64 timers.
        self.last = self.last.saturating_add(1);
        let id = TimerId(NonZeroU64::new(self.last).unwrap_or(NonZeroU64::MAX));
        if let Due::Plugin(_, key, _) = &due {
            self.by_key.insert(*key, id);
        }
        self.due.insert(id, due);
        effects.after.push(Effect::Timer { id, at });
        id
    }

    /// Cancels a timer of the engine. It still fires outside, but is ignored then, since it is no
    /// longer known.
    pub(super) fn stop(&mut self, id: Option<TimerId>) {
        if let Some(id) = id {
            self.due.remove(&id);
        }
    }

    /// Cancels a timer of a plugin.
    pub(super) fn stop_plugin_timer(&mut self, key: TimerKey) {
        if let Some(id) = self.by_key.remove(&key) {
            self.due.remove(&id);
        }
    }

    /// Cancels all timers of plugins that were removed.
    pub(super) fn stop_timers_of(&mut self, plugins: &[PluginKey]) {
        let by_key = &mut self.by_key;
        self.due.retain(|_, due| match due {
            Due::Plugin(plugin, key, _) if plugins.contains(plugin) => {
                by_key.remove(key);
                false
            }
            _ => true,
        });
    }

    /// Takes what is to be done now that a timer has fired; nothing if the timer was canceled.
    pub(super) fn fire(&mut self, id: TimerId) -> Option<Due> {
        let due = self.due.remove(&id)?;
        if let Due::Plugin(_, key, _) = &due {
            self.by_key.remove(key);
        }
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(timers: &mut Timers, due: Due) -> TimerId {
        timers.start(&mut Effects::default(), Timestamp::from_secs(1.0), due)
    }

    fn plugin(timers: &mut Timers, plugin: u64, key: u64) -> TimerId {
        let work = RemoteWork::Commands(Vec::new());
        start(timers, Due::Plugin(PluginKey(plugin), TimerKey(key), work))
    }

    #[test]
    fn a_timer_fires_once_and_not_after_it_was_stopped() {
        let mut timers = Timers::default();
        let (first, second) =
            (start(&mut timers, Due::Heartbeat), start(&mut timers, Due::MaintenanceEnd));
        timers.stop(Some(second));
        assert!(matches!(timers.fire(first), Some(Due::Heartbeat)));
        assert!(timers.fire(first).is_none());
        assert!(timers.fire(second).is_none());
    }

    #[test]
    fn the_timers_of_a_removed_plugin_do_not_fire() {
        let mut timers = Timers::default();
        let (own, other) = (plugin(&mut timers, 1, 10), plugin(&mut timers, 2, 11));
        timers.stop_timers_of(&[PluginKey(1)]);
        assert!(timers.fire(own).is_none());
        assert!(timers.fire(other).is_some());
    }

    #[test]
    fn a_plugin_stops_its_timer_by_its_key() {
        let mut timers = Timers::default();
        let timer = plugin(&mut timers, 1, 10);
        timers.stop_plugin_timer(TimerKey(10));
        assert!(timers.fire(timer).is_none());
    }
}
