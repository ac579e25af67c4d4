//! How requests that wait for jobs are answered.

use serde_json::{Value, json};

use crate::engine::api::RequestError;
use crate::engine::core::Core;
use crate::engine::jobs::Jobs;
use crate::engine::jobs::waiters::{ending, is_waitable};
use crate::host::errno::{ECHILD, ENOSYS};
use crate::job::{JobId, State};

/// Refuses the waiters for which no job is left: each waiter takes one job.
pub(crate) fn refuse_excess(core: &mut Core) {
    while core.waiters.any.len() + core.waiters.by_id.len() > core.waiters.waitable {
        let Some(waiter) = core.waiters.take_last() else {
            return;
        };
        let error = RequestError::new(ECHILD, "there are no more waitable jobs");
        core.reply(waiter, Err(error));
    }
}

/// Refuses all waiters, since the manager ends.
pub(crate) fn refuse_all(core: &mut Core) {
    for waiter in core.waiters.take_all() {
        core.reply(waiter, Err(RequestError::new(ENOSYS, "job-manager is unloading")));
    }
}

/// Counts a job that is active from now on, if it can be waited for.
pub(crate) fn count_waitable(core: &mut Core, id: JobId) {
    if core.jobs.get(id).is_some_and(is_waitable) {
        core.waiters.waitable += 1;
    }
}

/// Answers the waiter for a job that has become inactive, or keeps its ending for a later one.
pub(crate) fn respond_to_waiter(core: &mut Core, id: JobId) {
    let Some(ending) = waitable_ending(&core.jobs, id) else {
        return;
    };
    let waiters = &mut core.waiters;
    waiters.waitable = waiters.waitable.saturating_sub(1);
    match waiters.take(id) {
        Some(waiter) => core.reply(waiter, Ok(ending)),
        None => drop(waiters.unclaimed_results.insert(id, ending)),
    }
    refuse_excess(core);
}

fn waitable_ending(jobs: &Jobs, id: JobId) -> Option<Value> {
    jobs.get(id).filter(|record| is_waitable(record)).map(ending)
}

/// Answers the `drain` and `idle` requests if there is nothing left to wait for.
pub(crate) fn answer_idle(core: &mut Core) {
    if core.waiters.drain.is_empty() && core.waiters.idle.is_empty() {
        return;
    }
    let counts = &core.jobs.counts.all;
    let running = counts.count(&[State::Run, State::Cleanup]);
    let pending = counts.count(&[State::New, State::Depend, State::Priority, State::Sched]);
    if running > 0 {
        return;
    }
    if pending == 0 {
        for waiter in std::mem::take(&mut core.waiters.drain) {
            core.reply(waiter, Ok(json!({})));
        }
    }
    if core.alloc.alloc_queues.is_empty() {
        for waiter in std::mem::take(&mut core.waiters.idle) {
            core.reply(waiter, Ok(json!({ "pending": pending })));
        }
    }
}
