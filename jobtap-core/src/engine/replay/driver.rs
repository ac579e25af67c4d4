//! The time, the recorded events, and the topics that they lead to.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::{FxHashMap, FxHashSet};

use super::api::{RecordedJob, ReplayOptions, ReplayVerdict, Replayed};
use super::call::Call;
use super::ledger::{Ledger, Origin};
use super::record::recorded;
use crate::engine::api::{Effect, StartError, TimerId};
use crate::engine::core::Core;
use crate::engine::dispatch::answer::Kind;
use crate::engine::dispatch::loading;
use crate::engine::jobs::{Admission, Phase, Record};
use crate::engine::life_cycle::state_topic;
use crate::engine::timers::Due;
use crate::engine::{Engine, Setup};
use crate::eventlog::{EventEntry, decode_log};
use crate::host::{
    Detail, HandlerEntry, Handlers, LoadedPlugin, PluginKey, Priority, RemoteCall, RemoteSink,
};
use crate::job::{JobId, State, Timestamp};
use crate::jobspec::Jobspec;
use crate::resource::ResourceSet;
use crate::topic::{OnFailure, TopicId};

/// How many timers fire between two events. The others of that time fire together at its end, so that a timer
/// of each second doesn't fill a year without jobs.
const TIMERS: u32 = 100_000;

/// Seconds after which work that was sent to a plugin has reached it.
///
/// In a manager it arrives after all that the same input has led to, and eventlogs don't show inputs. So it arrives
/// before the first event of a plugin that nothing else explains, or at the latest after this time.
const LATENCY: f64 = 0.01;

/// The recorded jobs, and the plugins that see them.
pub(super) struct Driver {
    pub(super) core: Core,
    /// The plugin that is reported.
    pub(super) reported: PluginKey,
    pub(super) ledger: Ledger,
    pub(super) calls: u64,
    pub(super) returned: Arc<Returned>,
    /// When the first of what is to come back was sent.
    sent: Option<Timestamp>,
    /// Jobs whose priority comes later.
    unprioritised: FxHashSet<JobId>,
    logs: Vec<Log>,
    by_id: FxHashMap<JobId, usize>,
    /// Timers by the bits of their times, which have the order of the times, since these are positive.
    timers: BinaryHeap<Reverse<(u64, TimerId)>>,
    report: Replayed,
}

/// The eventlog of a job.
struct Log {
    id: JobId,
    /// Until it is submitted.
    jobspec: Option<Jobspec>,
    /// Until it has them.
    resources: Option<ResourceSet>,
    entries: Vec<Arc<EventEntry>>,
    /// The next event.
    next: usize,
}

impl Log {
    fn upcoming(&self) -> &[Arc<EventEntry>] {
        self.entries.get(self.next..).unwrap_or_default()
    }
}

/// What comes back to plugins.
#[derive(Default)]
pub(super) struct Returned(Mutex<VecDeque<RemoteCall>>);

impl Returned {
    pub(super) fn push(&self, call: RemoteCall) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(call);
    }

    fn pop(&self) -> Option<RemoteCall> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

