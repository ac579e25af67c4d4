//! Carries out what handlers asked for, in order.
//!
//! A command that has become impossible since it was given is dropped, and the log says so.

use std::collections::VecDeque;

use serde_json::{Map, Value};

use super::checks::check;
use super::perilogs::{self, PerilogEnd};
use super::{async_work, call, chains, outcome, prep, priorities, remote, retention};
use crate::agenda::{Commands, Queued, Work};
use crate::alloc::node_events;
use crate::api::{Effect, Effects, Level, Write};
use crate::core::Core;
use crate::eventlog::{Event, EventEntry};
use crate::exec;
use crate::host::{Command, PluginKey};
use crate::job::{JobId, Reach, State};
use crate::jobs::{Jobs, Record};
use crate::plugin::Perilog;
use crate::plugins::Plugins;
use crate::topic::TopicId;
use crate::turn::Turn;

/// The prefix of the instance keys under which plugins' data about the instance is stored; the plugin's name follows.
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
        core.turn.agenda.push(Work::Commands(commands));
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
        // Each `job.priority.get` would lead to another one, endlessly.
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
            core.turn.effects.log(Level::Warning, format!("{name}: {origin}: dropped: {reason}"));
        }
    }
}

fn execute(core: &mut Core, plugin: PluginKey, command: Command) {
    let Core { turn, jobs, plugins, alloc, timers, .. } = &mut *core;
    match command {
        Command::AddDependency { job, description } => {
            add_dependency(turn, jobs, plugin, job, &description);
        }
        Command::RemoveDependency { job, description } => {
            if !is_removal_posted(jobs, job, &description) {
                let description = &description;
                jobs.post(turn, job, Event::DependencyRemove { description });
            }
        }
        Command::StartProlog { job, description } => {
            perilogs::start(turn, jobs, plugin, job, Perilog::Prolog, &description);
        }
        Command::StartEpilog { job, description } => {
            perilogs::start(turn, jobs, plugin, job, Perilog::Epilog, &description);
        }
        Command::FinishProlog { job, description, status, failure } => {
            let (kind, description) = (Perilog::Prolog, &*description);
            let end = PerilogEnd { kind, description, status, failure };
            perilogs::finish_own(turn, jobs, plugin, job, end);
        }
        Command::FinishEpilog { job, description, status, failure } => {
            let (kind, description) = (Perilog::Epilog, &*description);
            let end = PerilogEnd { kind, description, status, failure };
            perilogs::finish_own(turn, jobs, plugin, job, end);
        }
        Command::TakeOver { job, perilog, description } => {
            perilogs::own(jobs, plugin, job, perilog, &description);
        }
        Command::LeaveOpen { job, perilog, description } => {
            perilogs::disown(jobs, plugin, job, perilog, &description);
        }
        Command::FailPrep(failure) => prep::fail(core, plugin, failure),
        Command::Raise { job, exception } => jobs.raise(turn, job, &exception),
        Command::EndWithEpilog { job, description, exception } => {
            perilogs::start(turn, jobs, plugin, job, Perilog::Epilog, &description);
            jobs.raise(turn, job, &exception);
        }
        Command::Reprioritize { job, priority } => outcome::set_priority(turn, jobs, job, priority),
        Command::ReprioritizeAll => priorities::ask_all(&mut turn.agenda, jobs),
        Command::UpdateJobspec { job, updates } => {
            jobs.post(turn, job, Event::JobspecUpdate(&updates.into()));
        }
        Command::PostEvent { job, name, context } => {
            let entry = EventEntry::new(turn.clock.now, name.into_inner(), context);
            jobs.post_entry(&mut turn.agenda, job, entry);
        }
        Command::SetUrgency { job, urgency } => {
            let userid = Some(turn.owner);
            jobs.post(turn, job, Event::Urgency { userid, urgency });
        }
        Command::Memo { job, memo } => {
            jobs.post(turn, job, Event::Memo(&memo.into()));
        }
        Command::SetExpiration { job, at } => {
            jobs.post(turn, job, Event::ResourceUpdate { expiration: at.as_secs() });
        }
        Command::PutGuest { job, key, value } => {
            jobs.put(&mut turn.effects, job, format!("guest.{key}"), value.to_string());
        }
        Command::Annotate { job, annotations } => {
            if jobs.state(job) != Some(State::Inactive) {
                jobs.attributions.annotated(job, plugin, &annotations);
            }
            jobs.post_annotations(turn, job, annotations.clone());
            outcome::store_annotations(&mut turn.effects, jobs, job, annotations);
        }
        Command::SetFlag { job, flag } => jobs.post(turn, job, Event::SetFlags(vec![flag])),
        Command::Signal { job, signal } => {
            exec::signal(&mut turn.effects, jobs, job, signal, Reach::Group);
        }
        Command::Drain { ranks, reason } => {
            node_events::drain_for_owner(turn, alloc, timers, &ranks, &reason)
        }
        Command::Retain { job } => {
            retention::retain(&mut turn.effects, jobs, plugins, alloc, plugin, job)
        }
        Command::FreeRetained { job, ranks } => {
            retention::free(&mut turn.effects, plugins, alloc, plugin, job, &ranks)
        }
        Command::Subscribe { job } => {
            if let Some(record) = jobs.get_mut(job) {
                record.subscribe(plugin);
            }
        }
        Command::Unsubscribe { job } => {
            if let Some(record) = jobs.get_mut(job) {
                record.unsubscribe(plugin);
            }
        }
        Command::SetData { job, value, volatile } => {
            set_data(&mut turn.effects, jobs, plugins, plugin, job, value, volatile)
        }
        Command::SetInstanceData { value, volatile } => {
            set_instance_data(&mut turn.effects, plugins, plugin, value, volatile);
        }
        Command::Respond { to, payload } => {
            plugins.respond(&mut turn.effects, plugin, to, payload);
        }
        Command::Answer { to, result } => {
            plugins.answer(&mut turn.effects, plugin, to, result);
        }
        Command::Verdict { job, verdict } => {
            plugins.give_verdict(&mut turn.agenda, plugin, job, verdict.map_err(Into::into));
        }
        Command::Process(command) => {
            let command = Box::new(command);
            turn.effects.after.push(Effect::Process { plugin, command });
        }
        Command::Rpc(command) => turn.effects.after.push(Effect::Rpc { plugin, command }),
        Command::Then { work } => remote::resume(core, plugin, work),
        Command::Blocking(command) => {
            turn.effects.after.push(Effect::Blocking { plugin, command });
        }
        Command::BeginWork(work) => {
            async_work::begin(&mut turn.effects, jobs, plugin, work);
        }
        Command::WorkEnded { job, what } => async_work::end(jobs, plugin, job, &what),
        Command::NotifyAtJobEnd { job, work } => async_work::at_end(core, plugin, job, work),
        Command::UserMessage { request, text } => chains::note_message(plugins, request, text),
        Command::BeginRequestWork(work) => {
            chains::begin_work(&mut turn.effects, plugins, plugin, work)
        }
        Command::AnswerRequest { request, answer } => {
            chains::take_answer(turn, plugins, plugin, request, answer);
        }
        Command::StartTimer { key, due, work } => {
            timers.start_for(&mut turn.effects, turn.clock.now, plugin, (key, due, work));
        }
        Command::CancelTimer { key } => timers.stop_plugin_timer(key),
        Command::Spawn(future) => turn.effects.after.push(Effect::Spawn(future)),
        Command::PollTook { topic, job, milliseconds } => {
            call::log_slow_poll(&mut turn.effects, plugins, plugin, topic, job, milliseconds);
        }
        Command::Log { level, text } => {
            let name = plugins.name(plugin);
            turn.effects.log(level, format!("{name}: {text}"));
        }
        Command::LogForJob { job, level, text } => {
            turn.effects.log(level, format!("{job}: {text}"))
        }
    }
}

