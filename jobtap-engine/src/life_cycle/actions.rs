//! What the manager itself does for a job in each state.
//!
//! An action can run any number of times: it does what is still to be done, and posts nothing that
//! is posted already.

use crate::agenda::Cause;
use crate::alloc::{Allocation, schedule};
use crate::core::Core;
use crate::dispatch::{async_work, prep};
use crate::eventlog::{Allocated, Event, Name};
use crate::exec;
use crate::job::{JobId, State};
use crate::jobs::waiters::Waiters;
use crate::jobs::{Jobs, Phase, Record};
use crate::plugin::Perilog;
use crate::plugins::Plugins;
use crate::topic::TopicId;
use crate::turn::Turn;

/// Does what a job's state asks for.
pub(crate) fn act(core: &mut Core, id: JobId) {
    let Core { turn, jobs, plugins, alloc, waiters, .. } = &mut *core;
    match jobs.state(id) {
        None | Some(State::New) => {}
        Some(State::Depend) => act_in_depend(turn, jobs, id),
        Some(State::Priority) => schedule::dequeue(jobs, alloc, id),
        Some(State::Sched) => act_in_sched(turn, jobs, alloc, id),
        Some(State::Run) => act_in_run(core, id),
        Some(State::Cleanup) => act_in_cleanup(core, id),
        Some(State::Inactive) => act_in_inactive(turn, jobs, plugins, waiters, id),
    }
}

/// Posts `depend` once no dependency is open.
fn act_in_depend(turn: &mut Turn, jobs: &mut Jobs, id: JobId) {
    let is_blocked = |record: &Record| {
        record.job.dependencies().next().is_some()
            || record.pending_events.contains(&Name::DependencyAdd)
            || record.pending_events.contains(&Name::Depend)
    };
    if jobs.get(id).is_some_and(|record| !is_blocked(record)) {
        jobs.post(turn, id, Event::Depend);
    }
}

/// Lets the job wait for resources, or allocates those that a plugin has given it.
fn act_in_sched(turn: &mut Turn, jobs: &mut Jobs, alloc: &mut Allocation, id: JobId) {
    let Some(record) = jobs.get(id) else {
        return;
    };
    let bypass =
        record.set_flags.alloc_bypass && record.job.priority().is_some_and(|value| value > 0);
    if !bypass {
        return schedule::place_in_queue(turn, jobs, alloc, id);
    }
    let ready =
        record.job.kept().resources.is_some() && !record.pending_events.contains(&Name::Alloc);
    schedule::dequeue(jobs, alloc, id);
    if ready {
        jobs.post(turn, id, Event::Alloc(Allocated { annotations: None, bypass: true }));
    }
}

/// Executes the job once no prolog is open.
fn act_in_run(core: &mut Core, id: JobId) {
    let Core { turn, jobs, plugins, alloc, timers, exec, .. } = core;
    let Some(record) = jobs.get_mut(id) else {
        return;
    };
    alloc.alloc_queues.remove(record);
    match record.execution.phase {
        Phase::Begun => {
            record.execution.phase = Phase::Started;
            return;
        }
        Phase::BegunEarlier => return exec::execute(turn, jobs, timers, *exec, id, false),
        _ => {}
    }
    let is_blocked = record.perilogs.is_open(Perilog::Prolog)
        || record.pending_events.contains(&Name::PrologStart);
    if record.execution.phase == Phase::Idle
        && !is_blocked
        && !record.pending_events.contains(&Name::Exception)
        && !prep::begin_prologs(&mut turn.agenda, jobs, plugins, id)
    {
        exec::execute(turn, jobs, timers, *exec, id, false);
    }
}

/// Posts `free`, and then `clean`, once the job has no tasks and no perilog is open.
fn act_in_cleanup(core: &mut Core, id: JobId) {
    let Core { turn, jobs, plugins, alloc, timers, .. } = core;
    let Some(record) = jobs.get_mut(id) else {
        return;
    };
    alloc.alloc_queues.remove(record);
    let expiry = record.execution.expiry.take();
    let has_tasks = record.execution.phase.is_open();
    let is_blocked = has_tasks
        || record.perilogs.is_open(Perilog::Prolog)
        || record.perilogs.is_open(Perilog::Epilog)
        || record.pending_events.contains(&Name::PrologStart)
        || record.pending_events.contains(&Name::EpilogStart);
    let (name, next) = match record.allocation.is_allocated() {
        true => (Name::Free, Event::Free),
        false => (Name::Clean, Event::Clean),
    };
    let mut due = !is_blocked && !record.pending_events.contains(&name);
    if due && name == Name::Free {
        due = !alloc.prefill.holds_back(&mut turn.effects, id);
    }
    timers.stop(expiry);
    if !has_tasks && due && prep::begin_epilogs(&mut turn.agenda, jobs, plugins, id) {
        return;
    }
    if due {
        jobs.post(turn, id, next);
    }
}

/// Drops what only an active job needs, and tells plugins and waiters that the job is inactive.
fn act_in_inactive(
    turn: &mut Turn,
    jobs: &mut Jobs,
    plugins: &mut Plugins,
    waiters: &mut Waiters,
    id: JobId,
) {
    let Some(record) = jobs.get_mut(id) else {
        return;
    };
    record.drop_active_parts();
    let end = record.job.kept().times.inactive().unwrap_or(turn.clock.now);
    async_work::abort_all(record);
    // The job may have an update whose validation is still awaited.
    plugins.refuse_suspended(&mut turn.agenda, id, "job is inactive");
    // Once only: the action can run again.
    if jobs.inactive.add(id, end) {
        if let Some(record) = jobs.get(id) {
            waiters.respond(&mut turn.effects, record);
        }
        show_inactive(turn, jobs, plugins, id);
    }
}

/// Calls `job.inactive-add`, then `job.destroy`.
pub(crate) fn show_inactive(turn: &mut Turn, jobs: &mut Jobs, plugins: &Plugins, id: JobId) {
    jobs.tidy_later(&mut turn.effects, id);
    plugins.notify(&mut turn.agenda, TopicId::JobDestroy, id, Cause::None);
    plugins.notify(&mut turn.agenda, TopicId::JobInactiveAdd, id, Cause::None);
}
