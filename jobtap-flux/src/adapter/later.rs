//! Timers, work that comes back to a plugin, and asynchronous handlers.

use std::collections::BTreeMap;
use std::rc::Rc;

use jobtap_core::host::{
    JobWork, PluginFuture, PluginKey, RemoteCall, RemoteWork, TimerDue, TimerKey,
};
use jobtap_core::job::Timestamp;

use super::Adapter;
use super::queued::Queued;
use crate::flux::Flux;

/// The timers of all plugins, ordered by time.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeMap<(Due, TimerKey), (PluginKey, RemoteWork)>);

/// A time as an integer with the same order. Times are never negative, so their bits are ordered like the times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Due(u64);

impl Due {
    fn new(at: f64) -> Self {
        Self(at.max(0.0).to_bits())
    }

    fn seconds(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl Timers {
    pub(super) fn cancel(&mut self, key: TimerKey) {
        // A linear search is enough: plugins have few timers and cancel even fewer.
        let found = self.0.keys().find(|(_, of)| *of == key).copied();
        if let Some(found) = found {
            self.0.remove(&found);
        }
    }

    pub(super) fn cancel_all_of(&mut self, plugin: PluginKey) {
        self.0.retain(|_, (of, _)| *of != plugin);
    }

    fn next(&self) -> Option<Due> {
        self.0.keys().next().map(|(due, _)| *due)
    }

    /// Removes and returns the next timer if it is due.
    fn take_due(&mut self, now: f64) -> Option<(PluginKey, RemoteWork)> {
        let due = self.next()?;
        // By the reactor's clock, a timer may fire slightly before its time, but by less than this.
        const TOLERANCE: f64 = 1e-3;
        match due.seconds() <= now + TOLERANCE {
            true => self.0.pop_first().map(|(_, work)| work),
            false => None,
        }
    }
}

impl<F: Flux> Adapter<F> {
    pub(super) fn start_timer(
        &self,
        plugin: PluginKey,
        key: TimerKey,
        due: TimerDue,
        work: RemoteWork,
    ) {
        let is_first = {
            let mut timers = self.timers.borrow_mut();
            let due = Due::new(due.by_clock(Timestamp::from_secs(self.flux.now())).as_secs());
            let is_first = timers.next().is_none_or(|next| due < next);
            timers.0.insert((due, key), (plugin, work));
            is_first
        };
        if is_first {
            self.set_timer();
        }
    }

    fn set_timer(&self) {
        let next = self.timers.borrow().next();
        let after = next.map(|due| (due.seconds() - self.flux.now()).max(0.0));
        self.flux.set_timer(after);
    }

    /// Called when the reactor's timer has fired.
    pub fn timer(&self) {
        loop {
            let now = self.flux.now();
            let due = self.timers.borrow_mut().take_due(now);
            let Some((plugin, work)) = due else { break };
            self.resume(plugin, work);
        }
        self.set_timer();
    }

    /// Called when another thread has put work into the inbox.
    pub fn wake(&self) {
        for RemoteCall { plugin, work } in self.inbox.take() {
            self.resume(plugin, work);
        }
    }

    /// Runs work that has come back to a plugin, unless the plugin was removed.
    pub(super) fn resume(&self, plugin: PluginKey, work: RemoteWork) {
        let loaded = self.stack.borrow().get(plugin).map(Rc::clone);
        let Some(loaded) = loaded else { return };
        match work {
            RemoteWork::Commands(commands) => {
                let commands = commands.into_iter();
                let commands = commands.map(|command| Queued { plugin, command }).collect();
                self.carry_out("later", commands);
            }
            RemoteWork::Call(_) if loaded.is_faulted() => {}
            RemoteWork::Call(call) => self.call_back(&loaded, call),
        }
    }

    /// Starts the work of an asynchronous handler.
    pub(super) fn begin_work(&self, plugin: PluginKey, work: JobWork) {
        let JobWork { job, what, kind, run_on, abort, future } = work;
        let begins = self.mirror.borrow_mut().begin_work(plugin, job, what, kind, run_on, abort);
        if begins {
            self.spawn(future);
        }
    }

    /// Runs a future. The runtime exists, since it is started before any plugin is built.
    pub(super) fn spawn(&self, future: PluginFuture) {
        if let Some(runtime) = self.runtime.get() {
            runtime.spawn(future);
        }
    }
}
