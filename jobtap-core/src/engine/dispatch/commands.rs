//! What handlers asked for, carried out in their order.
//!
//! A command that has become impossible since it was given is dropped, and the log says so.

use std::collections::VecDeque;

use serde_json::{Map, Value};

use super::checks::check;
use super::{async_work, call, chains, outcome, perilogs, prep, priorities, retention};
use crate::engine::agenda::{Commands, Queued, Work};
use crate::engine::alloc::node_events;
use crate::engine::api::{Effect, Level, Write};
use crate::engine::core::Core;
use crate::engine::jobs::{Jobs, Record};
use crate::engine::timers::Due;
use crate::engine::{events, exec};
use crate::eventlog::EventEntry;
use crate::host::{Command, Perilog, PluginKey};
use crate::job::{JobId, State};
use crate::topic::TopicId;

/// The instance keys under which the data of plugins on the instance is stored; the plugin's name
/// follows.
pub const INSTANCE_DATA: &str = "jobtap.data.";

/// Carries out the next command of a callback, and puts the rest on the agenda below what it leads to.
pub(crate) fn carry_out_next(core: &mut Core, mut commands: Box<Commands>) {
    let Some(Queued { plugin, command }) = commands.queue.pop_front() else {
        return;
    };
    let origin = commands.origin;
    let command = match command {
        Command::UpdateJobspec { job, updates } => {
            let updates = merge_update(&mut commands.queue, plugin, job, updates);
            updates.map(|updates| Command::UpdateJobspec { job, updates })
        }
        command => Some(command),
    };
    // The rest goes below what this command leads to: its events are applied, and other plugins are called,
    // before the next command of the same callback.
    if !commands.queue.is_empty() {
        core.agenda.push(Work::Commands(commands));
    }
    if let Some(command) = command {
        carry_out(core, origin, Queued { plugin, command });
    }
}

/// Merges an update into a later one of the same plugin and job, so that all updates of one callback
/// become one event. Returns the update if there is no later one.
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

/// Carries out one command, if it is still possible.
pub(crate) fn carry_out(core: &mut Core, origin: &'static str, queued: Queued) {
    let Queued { plugin, command } = queued;
    let dropped = match check(&core.jobs, &command) {
        Err(error) => Some(error.to_string()),
        // Each `job.priority.get` would lead to another one, without an end.
        Ok(())
            if matches!(command, Command::ReprioritizeAll)
                && origin == TopicId::JobPriorityGet.name() =>
        {
            Some("all priorities are being asked already".to_owned())
        }
        Ok(()) => None,
    };
    match dropped {
        None => execute(core, plugin, command),
        Some(reason) => {
            let name = core.plugins.name(plugin);
            core.log(Level::Warning, format!("{name}: {origin}: dropped: {reason}"));
        }
    }
}