impl RemoteSink for Returned {
    fn send(&self, call: RemoteCall) {
        self.push(call);
    }
}

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
            match read(job) {
                Ok(log) => logs.push(log),
                Err(reason) => report.leave_out(format!("{id}: {reason}")),
            }
        }
        let times = logs.iter().filter_map(|log| Some(log.entries.first()?.timestamp));
        let start = times.min_by(Timestamp::total_cmp).unwrap_or_default();
        let returned: Arc<Returned> = Arc::default();
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
        // What `conf.update` has asked for.
        engine.run();
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
            unprioritised: FxHashSet::default(),
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
            self.core.clock.now = time(at);
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
        // What is left to do may own handles that refer to the queue.
        drop(core);
        while returned.pop().is_some() {}
        report
    }

    /// How many events of a job were applied.
    pub(super) fn place(&self, id: JobId) -> usize {
        self.log(id).map_or(0, |log| log.next)
    }

    fn log(&self, id: JobId) -> Option<&Log> {
        self.logs.get(*self.by_id.get(&id)?)
    }

    /// Lets the time pass until `end`: what was sent to plugins arrives, and their timers fire.
    fn pass(&mut self, end: u64) {
        let mut fired = 0u32;
        loop {
            let timer = self.timers.peek().map(|Reverse((due, _))| *due).filter(|due| *due <= end);
            let arrival = self.sent.map(|sent| bits(sent + LATENCY)).filter(|due| *due < end);
            let is_arrival = arrival.is_some_and(|at| timer.is_none_or(|timer| at < timer));
            let next = if is_arrival { arrival } else { timer };
            // What is set for the same moment again and again would never end.
            let Some(due) = next.filter(|_| fired < 2 * TIMERS) else { break };
            fired += 1;
            if is_arrival {
                self.receive();
            } else {
                let at = if fired < TIMERS { due } else { end };
                self.core.clock.now = time(at.max(bits(self.core.clock.now)));
                self.fire();
            }
        }
    }

    /// Fires the next timer.
    fn fire(&mut self) {
        let Some(Reverse((_, timer))) = self.timers.pop() else { return };
        // The engine's own timers end jobs, which the record does here.
        if let Some(Due::Plugin(plugin, _, work)) = self.core.timers.fire(timer) {
            self.resume(plugin, work);
            self.note_effects();
        }
    }

    /// Takes over what plugins have set in motion: timers, and work that will come back.
    fn note_effects(&mut self) {
        for effect in std::mem::take(&mut self.core.effects).after {
            if let Effect::Timer { id, at } = effect {
                self.timers.push(Reverse((bits(at), id)));
            }
        }
        if self.sent.is_none() && !self.returned.is_empty() {
            self.sent = Some(self.core.clock.now);
        }
    }

    /// Does what has come back to plugins, but not what that sends in its turn. The time is that at which it was
    /// sent, so that timers which it sets fire no later than they did.
    fn receive(&mut self) {
        if let Some(sent) = self.sent.take() {
            self.core.clock.now = sent;
        }
        let calls: Vec<RemoteCall> = std::iter::from_fn(|| self.returned.pop()).collect();
        calls.into_iter().for_each(|RemoteCall { plugin, work }| self.resume(plugin, work));
        self.note_effects();
    }

    /// Whether the next event of a log is one of plugins that none has asked for yet.
    fn is_unexplained(&self, index: usize) -> bool {
        self.sent.is_some()
            && self.logs.get(index).is_some_and(|log| {
                self.ledger.is_unexplained(log.id, log.next)
                    || log.upcoming().first().is_some_and(|entry| entry.name == "priority")
                        && self.unprioritised.contains(&log.id)
            })
    }

    /// Applies the next event of a log.
    fn step(&mut self, index: usize) {
        let Some(log) = self.logs.get_mut(index) else { return };
        let Some(entry) = log.upcoming().first().map(Arc::clone) else { return };
        let id = log.id;
        self.report.events += 1;
        match (&*entry.name, log.jobspec.take()) {
            ("submit", Some(jobspec)) => self.submit(index, id, jobspec, &entry),
            _ => self.apply(index, id, &entry),
        }
    }

    /// Takes a job through the gates of its submission.
    fn submit(&mut self, index: usize, id: JobId, jobspec: Jobspec, entry: &Arc<EventEntry>) {
        self.core.jobs.insert_active(id, Box::new(Record::submitted(id, jobspec)));
        self.core.jobs.newest_id = self.core.jobs.newest_id.max(Some(id));
        self.apply(index, id, entry);
        self.gate(TopicId::JobCreate, id, None, Detail::None);
        self.gate(TopicId::JobValidate, id, None, Detail::None);
        // What these gates have changed, the next ones see.
        while self.next_of(index).is_some_and(|next| next.name == "jobspec-update") {
            self.step(index);
        }
        let dependencies = self.core.job(id).map(|job| job.jobspec.dependencies());
        for dependency in dependencies.and_then(Result::ok).unwrap_or_default() {
            let detail = Detail::Dependency(&dependency);
            self.gate(TopicId::JobDependency, id, Some(&dependency.scheme), detail);
        }
        self.gate(TopicId::JobNew, id, None, Detail::None);
        // An eventlog from before there was `validate`: its job was validated before `submit`.
        let has_version =
            entry.context.as_ref().is_some_and(|context| context.contains_key("version"));
        if !has_version && let Some(record) = self.core.jobs.get_mut(id) {
            record.admission = Admission::Accepted;
            record.job.state = State::Depend;
            self.core.jobs.count_new(id);
        }
    }

    fn next_of(&self, index: usize) -> Option<&Arc<EventEntry>> {
        self.logs.get(index)?.upcoming().first()
    }

    /// Applies an event, and calls the plugins at what follows from it.
    fn apply(&mut self, index: usize, id: JobId, entry: &Arc<EventEntry>) {
        match &*entry.name {
            "validate" => {
                if let Some(record) = self.core.jobs.get_mut(id) {
                    record.admission = Admission::Accepted;
                }
                self.core.jobs.count_new(id);
            }
            "alloc" => {
                let resources = self.logs.get_mut(index).and_then(|log| log.resources.take());
                if let (Some(record), Some(resources)) = (self.core.jobs.get_mut(id), resources) {
                    record.job.set_resources(resources);
                }
            }
            "priority" if self.core.jobs.state(id) == Some(State::Sched) => {
                let call = Call {
                    topic: TopicId::JobPriorityGet,
                    member: None,
                    job: id,
                    detail: Detail::None,
                };
                self.prioritise(&call);
            }
            _ => {}
        }
        if let Some(log) = self.logs.get_mut(index) {
            log.next += 1;
        }
        let Some(record) = self.core.jobs.get_mut(id) else {
            let text = format!("{id}: {}: the job was not submitted", entry.name);
            return self.report.leave_out(text);
        };
        let applied = match record.apply(entry) {
            Ok(applied) => applied,
            Err(error) => return self.report.leave_out(format!("{id}: {error}")),
        };
        if entry.name == "start" {
            record.execution.phase = Phase::Started;
        }
        let state = record.job.state;
        let ended = applied.fatal || state == State::Inactive;
        let at_end =
            if ended { std::mem::take(&mut record.async_work.at_end) } else { Default::default() };
        let subscribers = record.subscribers.clone();
        let is_update = entry.name == "jobspec-update";
        self.core.jobs.count_event(id, applied.left, is_update);
        at_end.into_iter().for_each(|(plugin, work)| self.resume(plugin, work));
        if !subscribers.is_empty() {
            let detail = Detail::Event(entry);
            let includes = |plugin| subscribers.contains(&plugin);
            self.tell_some(TopicId::JobEvent, id, Some(&entry.name), detail, includes);
        }
        if is_update && let Some(updates) = &entry.context {
            self.tell(TopicId::JobUpdate, id, Detail::Updates(updates));
        }
        if let Some((left, topic)) = applied.left.zip(state_topic(state)) {
            self.enter(topic, id, Detail::State { prev: Some(left), entry: Some(entry) });
        }
        if state == State::Inactive && self.core.jobs.inactive.add(id, entry.timestamp) {
            self.tell(TopicId::JobInactiveAdd, id, Detail::None);
            self.tell(TopicId::JobDestroy, id, Detail::None);
            if let Some(record) = self.core.jobs.get_mut(id) {
                record.drop_active_parts();
            }
        }
    }

    fn enter(&mut self, topic: TopicId, job: JobId, detail: Detail<'_>) {
        match topic {
            TopicId::JobStatePriority => {
                self.prioritise(&Call { topic, member: None, job, detail });
            }
            _ => self.tell(topic, job, detail),
        }
    }

    /// Calls the plugins at something that has happened.
    fn tell(&mut self, topic: TopicId, job: JobId, detail: Detail<'_>) {
        self.tell_some(topic, job, None, detail, |_| true);
    }

    fn tell_some(
        &mut self,
        topic: TopicId,
        job: JobId,
        member: Option<&str>,
        detail: Detail<'_>,
        includes: impl Fn(PluginKey) -> bool,
    ) {
        let call = Call { topic, member, job, detail };
        for bound in self.handlers(&call).iter().filter(|bound| includes(bound.plugin())) {
            if let Some(text) = self.call(bound, &call).failed {
                self.fail(self.origin(bound.plugin(), call.name()), Some(job), &text);
            }
        }
    }

    fn handlers(&self, call: &Call<'_>) -> Handlers {
        let stack = &self.core.plugins.stack;
        match call.member {
            Some(member) => stack.members(call.topic, member, |_| true),
            None => stack.handlers(call.topic).map(Rc::clone).unwrap_or_default(),
        }
    }

    /// Enters the failure of a handler, of which an eventlog doesn't tell when it decides nothing.
    pub(super) fn fail(&mut self, origin: Origin, job: Option<JobId>, text: &str) {
        let (answer, verdict) = (Some(format!("fails: {text}")), ReplayVerdict::Differs);
        self.ledger.compared(origin, job, Kind::Failure, answer, None, verdict);
    }

    /// Calls the plugins at a gate. The job has passed it, or it would have left no eventlog.
    fn gate(&mut self, topic: TopicId, job: JobId, member: Option<&str>, detail: Detail<'_>) {
        let call = Call { topic, member, job, detail };
        for bound in self.handlers(&call).iter() {
            let answer = self.call(bound, &call);
            let origin = self.origin(bound.plugin(), call.name());
            let accepted = || Some("accepts".to_owned());
            let mut enter = |answer, verdict| {
                self.ledger.compared(
                    origin.clone(),
                    Some(job),
                    Kind::Verdict,
                    answer,
                    accepted(),
                    verdict,
                );
            };
            match answer.failed {
                Some(text) if topic.on_failure() != OnFailure::Reject => {
                    self.fail(origin, Some(job), &text);
                }
                Some(text) => enter(Some(format!("refuses: {text}")), ReplayVerdict::Differs),
                None if bound.only_observes() || topic == TopicId::JobNew => {}
                None if answer.deferred => {
                    enter(Some("decides later".to_owned()), ReplayVerdict::NotCompared);
                }
                None => enter(accepted(), ReplayVerdict::Same),
            }
        }
    }

    /// Asks the plugins for the priority of a job, and compares what the reported one has answered with the next
    /// priority that was recorded.
    fn prioritise(&mut self, call: &Call<'_>) {
        let id = call.job;
        let (mut own, mut answered) = (Priority::Unchanged, Priority::Unchanged);
        let mut decider = None;
        for bound in self.handlers(call).iter() {
            let answer = self.call(bound, call);
            if let Some(text) = &answer.failed {
                self.fail(self.origin(bound.plugin(), call.name()), Some(id), text);
            }
            if answer.priority != Priority::Unchanged {
                (answered, decider) = (answer.priority, Some(bound.plugin()));
                if bound.plugin() == self.reported {
                    own = answer.priority;
                }
            }
        }
        match answered {
            Priority::Unavailable => self.unprioritised.insert(id),
            _ => self.unprioritised.remove(&id),
        };
        let text = match own {
            Priority::Unchanged => return,
            Priority::Unavailable => "not yet".to_owned(),
            Priority::Set(value) => value.to_string(),
        };
        let is_fixed = self.core.job(id).is_some_and(|job| job.urgency.forced_priority().is_some());
        let (place, recorded) = self.recorded_priority(id).unzip();
        let verdict = match own {
            // Another plugin has the last word, or the urgency.
            _ if is_fixed || decider != Some(self.reported) => ReplayVerdict::NotCompared,
            // It comes later, and is compared then.
            Priority::Unavailable => ReplayVerdict::NotCompared,
            _ if recorded.as_ref() == Some(&text) => ReplayVerdict::Same,
            _ => ReplayVerdict::Differs,
        };
        if verdict != ReplayVerdict::NotCompared
            && let Some(place) = place
        {
            self.ledger.take_priority(id, place);
        }
        let origin = self.origin(self.reported, call.name());
        self.ledger.compared(origin, Some(id), Kind::Priority, Some(text), recorded, verdict);
    }

    /// The priority that a job gets next, with the place of its event, unless the job goes on without.
    fn recorded_priority(&self, id: JobId) -> Option<(usize, String)> {
        let log = self.log(id)?;
        let mut upcoming = log.upcoming().iter().zip(log.next..);
        let (entry, place) = upcoming
            .find(|(entry, _)| {
                matches!(&*entry.name, "priority" | "alloc" | "clean" | "flux-restart")
            })
            .filter(|(entry, _)| entry.name == "priority")?;
        Some((place, entry.context.as_ref()?.get("priority")?.to_string()))
    }
}

