//! The life of a job: its events, one after the other, and what follows from each.
//!
//! An event is applied to the job, logged, shown to subscribers; then the plugins of the state that
//! was entered are called; then the manager does its own part for that state (`actions`). An event
//! that is posted meanwhile to the same job waits for its turn.

pub(super) mod actions;
pub(super) mod waiters;

use std::sync::Arc;

use super::agenda::{Cause, Frame, Purpose, Subject, Work};
use super::api::{JobLog, Level};
use super::core::Core;
use super::dispatch::{async_work, frames};
use super::events::{self, ANNOTATIONS};
use super::exec;
use super::jobs::Applied;
use super::shadow;
use crate::eventlog::EventEntry;
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
        due.then(|| events::release(core.clock.now))
    });
    let Some(mut entry) = next else {
        core.jobs.rest(id);
        return core.touch(id);
    };
    // A job that ended while no manager ran has its own time, so that what it used can be told.
    let started = record.job.t_start();
    let is_from_before = entry.timestamp < core.clock.started_at
        && started.is_some_and(|started| started < entry.timestamp);
    if entry.name != "finish" || !is_from_before {
        entry.timestamp = core.clock.in_order(entry.timestamp);
    }
    // First, so that it is done last: everything that follows from this event comes before the next one.
    core.agenda.push(Work::ApplyNextEvent(id));
    if record.is_obsolete(&entry.name) {
        let text = format!("{id}: dropped {}: the job has gone on", entry.name);
        return core.log(Level::Debug, text);
    }
    let entry = Arc::new(entry);
    match record.apply(&entry) {
        Ok(applied) => follow(core, id, &entry, applied),
        Err(error) => {
            // Only this event is dropped: one behind it, such as `depend`, is posted only once.
            core.log(Level::Error, format!("{id}: {error}"));
            core.agenda.push(Work::Act(id));
        }
    }
}

/// Logs an applied event, and puts what follows from it on the agenda. The agenda is a stack: what is
/// to be done last is pushed first. The `follow_*` functions act at once, before all that is on the
/// agenda: they change parts of the manager, and call back the plugins that wait for the job's end.
fn follow(core: &mut Core, id: JobId, entry: &Arc<EventEntry>, applied: Applied) {
    if entry.name == ANNOTATIONS {
        if core.jobs.is_accepted(id) {
            core.effects.announce(id, entry);
        }
        return show_subscribers(core, id, entry);
    }
    // Logged before any plugin sees it, so that the log is in the order of causes.
    core.append(id, JobLog::Main, entry);
    follow_in_parts(core, id, entry, applied);
    core.agenda.push(Work::Act(id));
    if let Some(left) = applied.left {
        enter_state(core, id, left, entry);
    }
    if applied.left.is_some() || applied.fatal {
        async_work::follow_state(core, id, applied.fatal);
    }
    match &*entry.name {
        "release" => exec::follow_release(core, id, entry),
        "resource-update" => exec::time_limit::move_end(core, id),
        "jobspec-update" => {
            core.notify(TopicId::JobUpdate, id, Cause::Updates(Arc::clone(entry)));
        }
        _ => {}
    }
    exec::follow_event(core, id, entry, applied.fatal);
    show_subscribers(core, id, entry);
}

/// Keeps counts and resources in step with the job.
fn follow_in_parts(core: &mut Core, id: JobId, entry: &EventEntry, applied: Applied) {
    let (jobs, alloc) = (&mut core.jobs, &mut core.alloc);
    match &*entry.name {
        "free" => {
            if let Some(record) = jobs.get(id) {
                alloc.free(record);
            }
        }
        "resource-update" => alloc.pool.ends_have_changed(),
        _ => {}
    }
    jobs.count_event(id, applied.left, entry.name == "jobspec-update");
}

fn enter_state(core: &mut Core, id: JobId, left: State, entry: &Arc<EventEntry>) {
    let state = core.jobs.state(id);
    if state == Some(State::Inactive) && !core.plugins.shadows.is_empty() {
        shadow::notes::settle(core, id);
    }
    if let Some(topic) = state.and_then(state_topic) {
        core.notify(topic, id, Cause::State(left, Arc::clone(entry)));
    }
}

/// Calls `job.event.*` of the plugins that subscribe to the job.
fn show_subscribers(core: &mut Core, id: JobId, entry: &Arc<EventEntry>) {
    let Some(record) = core.jobs.get(id) else {
        return;
    };
    if record.subscribers.is_empty() && core.plugins.shadows.is_empty() {
        return;
    }
    let subscribes = |plugin: PluginKey| record.subscribers.contains(&plugin);
    let handlers = core.plugins.stack.members(TopicId::JobEvent, &entry.name, subscribes);
    let subject = Subject::Cause(Cause::Event(Arc::clone(entry)));
    let frame = Frame { subject, ..Frame::new(TopicId::JobEvent, id, Purpose::Notify) };
    frames::push_with_shadows(core, frame, handlers);
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