fn execute(core: &mut Core, plugin: PluginKey, command: Command) {
    let now = core.clock.now;
    match command {
        Command::AddDependency { job, description } => {
            add_dependency(core, plugin, job, &description);
        }
        Command::RemoveDependency { job, description } => {
            if !is_removal_posted(&core.jobs, job, &description) {
                core.post(job, events::dependency(now, "dependency-remove", &description));
            }
        }
        Command::StartProlog { job, description } => {
            perilogs::start(core, plugin, job, Perilog::Prolog, &description);
        }
        Command::StartEpilog { job, description } => {
            perilogs::start(core, plugin, job, Perilog::Epilog, &description);
        }
        Command::FinishProlog { job, description, status, failure } => {
            perilogs::finish_own(core, plugin, job, Perilog::Prolog, &description, status, failure);
        }
        Command::FinishEpilog { job, description, status, failure } => {
            perilogs::finish_own(core, plugin, job, Perilog::Epilog, &description, status, failure);
        }
        Command::TakeOver { job, perilog, description } => {
            perilogs::own(&mut core.jobs, plugin, job, perilog, &description);
        }
        Command::FailPrep(failure) => prep::fail(core, plugin, failure),
        Command::Raise { job, exception } => core.raise(job, &exception),
        Command::EndWithEpilog { job, description, exception } => {
            perilogs::start(core, plugin, job, Perilog::Epilog, &description);
            core.raise(job, &exception);
        }
        Command::Reprioritize { job, priority } => outcome::set_priority(core, job, priority),
        Command::ReprioritizeAll => priorities::ask_all(core),
        Command::UpdateJobspec { job, updates } => {
            core.post(job, events::with_context(now, "jobspec-update", Some(updates)));
        }
        Command::PostEvent { job, name, context } => {
            core.post(job, events::with_context(now, name.into_inner(), context));
        }
        Command::SetUrgency { job, urgency } => {
            core.post(job, events::urgency(now, core.owner, urgency));
        }
        Command::Memo { job, memo } => {
            core.post(job, events::with_context(now, "memo", Some(memo)));
        }
        Command::SetExpiration { job, at } => {
            core.post(
                job,
                events::with(now, "resource-update", [("expiration", at.as_secs().into())]),
            );
        }
        Command::PutGuest { job, key, value } => {
            core.put(job, format!("guest.{key}"), value.to_string());
        }
        Command::Annotate { job, annotations } => {
            if core.jobs.state(job) != Some(State::Inactive) {
                core.jobs.said.annotated(job, plugin, &annotations);
            }
            core.annotate(job, annotations.clone());
            outcome::store_annotations(core, job, annotations);
        }
        Command::SetFlag { job, flag } => core.post(job, events::set_flags(now, flag.name())),
        Command::Signal { job, signal } => {
            exec::signal(&core.jobs, &mut core.effects, job, signal.number());
        }
        Command::Drain { ranks, reason } => node_events::drain_for_owner(core, &ranks, &reason),
        Command::Retain { job } => retention::retain(core, plugin, job),
        Command::FreeRetained { job, ranks } => retention::free(core, plugin, job, &ranks),
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
        Command::SetData { job, value, volatile } => set_data(core, plugin, job, value, volatile),
        Command::SetInstanceData { value, volatile } => {
            set_instance_data(core, plugin, value, volatile);
        }
        Command::Respond { to, payload } => {
            core.plugins.respond(&mut core.effects, plugin, to, payload);
        }
        Command::Answer { to, result } => {
            core.plugins.answer(&mut core.effects, plugin, to, result);
        }
        Command::Verdict { job, verdict } => {
            core.plugins.give_verdict(&mut core.agenda, plugin, job, verdict);
        }
        Command::Process(command) => {
            let command = Box::new(command);
            core.effects.after.push(Effect::Process { plugin, command });
        }
        Command::Blocking(command) => {
            core.effects.after.push(Effect::Blocking { plugin, command });
        }
        Command::BeginWork(work) => {
            async_work::begin(&mut core.jobs, &mut core.effects, plugin, work);
        }
        Command::WorkEnded { job, what } => async_work::end(&mut core.jobs, plugin, job, &what),
        Command::NotifyAtJobEnd { job, work } => async_work::at_end(core, plugin, job, work),
        Command::UserMessage { request, text } => chains::note_message(core, request, text),
        Command::BeginRequestWork(work) => chains::begin_work(core, plugin, work),
        Command::AnswerRequest { request, answer } => {
            chains::take_answer(core, plugin, request, answer);
        }
        Command::StartTimer { key, at, work } => {
            core.start_timer(at, Due::Plugin(plugin, key, work));
        }
        Command::CancelTimer { key } => core.timers.stop_plugin_timer(key),
        Command::Spawn(task) => core.effects.after.push(Effect::Spawn(task)),
        Command::PollTook { topic, job, milliseconds } => {
            call::log_slow_poll(core, plugin, (topic, job), milliseconds);
        }
        Command::Log { level, text } => {
            let name = core.plugins.name(plugin);
            core.log(level, format!("{name}: {text}"));
        }
        Command::LogForJob { job, level, text } => core.log(level, format!("{job}: {text}")),
    }
}

/// Adds a dependency, and makes the plugin its owner. A description works once per job; to add it
/// again is no error, since plugins do so after a restart.
fn add_dependency(core: &mut Core, plugin: PluginKey, job: JobId, description: &str) {
    let Some(record) = core.jobs.get_mut(job) else {
        return;
    };
    // The last one that asks is the owner: after a reload that is the new instance.
    record.dependency_owners.retain(|(known, _)| **known != *description);
    record.dependency_owners.push((description.into(), plugin));
    let known = record.job.dependencies.iter().any(|known| *known.description == *description);
    // Or the event is posted already, since another plugin or an earlier callback has added it.
    if !known && last_posted(record, description).is_none() {
        core.post(job, events::dependency(core.clock.now, "dependency-add", description));
    }
}

/// Whether the last posted event about a dependency removes it.
fn is_removal_posted(jobs: &Jobs, job: JobId, description: &str) -> bool {
    let last = jobs.get(job).and_then(|record| last_posted(record, description));
    last.is_some_and(|entry| entry.name == "dependency-remove")
}

/// The last event about a dependency that is posted and not applied yet.
fn last_posted<'a>(record: &'a Record, description: &str) -> Option<&'a EventEntry> {
    let mut about = record.pending_events.iter().filter(|entry| {
        entry.name.starts_with("dependency-")
            && events::field(entry, "description").and_then(Value::as_str) == Some(description)
    });
    about.next_back()
}

fn set_data(core: &mut Core, plugin: PluginKey, job: JobId, value: Value, volatile: bool) {
    let name = core.plugins.name(plugin);
    if !volatile {
        core.put(job, format!("data.{name}"), value.to_string());
    }
    if let Some(record) = core.jobs.get_mut(job) {
        let data: &mut Map<String, Value> = match volatile {
            true => record.volatile_data.get_or_insert_default(),
            false => &mut record.data,
        };
        data.insert(name.to_string(), value);
    }
}

fn set_instance_data(core: &mut Core, plugin: PluginKey, value: Value, volatile: bool) {
    let name = core.plugins.name(plugin);
    if !volatile {
        let key = format!("{INSTANCE_DATA}{name}");
        core.effects.writes.push(Write::PutInstance { key, value: value.to_string() });
    }
    core.plugins.instance_data.insert(name.to_string(), value);
}
