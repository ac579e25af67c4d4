//! What handlers asked for, done in their order. A command that has become void is dropped and
//! logged.

use std::collections::VecDeque;

use serde_json::{Map, Value};

use super::events;
use super::frames::Then;
use super::work::{Commands, Frame, Work};
use super::{Effect, Engine, Level};
use crate::eventlog::EventEntry;
use crate::job::{JobId, State};
use crate::plugin::{Command, Exception, PluginKey, RemoteCall, Severity, Work as RemoteWork};
use crate::topic::{JobPriorityGet, Topic};

impl Engine {
    /// Does the next command of a callback, and stacks the rest below what it leads to.
    pub(super) fn next_command(&mut self, mut commands: Box<Commands>) {
        let Some(command) = commands.queue.pop_front() else {
            return;
        };
        let (plugin, topic) = (commands.plugin, commands.topic);
        let command = match command {
            Command::UpdateJobspec { job, updates } => {
                match merge_update(&mut commands.queue, job, updates) {
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
        if let Err(error) = self.check(&command) {
            let name = self.plugins.name(plugin);
            self.log(Level::Warning, format!("{name}: {topic}: dropped: {error}"));
            return;
        }
        self.execute(plugin, command);
    }

    fn execute(&mut self, plugin: PluginKey, command: Command) {
        let now = self.now;
        match command {
            Command::AddDependency { job, description } => {
                if !self.knows_dependency(job, &description) {
                    self.post(job, events::dependency(now, "dependency-add", &description));
                }
            }
            Command::RemoveDependency { job, description } => {
                self.post(
                    job,
                    events::dependency(now, "dependency-remove", &description),
                );
            }
            Command::StartProlog { job, description } => {
                self.post(job, events::start_of(now, "prolog-start", &description));
            }
            Command::StartEpilog { job, description } => {
                self.post(job, events::start_of(now, "epilog-start", &description));
            }
            Command::FinishProlog {
                job,
                description,
                status,
                failure,
            } => {
                self.finish_of(job, "prolog", &description, status, failure);
            }
            Command::FinishEpilog {
                job,
                description,
                status,
                failure,
            } => {
                self.finish_of(job, "epilog", &description, status, failure);
            }
            Command::Raise { job, exception } => self.raise(job, &exception),
            Command::Reprioritize { job, priority } => self.set_priority(job, priority),
            Command::ReprioritizeAll => self.reprioritize_all(),
            Command::UpdateJobspec { job, updates } => {
                let name = "jobspec-update".into();
                self.post(
                    job,
                    EventEntry {
                        timestamp: now,
                        name,
                        context: Some(updates),
                    },
                );
            }
            Command::Subscribe { job } => self.subscribe(plugin, job),
            Command::Unsubscribe { job } => {
                if let Some(record) = self.jobs.get_mut(&job) {
                    record
                        .subscribers
                        .retain(|subscriber| *subscriber != plugin);
                }
            }
            Command::SetData { job, value } => self.set_data(plugin, job, value),
            Command::Verdict { job, verdict } => self.verdict(job, verdict),
            Command::StartTimer { key, at, work } => self.start_plugin_timer(plugin, key, at, work),
            Command::CancelTimer { key } => self.timers.cancel(plugin, key),
            Command::Spawn(task) => self.effects.after.push(Effect::Spawn(task)),
            Command::Log { level, text } => {
                let name = self.plugins.name(plugin);
                self.log(level, format!("{name}: {text}"));
            }
        }
    }

    /// A description works once per job; asking again is no mistake.
    fn knows_dependency(&self, job: JobId, description: &str) -> bool {
        self.jobs.get(&job).is_some_and(|record| {
            record
                .job
                .dependencies
                .iter()
                .any(|held| *held.description == *description)
        })
    }

    /// Ends a prolog or epilog that is open; of any other there is nothing to end.
    fn finish_of(
        &mut self,
        job: JobId,
        what: &'static str,
        description: &str,
        status: i32,
        failure: Option<String>,
    ) {
        let (start, finish) = if what == "prolog" {
            ("prolog-start", "prolog-finish")
        } else {
            ("epilog-start", "epilog-finish")
        };
        let Some(record) = self.jobs.get(&job) else {
            return;
        };
        let open = if what == "prolog" {
            &record.prologs
        } else {
            &record.epilogs
        };
        if !open.iter().any(|o| **o == *description) && !record.is_queued(start) {
            return;
        }
        if let Some(note) = failure {
            // First: once the last prolog is finished the job would start.
            self.raise(job, &Exception::fatal(what, note));
        }
        let entry = events::finish_of(self.now, finish, description, status);
        self.post(job, entry);
    }

    /// Posts an exception in the name of the instance's owner.
    pub(super) fn raise(&mut self, job: JobId, exception: &Exception) {
        let severity = exception.severity().get();
        let entry = events::exception(
            self.now,
            exception.kind(),
            severity,
            exception.note(),
            self.owner,
        );
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

    fn set_data(&mut self, plugin: PluginKey, job: JobId, value: Value) {
        let name = self.plugins.name(plugin);
        self.put(job, format!("data.{name}"), value.to_string());
        if let Some(record) = self.jobs.get_mut(&job) {
            record.data.insert(name.to_string(), value);
        }
    }

    fn verdict(&mut self, job: JobId, verdict: Result<(), String>) {
        let Some(mut frame) = self.suspended.remove(&job) else {
            return;
        };
        frame.outcome.deferred = false;
        if let Err(text) = verdict {
            frame.handlers.clear();
            frame.refusal = Some(text);
        }
        self.work.push(Work::Frame(Box::new(frame)));
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
        self.stack_frame(Frame::new(JobPriorityGet::NAME, id, Then::PriorityGet));
    }

    /// Something came back for a plugin.
    pub(super) fn remote(&mut self, call: RemoteCall) {
        self.plugin_work(call.plugin, call.work);
    }

    /// Does what came back, unless the plugin is gone.
    pub(super) fn plugin_work(&mut self, plugin: PluginKey, work: RemoteWork) {
        let commands = match work {
            RemoteWork::Commands(commands) if self.plugins.get(plugin).is_some() => commands,
            RemoteWork::Commands(_) => return,
            RemoteWork::Call(call) => self.call_later(plugin, call),
        };
        if !commands.is_empty() {
            let commands = Commands {
                plugin,
                topic: "later",
                queue: commands.into(),
            };
            self.work.push(Work::Commands(Box::new(commands)));
        }
    }
}

/// Merges an update into a later one of the same callback and job, so that all become one event;
/// gives it back when there is none.
fn merge_update(
    queue: &mut VecDeque<Command>,
    id: JobId,
    updates: Map<String, Value>,
) -> Option<Map<String, Value>> {
    let later = queue.iter_mut().find_map(|command| match command {
        Command::UpdateJobspec { job, updates } if *job == id => Some(updates),
        _ => None,
    });
    let Some(later) = later else {
        return Some(updates);
    };
    let newer = std::mem::replace(later, updates);
    later.extend(newer);
    None
}
