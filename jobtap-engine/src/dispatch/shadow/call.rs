//! A call of a shadow, and what follows from it for the shadow alone.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use super::host::ShadowHost;
use super::notes::{self, record};
use crate::agenda::Queued;
use crate::api::{Effects, Level};
use crate::core::Core;
use crate::dispatch::buffer::{BufferContent, CommandBuffer};
use crate::dispatch::host::CallbackHost;
use crate::dispatch::{async_work, faulted, overlay};
use crate::host::{Args, BoundHandler, Command, Detail, Fault, Outcome, PluginKey, RemoteWork};
use crate::job::{Job, JobId, State};
use crate::jobs::Jobs;
use crate::plugin::Priority;
use crate::plugins::Plugins;
use crate::shadows::compare::{Side, alone, priorities};
use crate::shadows::{Shadow, Shadows};
use crate::timers::Timers;
use crate::topic::TopicId;
use crate::transcript::{Action, Kind, Transcript, fault_text};
use crate::turn::Turn;

/// Whether the time of a call is charged to the shadow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Charge {
    Yes,
    /// While the shadow is loaded: loading a live plugin takes the same time.
    No,
}

/// What a shadow is called with.
#[derive(Clone, Copy)]
pub(super) struct Topic<'a> {
    pub(super) topic: TopicId,
    /// The job that is shown in place of the one that the engine knows.
    pub(super) trial: Option<&'a Job>,
    pub(super) job: Option<JobId>,
    pub(super) detail: Detail<'a>,
}

/// The transcript of a shadow, with its outcome if it has one.
pub(super) struct Called {
    pub(super) transcript: Transcript,
    pub(super) result: Result<Outcome, Fault>,
}

/// Calls one handler of a shadow. `None` if the shadow was stopped, or the job doesn't exist.
pub(super) fn call(
    core: &mut Core,
    bound: &BoundHandler,
    topic: Topic<'_>,
    charge: Charge,
) -> Option<Called> {
    let key = bound.plugin();
    let buffer = CommandBuffer::default();
    let (result, milliseconds) = {
        let core = &*core;
        let shadow = core.plugins.shadows.get(key).filter(|shadow| shadow.stopped.is_none())?;
        let job = match (topic.trial, topic.job) {
            (Some(trial), _) => Some(trial),
            (None, Some(id)) => Some(core.jobs.job(id)?),
            (None, None) => None,
        };
        let host = shadow_host(core, shadow, topic.job, &buffer);
        if let Some(job) = job {
            host.show_own(job);
        }
        let args = Args { host: &host, topic: topic.topic, job, detail: topic.detail };
        let called = bound.call(&args, &core.plugins.ticks);
        if let Some(trial) = topic.trial {
            // Nothing else undoes what is noted on the trial job, and the live plugins see it next.
            trial.overlay().undo(0, false);
        }
        called
    };
    let result = result.map_err(|fault| *fault);
    Some(finish(core, key, topic, charge, Returned { result, milliseconds, buffer }))
}

fn shadow_host<'e>(
    core: &'e Core,
    shadow: &'e Shadow,
    current: Option<JobId>,
    buffer: &'e CommandBuffer,
) -> ShadowHost<'e> {
    let plugin = Cell::new(&*shadow.plugin);
    ShadowHost { live: CallbackHost { core, plugin, current, buffer }, shadow }
}

/// What a callback has come back with.
struct Returned {
    result: Result<Outcome, Fault>,
    milliseconds: u64,
    buffer: CommandBuffer,
}

/// Handles what a callback has led to.
fn finish(
    core: &mut Core,
    key: PluginKey,
    topic: Topic<'_>,
    charge: Charge,
    returned: Returned,
) -> Called {
    let Returned { result, milliseconds, buffer } = returned;
    if matches!(&result, Err(fault) if !matches!(fault, Fault::Panic(_))) {
        // As for a live plugin.
        buffer.drop_updates(0);
    }
    let BufferContent { mut commands, noted, .. } = buffer.into_content();
    overlay::clear(&mut core.jobs, noted);
    let mut transcript = Transcript::default();
    match &result {
        Ok(outcome) => transcript.add_outcome(outcome, topic.job),
        Err(fault) => {
            transcript.failed = Some(fault_text(fault));
            if matches!(fault, Fault::Panic(_)) {
                commands.clear();
            }
        }
    }
    for queued in &commands {
        transcript.add_command(&queued.command);
    }
    if core.plugins.shadows.get(key).is_some_and(|shadow| !has_live(&core.plugins, shadow)) {
        // Asking for the priority that the job already has is no difference.
        transcript
            .actions
            .retain(|action| action.kind != Kind::Priority || !is_present(&core.jobs, action));
    }
    for Queued { command, .. } in commands {
        keep(core, key, command);
    }
    if let Err(Fault::Panic(text)) = &result {
        note_panic(core, key, topic.topic.name(), text);
    }
    let Core { turn, plugins, timers, .. } = core;
    take_time(turn, &mut plugins.shadows, timers, key, milliseconds, charge);
    Called { transcript, result }
}

