//! What handlers asked for, done in their order. A command that has become void is dropped and
//! logged.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::callback::Queued;
use super::events;
use super::frames::{Frame, Then};
use super::held::{Opened, Words as _};
use super::record::field;
use super::work::{Commands, Work};
use super::{Effect, Engine, Level, Write};
use crate::eventlog::EventEntry;
use crate::host::{
    Command, Exception, Fault, Perilog, PluginKey, RemoteCall, Severity, Work as RemoteWork,
};
use crate::job::{JobId, State};
use crate::topic::TopicId;

/// Instance keys below which plugins' data on the instance is stored, by plugin.
pub const INSTANCE_DATA: &str = "jobtap.data.";

impl Engine {
    /// Does the next command of a callback, and stacks the rest below what it leads to.
    pub(super) fn next_command(&mut self, mut commands: Box<Commands>) {
        let Some(Queued { plugin, command }) = commands.queue.pop_front() else {
            return;
        };
        let topic = commands.topic;
        let command = match command {
            Command::UpdateJobspec { job, updates } => {
                match merge_update(&mut commands.queue, plugin, job, updates) {
                    Some(updates) => Command::UpdateJobspec { job, updates },
                    None => {
                        self.work.push(Work::Commands(commands));
                        return;
                    }
                }
            }
            command => command,
        };
        if !commands.queue.is_empty() {
            self.work.push(Work::Commands(commands));
        }
        self.do_command(topic, Queued { plugin, command });
    }

    /// Does what a handler asked for, unless it has become void.
    pub(super) fn do_command(&mut self, topic: &'static str, queued: Queued) {
        let Queued { plugin, command } = queued;
        if let Err(error) = self.check(&command) {
            let name = self.plugins.name(plugin);
            self.log(Level::Warning, format!("{name}: {topic}: dropped: {error}"));
            return;
        }
        if matches!(command, Command::ReprioritizeAll) && topic == TopicId::JobPriorityGet.name() {
            // It would ask itself for ever.
            let name = self.plugins.name(plugin);
            let text = format!("{name}: {topic}: dropped: all priorities are being asked already");
            return self.log(Level::Warning, text);
        }
        self.execute(plugin, command);
    }

    /// What is asked for a job's life; the rest is the plugin's own.
    fn execute(&mut self, plugin: PluginKey, command: Command) {
        let now = self.now;
        match command {
            Command::AddDependency { job, description } => {
                self.looks_after(plugin, job, &description);
                if !self.knows_dependency(job, &description) {
                    self.post(job, events::dependency(now, "dependency-add", &description));
                }
            }
            Command::RemoveDependency { job, description } => {
                if !self.removes_dependency(job, &description) {
                    self.post(job, events::dependency(now, "dependency-remove", &description));
                }
            }
            Command::StartProlog { job, description } => {
                self.start_of(plugin, job, Perilog::Prolog, &description);
            }
            Command::StartEpilog { job, description } => {
                self.start_of(plugin, job, Perilog::Epilog, &description);
            }
            Command::FinishProlog { job, description, status, failure } => {
                if self.close_own(plugin, job, Perilog::Prolog, &description) {
                    self.finish_of(job, Perilog::Prolog, &description, status, failure);
                }
            }
            Command::FinishEpilog { job, description, status, failure } => {
                if self.close_own(plugin, job, Perilog::Epilog, &description) {
                    self.finish_of(job, Perilog::Epilog, &description, status, failure);
                }
            }
            Command::Raise { job, exception } => self.raise(job, &exception),
            Command::EndWithEpilog { job, description, exception } => {
                self.start_of(plugin, job, Perilog::Epilog, &description);
                self.raise(job, &exception);
            }
            Command::Reprioritize { job, priority } => self.set_priority(job, priority),
            Command::ReprioritizeAll => self.reprioritize_all(),
            Command::UpdateJobspec { job, updates } => {
                self.post(job, events::given(now, "jobspec-update", Some(updates)));
            }
            Command::PostEvent { job, name, context } => {
                self.post(job, events::given(now, name.into_inner(), context));
            }
            Command::SetUrgency { job, urgency } => {
                self.post(job, events::urgency(now, self.owner, urgency));
            }
            Command::Memo { job, memo } => self.post(job, events::given(now, "memo", Some(memo))),
            Command::Signal { job, signal } => self.signal(job, signal.number()),
            Command::Drain { ranks, reason } => self.drain_for_owner(&ranks, &reason),
            Command::SetFlag { job, flag } => self.post(job, events::set_flags(now, flag.name())),
            command => self.execute_own(plugin, command),
        }
    }