/// The topics of a plugin that nothing in an eventlog leads to: requests, purges, and Slurm's scripts.
fn not_called(plugin: &LoadedPlugin) -> Vec<String> {
    let is_recorded = |topic| {
        !matches!(
            topic,
            TopicId::JobUpdateKey
                | TopicId::JobInactiveRemove
                | TopicId::SlurmJobSubmit
                | TopicId::SlurmJobModify
                | TopicId::SlurmPrologSlurmctld
                | TopicId::SlurmProlog
                | TopicId::SlurmEpilogSlurmctld
                | TopicId::SlurmEpilog
        )
    };
    let handlers = plugin.descriptor().handlers.iter().filter(|entry| !is_recorded(entry.id));
    handlers.map(HandlerEntry::full_name).collect()
}

/// Reads a job.
fn read(job: RecordedJob) -> Result<Log, String> {
    let RecordedJob { id, eventlog, jobspec, resources } = job;
    let jobspec = Jobspec::stored(jobspec).map_err(|error| format!("jobspec: {}", error.text()))?;
    let entries = decode_log(&eventlog).map_err(|error| format!("eventlog: {error}"))?;
    if let Some(entry) = entries.iter().find(|entry| !is_usable(entry.timestamp)) {
        let (name, time) = (&entry.name, entry.timestamp.as_secs());
        return Err(format!("eventlog: the time of {name} is {time}"));
    }
    match entries.first() {
        None => return Err("eventlog: it has no events".to_owned()),
        Some(first) if first.name != "submit" => {
            return Err(format!("eventlog: it begins with {} instead of submit", first.name));
        }
        Some(_) => {}
    }
    let resources = resources.map(|text| text.parse()).transpose();
    let resources = resources.map_err(|error| format!("R: {error}"))?;
    let entries = entries.into_iter().map(Arc::new).collect();
    Ok(Log { id, jobspec: Some(jobspec), resources, entries, next: 0 })
}

/// Whether a time can be replayed: positive and finite.
fn is_usable(time: Timestamp) -> bool {
    time.as_secs() > 0.0 && time.as_secs().is_finite()
}

/// The bits of a time, which have the order of times that are positive.
fn bits(time: Timestamp) -> u64 {
    time.as_secs().max(0.0).to_bits()
}

fn time(bits: u64) -> Timestamp {
    Timestamp::from_secs(f64::from_bits(bits))
}
