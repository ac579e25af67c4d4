//! The life of a job: its events, one after the other, and what follows from each.
//!
//! An event is applied to the job, logged, shown to subscribers; then the plugins of the state that
//! was entered are called; then the manager does its own part for that state (`actions`). An event
//! that is posted meanwhile to the same job waits for its turn.

pub(super) mod actions;

use std::sync::Arc;

use super::agenda::{Agenda, Cause, Frame, Purpose, Subject, Work};
use super::alloc::Allocation;
use super::api::{JobLog, Level};
use super::core::Core;
use super::dispatch::shadow;
use super::dispatch::{async_work, dependencies, pushing, resubmission};
use super::exec;
use super::jobs::{Applied, Jobs};
use super::plugins::Plugins;
use super::prefill;
use super::turn::Turn;
use crate::eventlog::{Event, EventEntry, Name};
use crate::host::PluginKey;
use crate::job::{JobId, State};
use crate::topic::TopicId;

/// Applies the next event that is posted to a job.
pub(super) fn apply_next(core: &mut Core, id: JobId) {
    let Some(record) = core.jobs.get_mut(id) else {
        return;
    };
    let next = record.pending_events.pop().or_else(|| {
        let due = record.execution.simulation.take_release();
        due.then(|| exec::LAST_RELEASE.at(core.turn.clock.now))
    });
    let Some(mut entry) = next else {
        core.jobs.go_idle(id);
        return core.jobs.tidy_later(&mut core.turn.effects, id);
    };
    // The `finish` of a job that ended while no manager ran keeps its own time, so that the job's usage is known.
    let started = record.job.t_start();
    let is_from_before = entry.timestamp < core.turn.clock.started_at
        && started.is_some_and(|started| started < entry.timestamp);
    if entry.name != Name::Finish || !is_from_before {
        entry.timestamp = core.turn.clock.in_order(entry.timestamp);
    }
    // First, so that it is done last: everything that follows from this event comes before the next one.
    core.turn.agenda.push(Work::ApplyNextEvent(id));
    if record.is_obsolete(&entry.name) {
        let text = format!("{id}: dropped {}: the job has gone on", entry.name);
        return core.turn.effects.log(Level::Debug, text);
    }
    let entry = Arc::new(entry);
    match record.apply(&entry) {
        Ok(applied) => follow(core, id, &entry, &applied),
        Err(error) => {
            // Only this event is dropped: a later one, such as `depend`, is posted only once.
            core.turn.effects.log(Level::Error, format!("{id}: {error}"));
            core.turn.agenda.push(Work::Act(id));
        }
    }
}

/// Logs an applied event, and puts what follows from it on the agenda. The agenda is a stack: what is to be done last
/// is pushed first. The `follow_*` functions act at once, before everything on the agenda: they change parts of the
/// manager, and call back the plugins that wait for the job's end.
fn follow(core: &mut Core, id: JobId, entry: &Arc<EventEntry>, applied: &Applied<'_>) {
    // Watchers of all jobs see this event, which is in no eventlog (RFC 21).
    if let Event::Annotations(_) = applied.event {
        if core.jobs.is_accepted(id) {
            core.turn.effects.announce(id, entry);
        }
        return show_subscribers(&mut core.turn.agenda, &core.jobs, &core.plugins, id, entry);
    }
    // Logged before any plugin sees it, so that the log is in the order of causes.
    core.jobs.append(&mut core.turn.effects, id, JobLog::Main, entry);
    follow_in_parts(&mut core.jobs, &mut core.alloc, id, entry, applied);
    if let Some(left) = applied.left {
        follow_array(core, id, left);
    }
    core.turn.agenda.push(Work::Act(id));
    if let Some(left) = applied.left {
        enter_state(&mut core.turn, &core.jobs, &mut core.plugins, id, left, entry);
    }
    if applied.left.is_some() || applied.fatal {
        async_work::follow_state(core, id, applied.fatal);
    }
    let Core { turn, jobs, plugins, submissions, alloc, timers, exec, .. } = core;
    match &applied.event {
        Event::Free => prefill::hand_on(turn, jobs, alloc, id),
        Event::Release { ranks, .. } => exec::follow_release(jobs, alloc, id, ranks),
        Event::ResourceUpdate { .. } => exec::time_limit::move_end(turn, jobs, timers, *exec, id),
        // Also in CLEANUP, where no exception changes the job's own end.
        Event::Exception(raised) if raised.is_fatal() && raised.kind == "cancel" => {
            resubmission::give_up(turn, jobs, submissions, id);
        }
        Event::JobspecUpdate(_) => {
            let cause = Cause::Updates(Arc::clone(entry));
            plugins.notify(&mut turn.agenda, TopicId::JobUpdate, id, cause);
        }
        _ => {}
    }
    exec::follow_event(turn, jobs, timers, *exec, id, entry, applied);
    show_subscribers(&mut turn.agenda, jobs, plugins, id, entry);
}