    /// What concerns the plugin itself: what it sees, keeps, answers and runs.
    fn execute_own(&mut self, plugin: PluginKey, command: Command) {
        match command {
            Command::Subscribe { job } => self.subscribe(plugin, job),
            Command::Unsubscribe { job } => self.unsubscribe(plugin, job),
            Command::Reopen { job, perilog, description } => {
                self.opens(plugin, job, perilog, &description);
            }
            Command::Keep { job } => self.keep(plugin, job),
            Command::GiveBack { job, ranks } => self.give_back(plugin, job, &ranks),
            Command::SetData { job, value, volatile } => {
                self.set_data(plugin, job, value, volatile);
            }
            Command::SetInstanceData { value, volatile } => {
                self.set_instance_data(plugin, value, volatile);
            }
            Command::Respond { to, payload } => self.respond(plugin, to, payload),
            Command::Answer { to, result } => self.answer(plugin, to, result),
            Command::Process(command) => {
                self.effects.after.push(Effect::Process { plugin, command });
            }
            Command::Begin(work) => self.begin_work(plugin, work),
            Command::End { job, what } => self.end_work(plugin, job, &what),
            Command::AwaitEnd { job, work } => self.await_end(plugin, job, work),
            Command::Verdict { job, verdict } => self.verdict(plugin, job, verdict),
            Command::StartTimer { key, at, work } => self.start_plugin_timer(plugin, key, at, work),
            Command::CancelTimer { key } => self.timers.cancel(key),
            Command::Spawn(task) => self.effects.after.push(Effect::Spawn(task)),
            Command::LogOf { job, level, text } => self.log(level, format!("{job}: {text}")),
            Command::Log { level, text } => {
                let name = self.plugins.name(plugin);
                self.log(level, format!("{name}: {text}"));
            }
            // Done by `execute`; named, so that a new command can't be forgotten.
            Command::AddDependency { .. }
            | Command::RemoveDependency { .. }
            | Command::StartProlog { .. }
            | Command::StartEpilog { .. }
            | Command::FinishProlog { .. }
            | Command::FinishEpilog { .. }
            | Command::Raise { .. }
            | Command::EndWithEpilog { .. }
            | Command::Reprioritize { .. }
            | Command::ReprioritizeAll
            | Command::UpdateJobspec { .. }
            | Command::PostEvent { .. }
            | Command::SetUrgency { .. }
            | Command::Memo { .. }
            | Command::Signal { .. }
            | Command::Drain { .. }
            | Command::SetFlag { .. } => {}
        }
    }

    /// Notes whose a dependency is; after a restart the plugin asks for it again.
    fn looks_after(&mut self, plugin: PluginKey, job: JobId, description: &str) {
        if let Some(record) = self.jobs.get_mut(&job) {
            record.holders.retain(|(held, _)| **held != *description);
            record.holders.push((description.into(), plugin));
        }
    }

    /// A description works once per job; asking again is no mistake.
    fn knows_dependency(&self, job: JobId, description: &str) -> bool {
        self.jobs.get(&job).is_some_and(|record| {
            record.job.dependencies.iter().any(|held| *held.description == *description)
        })
    }

    /// The removal is posted already.
    fn removes_dependency(&self, job: JobId, description: &str) -> bool {
        let queue = self.jobs.get(&job).map(|record| &record.queue);
        let last =
            queue.into_iter().flatten().rfind(|entry| dependency_of(entry) == Some(description));
        last.is_some_and(|entry| entry.name == "dependency-remove")
    }

