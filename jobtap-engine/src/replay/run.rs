//! Advances the time, and applies the recorded events in order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::api::{RecordedJob, ReplayOptions, Replayed};
use super::driver::Driver;
use super::ledger::Ledger;
use super::log::Log;
use super::record::recorded;
use super::topics::not_called;
use crate::api::{Effect, StartError};
use crate::dispatch::loading;
use crate::eventlog::{EventEntry, Name};
use crate::host::{RemoteCall, RemoteQueue, RemoteSink};
use crate::job::{JobId, Timestamp};
use crate::timers::Due;
use crate::{Engine, Setup};

/// The maximum number of timers that fire in their turn between two events. The rest fire together at the second event,
/// so that a timer that fires every second need not fill a year without jobs.
const TIMERS: u32 = 100_000;

/// How long work takes to reach a plugin, in seconds.
///
/// In a manager it arrives after everything that the same input has led to, but eventlogs don't show inputs. So in a
/// replay it arrives before the first plugin event that nothing else explains, or at the latest after this time.
const LATENCY: f64 = 0.01;

impl Driver {
    /// Reads the jobs, and loads the plugins.
    pub(super) fn start(
        setup: Setup,
        plugin: &str,
        jobs: Vec<RecordedJob>,
    ) -> Result<Self, StartError> {
        let mut report = Replayed { plugin: plugin.to_owned(), ..Replayed::default() };
        let mut logs = Vec::new();
        for job in jobs {
            let id = job.id;
            match Log::read(job) {
                Ok(log) => logs.push(log),
                Err(reason) => report.leave_out(format!("{id}: {reason}")),
            }
        }
        let times = logs.iter().filter_map(|log| Some(log.entries.first()?.timestamp));
        let start = times.min_by(Timestamp::total_cmp).unwrap_or_default();
        let returned: Arc<RemoteQueue> = Arc::default();
        let setup = Setup { remote: Arc::clone(&returned) as Arc<dyn RemoteSink>, ..setup };
        let mut engine = Engine::new(start, setup)?;
        let core = &mut engine.core;
        let (_, name) = loading::names_of(plugin);
        let loaded = core.plugins.stack.find(name).map(|plugin| plugin.key());
        let reported = match loaded {
            Some(key) => key,
            None => {
                loading::load_named(core, plugin, None).map_err(|error| StartError(error.text))?
            }
        };
        report.not_called =
            core.plugins.stack.get(reported).map_or_else(Vec::new, |p| not_called(p));
        // Carries out what `conf.update` has asked for.
        engine.run_all();
        let mut ledger = Ledger::default();
        for log in &logs {
            let entries: Vec<&EventEntry> = log.entries.iter().map(|entry| &**entry).collect();
            ledger.add(log.id, recorded(log.id, &entries));
        }
        let by_id = logs.iter().zip(0..).map(|(log, index)| (log.id, index)).collect();
        let (core, timers) = (engine.core, BinaryHeap::new());
        Ok(Self {
            core,
            reported,
            ledger,
            calls: 0,
            returned,
            sent: None,
            unprioritized: FxHashSet::default(),
            logs,
            by_id,
            timers,
            report,
        })
    }

    /// Replays all events in the order of their times; those of a job stay in their own order.
    pub(super) fn run(mut self, options: ReplayOptions) -> Replayed {
        let mut queue: BinaryHeap<Reverse<(u64, JobId, usize)>> = BinaryHeap::new();
        for (log, index) in self.logs.iter().zip(0..) {
            if let Some(entry) = log.upcoming().first() {
                queue.push(Reverse((bits(entry.timestamp), log.id, index)));
            }
        }
        self.report.jobs = self.logs.len() as u64;
        self.note_effects();
        self.receive();
        while let Some(Reverse((at, id, index))) = queue.pop() {
            self.pass(at);
            if self.is_unexplained(index) {
                self.receive();
            }
            self.core.turn.clock.now = time(at);
            self.step(index);
            self.note_effects();
            let upcoming = self.logs.get(index).and_then(|log| log.upcoming().first());
            if let Some(entry) = upcoming {
                queue.push(Reverse((bits(entry.timestamp).max(at), id, index)));
            }
        }
        let Self { ledger, calls, mut report, returned, core, .. } = self;
        report.calls = calls;
        ledger.finish(options.ignore_missing, &mut report);
        // Work that is left in the core may own handles that refer to the queue.
        drop(core);
        while returned.pop().is_some() {}
        report
    }

    /// Lets the time pass until `end`: what was sent to plugins arrives, and their timers fire.
    fn pass(&mut self, end: u64) {
        let mut fired = 0u32;
        loop {
            let timer = self.timers.peek().map(|Reverse((due, _))| *due).filter(|due| *due <= end);
            let arrival = self.sent.map(|sent| bits(sent + LATENCY)).filter(|due| *due < end);
            let is_arrival = arrival.is_some_and(|at| timer.is_none_or(|timer| at < timer));
            let next = if is_arrival { arrival } else { timer };
            // Bounded: timers that are set for the same moment again and again would never end.
            let Some(due) = next.filter(|_| fired < 2 * TIMERS) else { break };
            fired += 1;
            if is_arrival {
                self.receive();
            } else {
                let at = if fired < TIMERS { due } else { end };
                self.core.turn.clock.now = time(at.max(bits(self.core.turn.clock.now)));
                self.fire();
            }
        }
    }

    /// Fires the next timer.
    fn fire(&mut self) {
        let Some(Reverse((_, timer))) = self.timers.pop() else { return };
        // The engine's own timers end jobs, which the record does here.
        if let Some(Due::Plugin(plugin, _, work)) =
            self.core.timers.fire(timer, self.core.turn.clock.now)
        {
            self.resume(plugin, work);
            self.note_effects();
        }
    }

    /// Notes what plugins have set in motion: timers, and work that will come back.
    fn note_effects(&mut self) {
        for effect in std::mem::take(&mut self.core.turn.effects).after {
            if let Effect::Timer { id, at } = effect {
                self.timers.push(Reverse((bits(at), id)));
            }
        }
        if self.sent.is_none() && !self.returned.is_empty() {
            self.sent = Some(self.core.turn.clock.now);
        }
    }

    /// Does the work that has come back to plugins, but not the work that it sends itself. It is done at the time at
    /// which it was sent, so that the timers that it sets fire no later than they did.
    fn receive(&mut self) {
        if let Some(sent) = self.sent.take() {
            self.core.turn.clock.now = sent;
        }
        let calls: Vec<RemoteCall> = std::iter::from_fn(|| self.returned.pop()).collect();
        calls.into_iter().for_each(|RemoteCall { plugin, work }| self.resume(plugin, work));
        self.note_effects();
    }

    /// Whether the next event of a log comes from a plugin, but none has asked for it yet.
    fn is_unexplained(&self, index: usize) -> bool {
        self.sent.is_some()
            && self.logs.get(index).is_some_and(|log| {
                self.ledger.is_unexplained(log.id, log.next)
                    || log.upcoming().first().is_some_and(|entry| entry.name == Name::Priority)
                        && self.unprioritized.contains(&log.id)
            })
    }
}

/// The bits of a time: they sort like times that are not negative.
fn bits(time: Timestamp) -> u64 {
    time.as_secs().max(0.0).to_bits()
}

fn time(bits: u64) -> Timestamp {
    Timestamp::from_secs(f64::from_bits(bits))
}
