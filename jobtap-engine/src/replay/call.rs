//! One call of a handler: what the handler asks for is entered in the ledger, and changes no job. Only commands that
//! concern the plugin alone are carried out.

use std::cell::Cell;

use super::driver::Driver;
use super::ledger::Origin;
use super::record::finishes;
use crate::agenda::Queued;
use crate::dispatch::buffer::{BufferContent, CommandBuffer};
use crate::dispatch::call::{Called, call_back};
use crate::dispatch::host::CallbackHost;
use crate::dispatch::overlay;
use crate::host::{
    Args, BoundHandler, Command, Detail, Fault, PluginKey, RemoteCall, RemoteSink, RemoteWork,
};
use crate::job::{JobId, State};
use crate::jobs::Record;
use crate::topic::TopicId;
use crate::transcript::{Action, Kind, Transcript, fault_text};

/// What a handler is called with.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) topic: TopicId,
    /// In a topic family, the scheme or the name of the event.
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
    /// Calls one handler, and returns the transcript.
    pub(super) fn call(&mut self, bound: &BoundHandler, call: &Call<'_>) -> Transcript {
        let buffer = CommandBuffer::default();
        let result = {
            let core = &self.core;
            let plugin = Cell::new(&**bound.instance());
            let host = CallbackHost { core, plugin, current: Some(call.job), buffer: &buffer };
            let job = core.jobs.job(call.job);
            let args = Args { host: &host, topic: call.topic, job, detail: call.detail };
            bound.call(&args, &core.plugins.ticks).0
        };
        if matches!(&result, Err(fault) if !matches!(**fault, Fault::Panic(_))) {
            // As in a manager: a handler that fails changes no jobspec.
            buffer.drop_updates(0);
        }
        let BufferContent { mut commands, noted, .. } = buffer.into_content();
        overlay::clear(&mut self.core.jobs, noted);
        let mut transcript = Transcript::default();
        match &result {
            Ok(outcome) => transcript.add_outcome(outcome, Some(call.job)),
            Err(fault) => {
                transcript.failed = Some(fault_text(fault));
                if matches!(**fault, Fault::Panic(_)) {
                    commands.clear();
                }
            }
        }
        self.calls += u64::from(bound.plugin() == self.reported);
        let actions = std::mem::take(&mut transcript.actions);
        let origin = self.origin(bound.plugin(), call.name());
        actions.into_iter().for_each(|action| self.ask(origin.clone(), action));
        self.take_commands(call.name(), commands);
        transcript
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
        Origin { time: self.core.turn.clock.now, topic, is_reported: plugin == self.reported }
    }

    fn take_commands(&mut self, topic: String, commands: Vec<Queued>) {
        for Queued { plugin, command } in commands {
            let origin = self.origin(plugin, topic.clone());
            for action in actions_of(&command) {
                self.ask(origin.clone(), action);
            }
            self.keep(plugin, command);
        }
    }

    /// Enters what was asked for in the ledger.
    fn ask(&mut self, origin: Origin, action: Action) {
        let job = action.job.and_then(|id| self.core.jobs.job(id));
        let is_present = job.is_some_and(|job| match action.kind {
            Kind::Priority => job.priority().is_some_and(|now| now.to_string() == action.text),
            Kind::Urgency => job.urgency().value().to_string() == action.text,
            _ => false,
        });
        if !is_present {
            let place = action.job.map_or(0, |id| self.place(id));
            self.ledger.ask(origin, place, action);
        }
    }

    /// Carries out what concerns the plugin alone.
    fn keep(&mut self, plugin: PluginKey, command: Command) {
        let core = &mut self.core;
        match command {
            Command::StartTimer { key, due, work } => {
                let (turn, timers) = (&mut core.turn, &mut core.timers);
                timers.start_for(&mut turn.effects, turn.clock.now, plugin, (key, due, work));
            }
            Command::CancelTimer { key } => core.timers.stop_plugin_timer(key),
            Command::Then { work } => self.returned.send(RemoteCall { plugin, work }),
            Command::NotifyAtJobEnd { job, work } => match core.jobs.get_mut(job) {
                Some(record) if !has_ended(record) => {
                    record.async_work.at_end.push((plugin, work));
                }
                _ => self.returned.send(RemoteCall { plugin, work }),
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
fn actions_of(command: &Command) -> Vec<Action> {
    let one = |kind, job: JobId, text| vec![Action { kind, job: Some(job), text }];
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
            let mut transcript = Transcript::default();
            transcript.add_command(command);
            transcript.actions
        }
    }
}

/// Whether the job has ended, so that plugins that wait for its end are called at once.
fn has_ended(record: &Record) -> bool {
    record.job.state() == State::Inactive || record.job.is_ended_by_exception()
}