/// Keeps the array of the job in step with it.
fn follow_array(core: &mut Core, id: JobId, left: State) {
    let Core { turn, jobs, plugins, submissions, arrays, .. } = core;
    let Some(record) = jobs.get(id) else { return };
    let is_requeued = submissions.requeues.contains_key(&id);
    if let Some(array) = arrays.follow(record, left, is_requeued) {
        dependencies::recheck_for_array(turn, jobs, plugins, arrays, array);
    }
}

/// Keeps counts and resources in step with the job.
fn follow_in_parts(
    jobs: &mut Jobs,
    alloc: &mut Allocation,
    id: JobId,
    entry: &EventEntry,
    applied: &Applied<'_>,
) {
    match &applied.event {
        Event::Free => {
            if let Some(record) = jobs.get(id) {
                alloc.free(record);
            }
        }
        Event::Finish { .. } => {
            if let Some(record) = jobs.get(id) {
                prefill::note_finish(alloc, record, entry);
            }
        }
        Event::ResourceUpdate { .. } => alloc.pool.plan_anew(),
        _ => {}
    }
    jobs.count_event(id, applied.left, matches!(applied.event, Event::JobspecUpdate(_)));
}

fn enter_state(
    turn: &mut Turn,
    jobs: &Jobs,
    plugins: &mut Plugins,
    id: JobId,
    left: State,
    entry: &Arc<EventEntry>,
) {
    let state = jobs.state(id);
    if state == Some(State::Inactive) && !plugins.shadows.is_empty() {
        shadow::notes::settle(turn.clock.now, jobs, &mut plugins.shadows, id);
    }
    if let Some(topic) = state.and_then(state_topic) {
        plugins.notify(&mut turn.agenda, topic, id, Cause::State(left, Arc::clone(entry)));
    }
}

/// Calls `job.event.*` of the plugins that subscribe to the job.
fn show_subscribers(
    agenda: &mut Agenda,
    jobs: &Jobs,
    plugins: &Plugins,
    id: JobId,
    entry: &Arc<EventEntry>,
) {
    let Some(record) = jobs.get(id) else {
        return;
    };
    if record.subscribers.is_empty() && plugins.shadows.is_empty() {
        return;
    }
    let subscribes = |plugin: PluginKey| record.subscribers.contains(&plugin);
    let handlers = plugins.stack.members(TopicId::JobEvent, &entry.name, subscribes);
    let subject = Subject::Cause(Cause::Event(Arc::clone(entry)));
    let frame = Frame { subject, ..Frame::new(TopicId::JobEvent, id, Purpose::Notify) };
    pushing::push_with_shadows(agenda, plugins, frame, handlers);
}

/// The topic that is called when a state is entered. NEW is entered before there is anything to call.
pub(super) fn state_topic(state: State) -> Option<TopicId> {
    Some(match state {
        State::New => return None,
        State::Depend => TopicId::JobStateDepend,
        State::Priority => TopicId::JobStatePriority,
        State::Sched => TopicId::JobStateSched,
        State::Run => TopicId::JobStateRun,
        State::Cleanup => TopicId::JobStateCleanup,
        State::Inactive => TopicId::JobStateInactive,
    })
}