/// Carries out those commands that concern the shadow alone. The others are only recorded.
fn keep(core: &mut Core, key: PluginKey, command: Command) {
    match command {
        Command::StartTimer { key: timer, due, work } => {
            let Core { turn, timers, .. } = core;
            timers.start_for(&mut turn.effects, turn.clock.now, key, (timer, due, work));
            return;
        }
        Command::CancelTimer { key: timer } => return core.timers.stop_plugin_timer(timer),
        // By the agenda, so that work that asks for further work needs no machine stack.
        Command::Then { .. } => {
            let queued = vec![Queued { plugin: key, command }];
            return core.turn.agenda.push_commands("later", queued);
        }
        Command::NotifyAtJobEnd { job, work } => return async_work::at_end(core, key, job, work),
        Command::Log { level, text } => {
            return log(&mut core.turn.effects, &core.plugins.shadows, key, level, &text);
        }
        Command::LogForJob { job, level, text } => {
            let text = format!("{job}: {text}");
            return log(&mut core.turn.effects, &core.plugins.shadows, key, level, &text);
        }
        Command::ReprioritizeAll => return ask_if_alone(core, key),
        _ => {}
    }
    let Some(shadow) = core.plugins.shadows.get_mut(key) else { return };
    match command {
        Command::SetData { job, value, .. } => shadow.on_job(job).data = Some(value),
        Command::SetInstanceData { value, .. } => shadow.instance_data = Some(value),
        Command::Subscribe { job } => shadow.on_job(job).subscribed = true,
        Command::Unsubscribe { job } => shadow.on_job(job).subscribed = false,
        Command::AddDependency { job, description } => {
            let own = &mut shadow.on_job(job).dependencies;
            if own.iter().all(|(known, _)| **known != *description) {
                own.push((description.into(), true));
            }
        }
        Command::RemoveDependency { job, description } => {
            let own = &mut shadow.on_job(job).dependencies;
            match own.iter_mut().find(|(known, _)| **known == *description) {
                Some((_, open)) => *open = false,
                None => own.push((description.into(), false)),
            }
        }
        Command::UpdateJobspec { job, updates } => shadow.on_job(job).updates.extend(updates),
        _ => {}
    }
}

/// Asks a shadow for all priorities, as it has requested, unless there is a live plugin of its name: that one requests
/// the same, and the shadow is asked along with it.
fn ask_if_alone(core: &mut Core, key: PluginKey) {
    let Some(shadow) = core.plugins.shadows.get(key) else { return };
    if !shadow.is_asked && !has_live(&core.plugins, shadow) {
        ask_all(core, key, Charge::Yes);
    }
}

/// Asks a shadow for the priority of each waiting job, and compares it with the one that the job has.
pub(super) fn ask_all(core: &mut Core, key: PluginKey, charge: Charge) {
    let topic = TopicId::JobPriorityGet;
    let Some(shadow) = core.plugins.shadows.get_mut(key) else { return };
    shadow.is_asked = true;
    let name = Arc::clone(shadow.plugin.name());
    let handlers = shadow.stack.handlers(topic).map(Rc::clone).unwrap_or_default();
    // A later plugin in the stack may override the shadow's answer; then the result is unknown.
    let mut live = core.plugins.stack.handlers(topic).into_iter().flat_map(|list| list.iter());
    let has_place = live.any(|bound| **bound.instance().name() == *name);
    let is_last = !(has_place && live.any(|bound| bound.entry().returns_value));
    let jobs = core.jobs.active_where(|record| record.is_accepted() && waits(record.job.state()));
    for id in jobs {
        let Some(shadow) = core.plugins.shadows.get(key) else { return };
        if shadow.has_refused(id) {
            continue;
        }
        let mut priority = Priority::Unchanged;
        for bound in handlers.iter() {
            let topic = Topic { topic, trial: None, job: Some(id), detail: Detail::None };
            match call(core, bound, topic, charge) {
                Some(called) => priority = called.transcript.priority,
                None => break,
            }
        }
        let Some(job) = core.jobs.job(id) else { continue };
        let is_decided = job.priority().is_some() && job.kept().urgency.forced_priority().is_none();
        let present = present_priority(job);
        if is_last
            && is_decided
            && matches!(priority, Priority::Set(_))
            && let Some(found) = priorities(id, present, priority)
        {
            let now = core.turn.clock.now;
            record(now, &core.jobs, &mut core.plugins.shadows, key, topic.name(), vec![found]);
        }
    }
    if let Some(shadow) = core.plugins.shadows.get_mut(key) {
        shadow.is_asked = false;
    }
}

