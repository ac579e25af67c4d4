//! One call of a handler: what it asks for is entered in the ledger, and nothing of it changes a job. Only what
//! a plugin keeps for itself is kept.

use std::cell::Cell;

use super::driver::Driver;
use super::ledger::Origin;
use super::record::finishes;
use crate::engine::agenda::Queued;
use crate::engine::dispatch::answer::{Answer, Kind, Said, fault_text};
use crate::engine::dispatch::asked;
use crate::engine::dispatch::buffer::{Asked, CommandBuffer};
use crate::engine::dispatch::call::{Called, call_back};
use crate::engine::dispatch::host::CallbackHost;
use crate::engine::jobs::Record;
use crate::engine::timers::Due;
use crate::host::{Args, BoundHandler, Command, Detail, Fault, PluginKey, RemoteCall, RemoteWork};
use crate::job::{JobId, State};
use crate::topic::TopicId;

/// What a handler is called with.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) topic: TopicId,
    /// The scheme or the name of the event, at topics of families.
    pub(super) member: Option<&'a str>,
    pub(super) job: JobId,
    pub(super) detail: Detail<'a>,
}

impl Call<'_> {
    /// The name of the topic, with its member.
    pub(super) fn name(&self) -> String {
        match self.member {
            None => self.topic.name().to_owned(),
            Some(member) => self.topic.name().replace('*', member),
        }
    }
}

impl Driver {
    /// Calls one handler, and returns its answer.
    pub(super) fn call(&mut self, bound: &BoundHandler, call: &Call<'_>) -> Answer {
        let buffer = CommandBuffer::default();
        let result = {
            let core = &self.core;
            let plugin = Cell::new(&**bound.instance());
            let host = CallbackHost { core, plugin, current: Some(call.job), buffer: &buffer };
            let job = core.job(call.job);
            let args = Args { host: &host, topic: call.topic, job, detail: call.detail };
            bound.call(&args, &core.plugins.ticks).0
        };
        if matches!(&result, Err(fault) if !matches!(**fault, Fault::Panic(_))) {
            // As in a manager: a handler that fails changes no jobspec.
            buffer.drop_updates(0);
        }
        let Asked { mut commands, noted, .. } = buffer.into_asked();
        asked::forget(&mut self.core.jobs, noted);
        let mut answer = Answer::default();
        match &result {
            Ok(outcome) => answer.add_outcome(outcome, Some(call.job)),
            Err(fault) => {
                answer.failed = Some(fault_text(fault));
                if matches!(**fault, Fault::Panic(_)) {
                    commands.clear();
                }
            }
        }
        self.calls += u64::from(bound.plugin() == self.reported);
        let said = std::mem::take(&mut answer.said);
        let origin = self.origin(bound.plugin(), call.name());
        said.into_iter().for_each(|said| self.ask(origin.clone(), said));
        self.take_commands(call.name(), commands);
        answer
    }

    /// Does work that has come back to a plugin.
    pub(super) fn resume(&mut self, plugin: PluginKey, work: RemoteWork) {
        const TOPIC: &str = "later";
        let commands = match work {
            RemoteWork::Commands(commands) => {
                commands.into_iter().map(|command| Queued { plugin, command }).collect()
            }
            RemoteWork::Call(call) => {
                let Some(instance) = self.core.plugins.stack.get(plugin).cloned() else { return };
                self.calls += u64::from(plugin == self.reported);
                let called = call_back(&mut self.core, &instance, call);
                let Some(Called { result, commands }) = called else { return };
                if let Err(fault) = result {
                    self.fail(self.origin(plugin, TOPIC.to_owned()), None, &fault_text(&fault));
                }
                commands
            }
        };
        self.take_commands(TOPIC.to_owned(), commands);
    }

    /// Where and when a plugin asks for something.
    pub(super) fn origin(&self, plugin: PluginKey, topic: String) -> Origin {
        Origin { time: self.core.clock.now, topic, is_reported: plugin == self.reported }
    }

    fn take_commands(&mut self, topic: String, commands: Vec<Queued>) {
        for Queued { plugin, command } in commands {
            let origin = self.origin(plugin, topic.clone());
            for said in said_of(&command) {
                self.ask(origin.clone(), said);
            }
            self.keep(plugin, command);
        }
    }

    /// Enters what was asked for in the ledger.
    fn ask(&mut self, origin: Origin, said: Said) {
        let job = said.job.and_then(|id| self.core.job(id));
        let is_present = job.is_some_and(|job| match said.kind {
            Kind::Priority => job.priority().is_some_and(|now| now.to_string() == said.text),
            Kind::Urgency => job.urgency().value().to_string() == said.text,
            _ => false,
        });
        if !is_present {
            let place = said.job.map_or(0, |id| self.place(id));
            self.ledger.ask(origin, place, said);
        }
    }

    /// Carries out what concerns the plugin alone.
    fn keep(&mut self, plugin: PluginKey, command: Command) {
        let core = &mut self.core;
        match command {
            Command::StartTimer { key, at, work } => {
                core.start_timer(at, Due::Plugin(plugin, key, work));
            }
            Command::CancelTimer { key } => core.timers.stop_plugin_timer(key),
            Command::NotifyAtJobEnd { job, work } => match core.jobs.get_mut(job) {
                Some(record) if !has_ended(record) => {
                    record.async_work.at_end.push((plugin, work));
                }
                _ => self.returned.push(RemoteCall { plugin, work }),
            },
            Command::Subscribe { job } => {
                if let Some(record) = core.jobs.get_mut(job) {
                    record.subscribe(plugin);
                }
            }
            Command::Unsubscribe { job } => {
                if let Some(record) = core.jobs.get_mut(job) {
                    record.unsubscribe(plugin);
                }
            }
            Command::SetData { job, value, .. } => {
                let name = core.plugins.name(plugin);
                if let Some(record) = core.jobs.get_mut(job) {
                    record.data.insert(name.to_string(), value);
                }
            }
            Command::SetInstanceData { value, .. } => {
                let name = core.plugins.name(plugin);
                core.plugins.instance_data.insert(name.to_string(), value);
            }
            _ => {}
        }
    }
}

/// What a command asks for, in the words of the record.
fn said_of(command: &Command) -> Vec<Said> {
    let one = |kind, job: JobId, text| vec![Said { kind, job: Some(job), text }];
    match command {
        // The note of a failure is in the exception that follows.
        Command::FinishProlog { job, description, status, .. } => {
            one(Kind::Prolog, *job, finishes(description, i64::from(*status)))
        }
        Command::FinishEpilog { job, description, status, .. } => {
            one(Kind::Epilog, *job, finishes(description, i64::from(*status)))
        }
        // Slurm's prologs are processes, which are not run here.
        Command::FailPrep(_) => Vec::new(),
        command => {
            let mut answer = Answer::default();
            answer.add_command(command);
            answer.said
        }
    }
}

/// Whether the job has ended, so that who waits for its end is called at once.
fn has_ended(record: &Record) -> bool {
    record.job.state == State::Inactive
        || record.job.end_event.as_deref().is_some_and(|end| end.name == "exception")
}