    fn start_of(&mut self, plugin: PluginKey, job: JobId, bracket: Perilog, description: &str) {
        let known = self.jobs.get(&job).is_some_and(|r| r.is_orphaned(bracket, description));
        self.opens(plugin, job, bracket, description);
        if known {
            // It began before a restart and goes on.
            return;
        }
        let entry = events::start_of(self.now, bracket.start(), description);
        self.post(job, entry);
    }

    /// From now on a prolog or epilog is this plugin's to finish.
    fn opens(&mut self, plugin: PluginKey, job: JobId, bracket: Perilog, description: &str) {
        if let Some(record) = self.jobs.get_mut(&job) {
            let description = description.into();
            record.opened.push(Opened { plugin, bracket, description });
        }
    }

    /// Takes a plugin's prolog or epilog off the list of those that are open; of any other there is
    /// nothing to end.
    pub(super) fn close_own(
        &mut self,
        plugin: PluginKey,
        job: JobId,
        bracket: Perilog,
        description: &str,
    ) -> bool {
        let Some(record) = self.jobs.get_mut(&job) else {
            return false;
        };
        let index = record.opened.iter().position(|open| {
            open.plugin == plugin && open.bracket == bracket && *open.description == *description
        });
        index.map(|index| record.opened.remove(index)).is_some()
    }

    /// Ends a prolog or epilog.
    pub(super) fn finish_of(
        &mut self,
        job: JobId,
        bracket: Perilog,
        description: &str,
        status: i32,
        failure: Option<String>,
    ) {
        if let Some(note) = failure {
            // First: once the last prolog is finished the job would start.
            self.raise(job, &Exception::fatal(bracket.word(), note));
        }
        let entry = events::finish_of(self.now, bracket.finish(), description, status);
        self.post(job, entry);
    }

    /// Ends what plugins that are gone had open on a job.
    pub(super) fn fail_opened(&mut self, job: JobId, gone: &[PluginKey]) {
        let Some(record) = self.jobs.get_mut(&job) else {
            return;
        };
        let lost: Vec<Opened> =
            record.opened.extract_if(.., |open| gone.contains(&open.plugin)).collect();
        for open in lost {
            let what = open.bracket.word();
            let note = format!("{what} {}: its plugin was removed", open.description);
            self.finish_of(job, open.bracket, &open.description, 1, Some(note));
        }
    }

    /// Posts an exception in the name of the instance's owner.
    pub(super) fn raise(&mut self, job: JobId, exception: &Exception) {
        let severity = exception.severity().get();
        let entry =
            events::exception(self.now, exception.kind(), severity, exception.note(), self.owner);
        self.post(job, entry);
    }

    /// Ends a job in the name of the instance's owner.
    pub(super) fn raise_fatal(&mut self, job: JobId, kind: &str, note: &str) {
        self.raise(job, &Exception::new(Severity::FATAL, kind, note));
    }

    fn subscribe(&mut self, plugin: PluginKey, job: JobId) {
        if let Some(record) = self.jobs.get_mut(&job)
            && !record.subscribers.contains(&plugin)
        {
            record.subscribers.push(plugin);
        }
    }

    fn unsubscribe(&mut self, plugin: PluginKey, job: JobId) {
        if let Some(record) = self.jobs.get_mut(&job) {
            record.subscribers.retain(|subscriber| *subscriber != plugin);
        }
    }

    fn set_data(&mut self, plugin: PluginKey, job: JobId, value: Value, volatile: bool) {
        let name = self.plugins.name(plugin);
        if !volatile {
            self.put(job, format!("data.{name}"), value.to_string());
        }
        if let Some(record) = self.jobs.get_mut(&job) {
            record.data.insert(name.to_string(), value);
        }
    }

    fn set_instance_data(&mut self, plugin: PluginKey, value: Value, volatile: bool) {
        let name = self.plugins.name(plugin);
        if !volatile {
            let key = format!("{INSTANCE_DATA}{name}");
            self.effects.writes.push(Write::PutInstance { key, value: value.to_string() });
        }
        self.instance_data.insert(name.to_string(), value);
    }