/// Adds a dependency, and makes the plugin its owner. A description works once per job; adding it again is no error,
/// since plugins do so after a restart.
fn add_dependency(
    turn: &mut Turn,
    jobs: &mut Jobs,
    plugin: PluginKey,
    job: JobId,
    description: &str,
) {
    let Some(record) = jobs.get_mut(job) else {
        return;
    };
    // The last plugin that asks is the owner: after a reload, that is the new instance.
    record.dependency_owners.retain(|(known, _)| **known != *description);
    record.dependency_owners.push((description.into(), plugin));
    let known =
        record.job.kept().dependencies.iter().any(|known| *known.description == *description);
    // The event may also be posted already, if another plugin or an earlier callback has added the dependency.
    if !known && last_posted(record, description).is_none() {
        jobs.post(turn, job, Event::DependencyAdd { description });
    }
}

/// Whether the last posted event about a dependency removes it.
fn is_removal_posted(jobs: &Jobs, job: JobId, description: &str) -> bool {
    let last = jobs.get(job).and_then(|record| last_posted(record, description));
    matches!(last, Some(Event::DependencyRemove { .. }))
}

/// The last event about a dependency that is posted and not applied yet.
fn last_posted<'a>(record: &'a Record, about: &str) -> Option<Event<'a>> {
    let posted = record.pending_events.iter().rev();
    posted.filter_map(|entry| entry.event().ok()).find(|event| match event {
        Event::DependencyAdd { description } | Event::DependencyRemove { description } => {
            *description == about
        }
        _ => false,
    })
}

fn set_data(
    effects: &mut Effects,
    jobs: &mut Jobs,
    plugins: &Plugins,
    plugin: PluginKey,
    job: JobId,
    value: Value,
    volatile: bool,
) {
    let name = plugins.name(plugin);
    if !volatile {
        jobs.put(effects, job, format!("data.{name}"), value.to_string());
    }
    if let Some(record) = jobs.get_mut(job) {
        let data: &mut Map<String, Value> = match volatile {
            true => record.volatile_data.get_or_insert_default(),
            false => &mut record.data,
        };
        data.insert(name.to_string(), value);
    }
}

fn set_instance_data(
    effects: &mut Effects,
    plugins: &mut Plugins,
    plugin: PluginKey,
    value: Value,
    volatile: bool,
) {
    let name = plugins.name(plugin);
    if !volatile {
        let key = format!("{INSTANCE_DATA}{name}");
        effects.writes.push(Write::PutInstance { key, value: value.to_string() });
    }
    plugins.instance_data.insert(name.to_string(), value);
}