/// Whether a live plugin has the shadow's name.
fn has_live(plugins: &Plugins, shadow: &Shadow) -> bool {
    plugins.stack.find(shadow.plugin.name()).is_some()
}

/// Whether the job has the priority that is asked for.
fn is_present(jobs: &Jobs, action: &Action) -> bool {
    let present = action.job.and_then(|id| jobs.job(id)?.priority());
    present.is_some_and(|present| present.to_string() == action.text)
}

/// The priority that a job has now.
fn present_priority(job: &Job) -> Priority {
    job.priority().map_or(Priority::Unchanged, Priority::Set)
}

/// Handles work of a shadow that has come back to it.
pub(crate) fn resume(core: &mut Core, key: PluginKey, work: RemoteWork) {
    let Some(shadow) = core.plugins.shadows.get(key).filter(|shadow| shadow.stopped.is_none())
    else {
        return;
    };
    let plugin = Rc::clone(&shadow.plugin);
    let topic = Topic { topic: TopicId::Unlisted, trial: None, job: None, detail: Detail::None };
    let transcript = match work {
        RemoteWork::Commands(commands) => {
            let mut transcript = Transcript::default();
            commands.iter().for_each(|command| transcript.add_command(command));
            commands.into_iter().for_each(|command| keep(core, key, command));
            transcript
        }
        RemoteWork::Call(call) => {
            let buffer = CommandBuffer::default();
            let called = {
                let core = &*core;
                let Some(shadow) = core.plugins.shadows.get(key) else { return };
                let host = shadow_host(core, shadow, None, &buffer);
                let args = Args::new(&host, TopicId::Unlisted);
                plugin.call_outside_topics(&core.plugins.ticks, |plugin| call(plugin, &args))
            };
            let Some((result, milliseconds)) = called else { return };
            let result = result.map(|()| Outcome::default()).map_err(Fault::from);
            let returned = Returned { result, milliseconds, buffer };
            finish(core, key, topic, Charge::Yes, returned).transcript
        }
    };
    let Core { turn, jobs, plugins, .. } = core;
    let Some(shadow) = plugins.shadows.get(key) else { return };
    let (has_live, shadows, now) =
        (has_live(plugins, shadow), &mut plugins.shadows, turn.clock.now);
    match has_live {
        true => notes::note(now, jobs, shadows, key, Side::Shadow, transcript.actions),
        false => record(now, jobs, shadows, key, "later", alone(transcript.actions)),
    }
}

/// Counts a panic. A shadow is stopped after as many panics as make a live plugin faulted.
fn note_panic(core: &mut Core, key: PluginKey, topic: &str, text: &str) {
    let Core { turn, plugins, timers, .. } = core;
    let (shadows, limit) = (&mut plugins.shadows, plugins.panic_limit);
    let text = format!("{topic}: panicked: {text}");
    log(&mut turn.effects, shadows, key, Level::Error, &text);
    let Some(shadow) = shadows.get_mut(key) else { return };
    if faulted::record_panic(&mut shadow.panics, turn.clock.now, limit) {
        let why = format!("it panicked {limit} times within {} s", faulted::PERIOD);
        stop(&mut turn.effects, shadows, timers, key, why);
    }
}

fn take_time(
    turn: &mut Turn,
    shadows: &mut Shadows,
    timers: &mut Timers,
    key: PluginKey,
    milliseconds: u64,
    charge: Charge,
) {
    let now = turn.clock.now;
    let Some(shadow) = shadows.get_mut(key) else { return };
    match charge {
        Charge::No => shadow.budget.note(milliseconds),
        Charge::Yes if shadow.budget.charge(now, milliseconds) => {}
        Charge::Yes => {
            let text = format!(
                "it took more than {} % of the time and {} s beyond that",
                crate::shadows::budget::SHARE * 100.0,
                crate::shadows::budget::CREDIT / 1000.0
            );
            stop(&mut turn.effects, shadows, timers, key, text);
        }
    }
}

/// Stops a shadow: it is not called any more, and what it has recorded stays.
fn stop(
    effects: &mut Effects,
    shadows: &mut Shadows,
    timers: &mut Timers,
    key: PluginKey,
    why: String,
) {
    log(effects, shadows, key, Level::Error, &format!("stopped: {why}"));
    timers.stop_timers_of(&[key]);
    if let Some(shadow) = shadows.get_mut(key) {
        shadow.stopped.get_or_insert(why);
    }
}

/// Writes to the manager's log in the name of a shadow.
pub(super) fn log(
    effects: &mut Effects,
    shadows: &Shadows,
    key: PluginKey,
    level: Level,
    text: &str,
) {
    let Some(shadow) = shadows.get(key) else { return };
    let text = format!("{} (shadow): {text}", shadow.plugin.name());
    effects.log(level, text);
}

/// Whether a job waits, so that its priority decides something.
fn waits(state: State) -> bool {
    matches!(state, State::Priority | State::Sched)
}
