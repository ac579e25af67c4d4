//! The timers of the engine and of plugins. Outside, a timer is only known by its [`TimerId`].

use std::num::NonZeroU64;

use rustc_hash::FxHashMap;

use super::api::{Effect, Effects, TimerId};
use crate::host::{PluginKey, RemoteWork, TimerDue, TimerKey};
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
    /// Take back the jobs that were handed over behind jobs that run for long.
    SlowLines,
    /// Try again an element of an array that was refused.
    RefusedElements,
    /// Purge inactive jobs beyond the limits.
    Heartbeat,
    /// Ask plugins which allocations are asked for and given back.
    AllocationPlan,
    /// Call a plugin.
    Plugin(PluginKey, TimerKey, RemoteWork),
}

/// A timer that is set.
#[derive(Debug)]
struct Set {
    due: Due,
    /// For a timer that counts seconds: the time at which these have passed. When the clock goes forward, it moves, and
    /// the host's timer fires for the first time before it.
    passed: Option<Timestamp>,
}

/// The timers that are set.
#[derive(Debug, Default)]
pub(super) struct Timers {
    last: u64,
    set: FxHashMap<TimerId, Set>,
    /// The timers of plugins by the keys that plugins know.
    by_key: FxHashMap<TimerKey, TimerId>,
}

impl Timers {
    /// Sets a timer.
    pub(super) fn start(&mut self, effects: &mut Effects, at: Timestamp, due: Due) -> TimerId {
        self.set(effects, at, Set { due, passed: None })
    }

    /// Sets a timer of a plugin.
    pub(super) fn start_for(
        &mut self,
        effects: &mut Effects,
        now: Timestamp,
        plugin: PluginKey,
        (key, due, work): (TimerKey, TimerDue, RemoteWork),
    ) {
        let at = due.by_clock(now);
        let passed = matches!(due, TimerDue::After(_)).then_some(at);
        let id = self.set(effects, at, Set { due: Due::Plugin(plugin, key, work), passed });
        self.by_key.insert(key, id);
    }

    fn set(&mut self, effects: &mut Effects, at: Timestamp, set: Set) -> TimerId {
        // No manager ever sets 2^64 timers.
        self.last = self.last.saturating_add(1);
        let id = TimerId(NonZeroU64::new(self.last).unwrap_or(NonZeroU64::MAX));
        self.set.insert(id, set);
        effects.after.push(Effect::Timer { id, at });
        id
    }

    /// The clock went forward by so many seconds, which have not passed.
    pub(super) fn went_forward(&mut self, effects: &mut Effects, by: f64) {
        for (id, set) in &mut self.set {
            if let Some(passed) = &mut set.passed {
                *passed += by;
                effects.after.push(Effect::Timer { id: *id, at: *passed });
            }
        }
    }

    /// Cancels a timer of the engine. It still fires outside, but is ignored then, since it is no
    /// longer known.
    pub(super) fn stop(&mut self, id: Option<TimerId>) {
        if let Some(id) = id {
            self.set.remove(&id);
        }
    }

    /// Cancels a timer of a plugin.
    pub(super) fn stop_plugin_timer(&mut self, key: TimerKey) {
        if let Some(id) = self.by_key.remove(&key) {
            self.set.remove(&id);
        }
    }

    /// Cancels all timers of plugins that were removed.
    pub(super) fn stop_timers_of(&mut self, plugins: &[PluginKey]) {
        let by_key = &mut self.by_key;
        self.set.retain(|_, set| match &set.due {
            Due::Plugin(plugin, key, _) if plugins.contains(plugin) => {
                by_key.remove(key);
                false
            }
            _ => true,
        });
    }

    /// Takes what is to be done now that a timer has fired; nothing if the timer was canceled or has moved.
    pub(super) fn fire(&mut self, id: TimerId, now: Timestamp) -> Option<Due> {
        if self.set.get(&id)?.passed.is_some_and(|passed| now < passed) {
            return None;
        }
        let due = self.set.remove(&id)?.due;
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

    fn at(seconds: f64) -> Timestamp {
        Timestamp::from_secs(seconds)
    }

    /// Sets a plugin's timer at the time 1.
    fn plugin(timers: &mut Timers, plugin: u64, key: u64, due: TimerDue) -> TimerId {
        let mut effects = Effects::default();
        let work = RemoteWork::Commands(Vec::new());
        timers.start_for(&mut effects, at(1.0), PluginKey(plugin), (TimerKey(key), due, work));
        let [Effect::Timer { id, .. }] = effects.after[..] else { panic!("{:?}", effects.after) };
        id
    }

    #[test]
    fn a_timer_fires_once_and_not_after_it_was_stopped() {
        let mut timers = Timers::default();
        let (first, second) =
            (start(&mut timers, Due::Heartbeat), start(&mut timers, Due::MaintenanceEnd));
        timers.stop(Some(second));
        assert!(matches!(timers.fire(first, at(2.0)), Some(Due::Heartbeat)));
        assert!(timers.fire(first, at(2.0)).is_none());
        assert!(timers.fire(second, at(2.0)).is_none());
    }

    #[test]
    fn the_timers_of_a_removed_plugin_do_not_fire() {
        let mut timers = Timers::default();
        let (own, other) = (
            plugin(&mut timers, 1, 10, TimerDue::After(1.0)),
            plugin(&mut timers, 2, 11, TimerDue::After(1.0)),
        );
        timers.stop_timers_of(&[PluginKey(1)]);
        assert!(timers.fire(own, at(2.0)).is_none());
        assert!(timers.fire(other, at(2.0)).is_some());
    }

    #[test]
    fn a_plugin_stops_its_timer_by_its_key() {
        let mut timers = Timers::default();
        let timer = plugin(&mut timers, 1, 10, TimerDue::After(1.0));
        timers.stop_plugin_timer(TimerKey(10));
        assert!(timers.fire(timer, at(2.0)).is_none());
    }

    #[test]
    fn seconds_that_a_clock_skipped_have_not_passed() {
        let mut timers = Timers::default();
        let by_clock = plugin(&mut timers, 1, 10, TimerDue::At(at(61.0)));
        let counted = plugin(&mut timers, 1, 11, TimerDue::After(60.0));
        let mut effects = Effects::default();
        timers.went_forward(&mut effects, 3600.0);
        assert!(timers.fire(by_clock, at(3601.0)).is_some());
        // The host's first timer fires, and does nothing.
        assert!(timers.fire(counted, at(3601.0)).is_none());
        assert!(
            matches!(effects.after[..], [Effect::Timer { id, at }] if id == counted && at.as_secs() == 3661.0)
        );
        assert!(timers.fire(counted, at(3661.0)).is_some());
    }
}
