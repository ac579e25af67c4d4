//! Timers: the engine's own and the plugins'. The outside only knows [`TimerId`]s.

use rustc_hash::FxHashMap;

use super::{Effect, Engine, TimerId};
use crate::host::{PluginKey, TimerKey, Work as RemoteWork};
use crate::job::{JobId, Timestamp};

/// What a timer is for.
#[derive(Debug)]
enum Due {
    /// A job's time is up.
    Expire(JobId),
    /// A job wants this signal before its time is up; void if that isn't `expiry` any more.
    Warn { job: JobId, signum: i32, expiry: TimerId },
    /// A simulated job has run as long as it should.
    Simulated(JobId),
    /// A maintenance of nodes is over.
    Maintenance,
    /// Time to look at what is over the limits.
    Heartbeat,
    /// A plugin asked to be called.
    Plugin(PluginKey, TimerKey, RemoteWork),
}

/// The timers that are set.
#[derive(Debug, Default)]
pub(super) struct Timers {
    next: u64,
    due: FxHashMap<TimerId, Due>,
    /// Plugins know theirs by these.
    by_key: FxHashMap<TimerKey, TimerId>,
}

impl Timers {
    /// Forgets a plugin's timer.
    pub(super) fn cancel(&mut self, key: TimerKey) {
        if let Some(id) = self.by_key.remove(&key) {
            self.due.remove(&id);
        }
    }

    /// Forgets all timers of plugins that are gone.
    pub(super) fn forget(&mut self, plugins: &[PluginKey]) {
        let by_key = &mut self.by_key;
        self.due.retain(|_, due| match due {
            Due::Plugin(plugin, key, _) if plugins.contains(plugin) => {
                by_key.remove(key);
                false
            }
            _ => true,
        });
    }
}

impl Engine {
    fn start_timer(&mut self, at: Timestamp, due: Due) -> TimerId {
        let id = TimerId(self.timers.next);
        self.timers.next += 1;
        self.timers.due.insert(id, due);
        self.effects.after.push(Effect::Timer { id, at });
        id
    }

    pub(super) fn expire_at(&mut self, job: JobId, at: Timestamp) -> TimerId {
        self.start_timer(at, Due::Expire(job))
    }

    pub(super) fn warn_at(&mut self, job: JobId, at: Timestamp, signum: i32, expiry: TimerId) {
        self.start_timer(at, Due::Warn { job, signum, expiry });
    }

    pub(super) fn simulate_until(&mut self, job: JobId, at: Timestamp) -> TimerId {
        self.start_timer(at, Due::Simulated(job))
    }

    pub(super) fn maintenance_until(&mut self, at: Timestamp) -> TimerId {
        self.start_timer(at, Due::Maintenance)
    }

    pub(super) fn heartbeat_at(&mut self, at: Timestamp) -> TimerId {
        self.start_timer(at, Due::Heartbeat)
    }

    pub(super) fn start_plugin_timer(
        &mut self,
        plugin: PluginKey,
        key: TimerKey,
        at: Timestamp,
        work: RemoteWork,
    ) {
        let id = self.start_timer(at, Due::Plugin(plugin, key, work));
        self.timers.by_key.insert(key, id);
    }

    /// Forgets one of the engine's own timers; when it fires it is no longer known.
    pub(super) fn stop_timer(&mut self, id: Option<TimerId>) {
        if let Some(id) = id {
            self.timers.due.remove(&id);
        }
    }

    /// [`Input::Timer`](super::Input::Timer).
    pub(super) fn timer(&mut self, id: TimerId) {
        match self.timers.due.remove(&id) {
            None => {}
            Some(Due::Expire(job)) => self.expire(job),
            Some(Due::Warn { job, signum, expiry }) => self.warn(job, signum, expiry),
            Some(Due::Simulated(job)) => self.simulated_end(job),
            Some(Due::Maintenance) => self.maintenance_over(),
            Some(Due::Heartbeat) => self.heartbeat(),
            Some(Due::Plugin(plugin, key, work)) => {
                self.timers.by_key.remove(&key);
                self.plugin_work(plugin, work);
            }
        }
    }
}