    /// One answer for a submission. It goes on when no other is awaited, or this one refuses.
    fn verdict(&mut self, plugin: PluginKey, job: JobId, verdict: Result<(), String>) {
        let Some(frame) = self.suspended.get_mut(&job) else {
            return;
        };
        let Some(index) = frame.awaited.iter().position(|awaited| *awaited == plugin) else {
            return;
        };
        frame.awaited.remove(index);
        if let Err(text) = verdict {
            frame.awaited.clear();
            frame.refusal = Some(text);
        }
        if frame.awaited.is_empty()
            && let Some(frame) = self.suspended.remove(&job)
        {
            self.work.push(Work::Frame(Box::new(frame)));
        }
    }

    /// A submission that waits for a plugin that is gone is refused.
    pub(super) fn refuse_awaiting(&mut self, gone: &[(PluginKey, Arc<str>)], how: &str) {
        let mut waiting: Vec<(JobId, PluginKey, String)> = Vec::new();
        for (job, frame) in &self.suspended {
            if let Some((key, name)) = gone.iter().find(|(key, _)| frame.awaited.contains(key)) {
                let text = format!("plugin {name} {how} before it answered");
                waiting.push((*job, *key, text));
            }
        }
        for (job, key, text) in waiting {
            self.verdict(key, job, Err(text));
        }
    }

    /// Asks all plugins again for each job that waits with or for a priority.
    pub(super) fn reprioritize_all(&mut self) {
        let waiting = |id: &&JobId| {
            let state = self.jobs.get(id).map(|record| record.job.state);
            matches!(state, Some(State::Priority | State::Sched))
        };
        let jobs: VecDeque<JobId> = self.active.iter().filter(waiting).copied().collect();
        self.work.push(Work::Priorities(jobs));
    }

    pub(super) fn next_priority(&mut self, mut jobs: VecDeque<JobId>) {
        let Some(id) = jobs.pop_front() else { return };
        self.work.push(Work::Priorities(jobs));
        self.ask_priority(id);
    }

    pub(super) fn ask_priority(&mut self, id: JobId) {
        self.visit(id);
        self.stack_frame(Frame::new(TopicId::JobPriorityGet, id, Then::PriorityGet));
    }

    /// Something came back for a plugin.
    pub(super) fn remote(&mut self, call: RemoteCall) {
        self.plugin_work(call.plugin, call.work);
    }

    /// Does what came back, unless the plugin is gone.
    pub(super) fn plugin_work(&mut self, plugin: PluginKey, work: RemoteWork) {
        let Some(instance) = self.plugins.stack.get(plugin).cloned() else {
            return;
        };
        let commands = match work {
            RemoteWork::Commands(commands) => {
                commands.into_iter().map(|command| Queued { plugin, command }).collect()
            }
            RemoteWork::Call(_) if instance.is_faulted() => return,
            RemoteWork::Call(call) => {
                let Some(called) = self.call_instance(&instance, call) else {
                    return;
                };
                if called.milliseconds > self.plugins.budget {
                    self.took_too_long(instance.name(), "later", called.milliseconds);
                }
                if let Err(Fault::Panic(text)) = called.result {
                    let text = format!("{}: later: panicked: {text}", instance.name());
                    self.log(Level::Error, text);
                    self.note_panic(plugin);
                }
                self.note_panics(called.panicked);
                called.commands
            }
        };
        self.stack_commands("later", commands);
    }
}

/// Merges an update into a later one of the same callback and job, so that all become one event;
/// gives it back when there is none.
fn merge_update(
    queue: &mut VecDeque<Queued>,
    by: PluginKey,
    id: JobId,
    updates: Map<String, Value>,
) -> Option<Map<String, Value>> {
    let later = queue.iter_mut().find_map(|queued| match &mut queued.command {
        Command::UpdateJobspec { job, updates } if *job == id && queued.plugin == by => {
            Some(updates)
        }
        _ => None,
    });
    let Some(later) = later else {
        return Some(updates);
    };
    let newer = std::mem::replace(later, updates);
    later.extend(newer);
    None
}

/// The description in a `dependency-add` or `dependency-remove`.
fn dependency_of(entry: &EventEntry) -> Option<&str> {
    if !entry.name.starts_with("dependency-") {
        return None;
    }
    field(entry, "description").and_then(Value::as_str)
}
