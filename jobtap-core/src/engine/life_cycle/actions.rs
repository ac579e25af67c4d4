//! What the manager itself does for a job in each state.
//!
//! An action can run any number of times: it does what is still to be done, and posts nothing that
//! is posted already.

use super::waiters;
use crate::engine::agenda::Cause;
use crate::engine::alloc::schedule;
use crate::engine::core::Core;
use crate::engine::dispatch::{async_work, prep};
use crate::engine::jobs::{Phase, Record};
use crate::engine::{events, exec};
use crate::host::Perilog;
use crate::job::{JobId, State};
use crate::topic::TopicId;

/// Does what a job's state asks for.
pub(crate) fn act(core: &mut Core, id: JobId) {
    match core.jobs.state(id) {
        None | Some(State::New) => {}
        Some(State::Depend) => act_in_depend(core, id),
        Some(State::Priority) => schedule::dequeue(core, id),
        Some(State::Sched) => act_in_sched(core, id),
        Some(State::Run) => act_in_run(core, id),
        Some(State::Cleanup) => act_in_cleanup(core, id),
        Some(State::Inactive) => act_in_inactive(core, id),
    }
}

/// Posts `depend` once no dependency is open.
fn act_in_depend(core: &mut Core, id: JobId) {
    let is_blocked = |record: &Record| {
        record.job.dependencies().next().is_some()
            || record.pending_events.contains("dependency-add")
            || record.pending_events.contains("depend")
    };
    if core.jobs.get(id).is_some_and(|record| !is_blocked(record)) {
        core.post(id, events::bare(core.clock.now, "depend"));
    }
}

/// Lets the job wait for resources, or allocates those that a plugin has given it.
fn act_in_sched(core: &mut Core, id: JobId) {
    let Some(record) = core.jobs.get(id) else {
        return;
    };
    let bypass =
        record.set_flags.alloc_bypass && record.job.priority.is_some_and(|value| value > 0);
    if !bypass {
        return schedule::enqueue_job(core, id);
    }
    let ready = record.job.resources.is_some() && !record.pending_events.contains("alloc");
    schedule::dequeue(core, id);
    if ready {
        core.post(id, events::alloc_bypass(core.clock.now));
    }
}

/// Executes the job once no prolog is open.
fn act_in_run(core: &mut Core, id: JobId) {
    schedule::dequeue(core, id);
    let Some(record) = core.jobs.get(id) else {
        return;
    };
    let is_blocked =
        record.perilogs.is_open(Perilog::Prolog) || record.pending_events.contains("prolog-start");
    if record.execution.phase == Phase::Idle
        && !is_blocked
        && !record.pending_events.contains("exception")
        && !prep::begin_prologs(core, id)
    {
        exec::execute(core, id, false);
    }
}

/// Posts `free`, and then `clean`, once the job has no tasks and no perilog is open.
fn act_in_cleanup(core: &mut Core, id: JobId) {
    schedule::dequeue(core, id);
    let Some(record) = core.jobs.get_mut(id) else {
        return;
    };
    let expiry = record.execution.expiry.take();
    let has_tasks = record.execution.phase.is_open();
    let is_blocked = has_tasks
        || record.perilogs.is_open(Perilog::Prolog)
        || record.perilogs.is_open(Perilog::Epilog)
        || record.pending_events.contains("prolog-start")
        || record.pending_events.contains("epilog-start");
    let next = if record.allocation.is_allocated() { "free" } else { "clean" };
    let due = !is_blocked && !record.pending_events.contains(next);
    core.timers.stop(expiry);
    if !has_tasks && due && prep::begin_epilogs(core, id) {
        return;
    }
    if due {
        core.post(id, events::bare(core.clock.now, next));
    }
}

/// Drops what only an active job needs, and tells plugins and waiters that the job is inactive.
fn act_in_inactive(core: &mut Core, id: JobId) {
    let Some(record) = core.jobs.get_mut(id) else {
        return;
    };
    record.drop_active_parts();
    let end = record.job.times.inactive().unwrap_or(core.clock.now);
    async_work::abort_all(&mut core.jobs, id);
    // An update whose validation is still awaited.
    core.plugins.refuse_suspended(&mut core.agenda, id, "job is inactive");
    // Once only: the action can run again.
    if core.jobs.inactive.add(id, end) {
        waiters::respond_to_waiter(core, id);
        show_inactive(core, id);
    }
}

/// Calls `job.inactive-add`, then `job.destroy`.
pub(crate) fn show_inactive(core: &mut Core, id: JobId) {
    core.touch(id);
    core.notify(TopicId::JobDestroy, id, Cause::None);
    core.notify(TopicId::JobInactiveAdd, id, Cause::None);
}
