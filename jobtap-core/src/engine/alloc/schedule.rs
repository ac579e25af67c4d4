//! The decisions of the schedulers, carried out.

use std::num::NonZeroU32;

use serde_json::json;

use super::alloc_queues::AllocQueues;
use super::in_use;
use crate::engine::api::Level;
use crate::engine::core::Core;
use crate::engine::events;
use crate::engine::jobs::Record;
use crate::host::JobFlag;
use crate::job::{JobId, State};
use crate::queue::Queues;
use crate::resource::ResourceSet;
use crate::sched::{Answer, Decision, Place, Turn};

/// Lets the schedulers decide which jobs start; returns whether anything was decided.
pub(crate) fn run(core: &mut Core) -> bool {
    let alloc = &mut core.alloc;
    alloc.alloc_queues.follow_nodes(&alloc.queues, &alloc.pool);
    let mut decided = run_in_order(core);
    for queue in core.alloc.alloc_queues.in_turn() {
        decided |= run_queue(core, queue, None);
    }
    for text in core.alloc.alloc_queues.take_panics() {
        core.log(Level::Error, text);
    }
    decided
}

/// Lets queues that share nodes take turns, so that their jobs start in one order of priority, until a job of each
/// queue can't start: from there on, the queue's scheduler decides which of its jobs pass others.
fn run_in_order(core: &mut Core) -> bool {
    let (mut decided, mut blocked) = (false, Vec::new());
    while let Some((queue, until)) = core.alloc.alloc_queues.first_of_sharing(&blocked) {
        decided |= run_queue(core, queue, Some(until));
        if core.alloc.alloc_queues.starts_before(queue, until) {
            blocked.push(queue);
        }
    }
    decided
}

/// Lets a scheduler decide, with `until` only about the jobs before that one of another queue.
fn run_queue(core: &mut Core, queue: usize, until: Option<Place>) -> bool {
    let (jobs, now) = (&core.jobs, core.clock.now.as_secs());
    let jobspec = |id: JobId| {
        let record = jobs.get(id).filter(|record| record.job.state == State::Sched)?;
        Some(&record.job.jobspec)
    };
    // Taken apart: the scheduler changes the pool while it reads what is in use.
    let alloc = &mut core.alloc;
    let (allocated_jobs, retained) = (&alloc.allocated_jobs, &alloc.retained);
    // Made only when the scheduler asks: most turns allocate without looking at what is in use.
    let running = || in_use(jobs, allocated_jobs, retained, now);
    let pool = &mut alloc.pool;
    let Some(queue) = alloc.alloc_queues.get_mut(queue) else {
        return false;
    };
    let (mut decided, mut passed_over) = (Vec::new(), Vec::new());
    queue.with_scheduler(|scheduler, queue| {
        let (jobspec, running, decided) = (&jobspec, &running, &mut decided);
        let passed_over = &mut passed_over;
        let turn = Turn { now, pool, queue, until, jobspec, running, decided, passed_over };
        scheduler.turn(&mut { turn });
    });
    for id in passed_over {
        if let Some(record) = jobs.get(id) {
            alloc.alloc_queues.set_aside(record);
        }
    }
    let any = !decided.is_empty();
    for (id, decision) in decided {
        dequeue(core, id);
        match decision {
            Decision::Granted(resources) => grant(core, id, resources),
            Decision::Never(note) => core.raise_fatal(id, "alloc", &note),
        }
    }
    any
}

/// Allocates resources to a job in SCHED past its scheduler; returns whether there were enough.
pub(crate) fn allocate_now(core: &mut Core, id: JobId) -> bool {
    let now = core.clock.now.as_secs();
    let Some(record) = core.jobs.get(id).filter(|record| record.job.state == State::Sched) else {
        return false;
    };
    match core.alloc.pool.allocate(&record.job.jobspec, now) {
        Answer::Granted(resources) => {
            dequeue(core, id);
            grant(core, id, resources);
            true
        }
        _ => false,
    }
}

/// Gives resources that were taken from the pool to a job in SCHED.
///
/// The pool and `allocated_jobs` have changed at once, but the job's own allocation begins only when `alloc`
/// is applied. This is safe because schedulers run when the agenda is empty: no event of the job is pending
/// then, so `alloc` is the next one that is applied to it.
fn grant(core: &mut Core, id: JobId, resources: ResourceSet) {
    let text = resources.to_json();
    core.alloc.allocated_jobs.insert(id);
    let summary = resources.summary();
    if let Some(record) = core.jobs.get_mut(id) {
        record.job.set_written_resources(resources, &text);
    }
    // In one commit with `alloc`, which is posted below: a restarted manager can't replay `alloc` without R.
    core.put(id, "R", text);
    let sched = [("sched".to_owned(), json!({ "resource_summary": summary }))];
    // As Flux's scheduler does: watchers and plugins see the annotations, then the event that has them.
    let annotations = core.annotate(id, sched.into_iter().collect());
    core.post(id, events::alloc(core.clock.now, annotations));
}

/// Gives a job the resources that a plugin returned from `job.state.sched`. They are the plugin's own
/// and are not taken from the pool.
pub(crate) fn force_resources(core: &mut Core, id: JobId, resources: ResourceSet) {
    let Some(record) = core.jobs.get(id) else {
        return;
    };
    let refusal = match (record.job.state, &*record.job.resources) {
        (State::Sched, None) => None,
        // The same answer, when the plugin is asked again after a restart.
        (State::Sched, Some(present)) if **present == without_scheduling(&resources) => return,
        (State::Sched, Some(_)) => Some("R is already set"),
        _ => Some("R may only be set in SCHED state"),
    };
    if let Some(text) = refusal {
        return core.log(Level::Error, format!("job.state.sched: {id}: {text}"));
    }
    core.put(id, "R", resources.to_json());
    if let Some(record) = core.jobs.get_mut(id) {
        record.job.set_resources(resources);
        if !record.set_flags.alloc_bypass && !record.pending_events.contains("set-flags") {
            let flag = JobFlag::AllocBypass.name();
            core.post(id, events::set_flags(core.clock.now, flag));
        }
    }
}

/// R as a job shows it.
fn without_scheduling(resources: &ResourceSet) -> ResourceSet {
    let mut shown = resources.clone();
    shown.set_scheduling(None);
    shown
}

/// Puts a job in SCHED into its alloc queue, or takes it out: a job waits for resources while it has
/// a priority above 0 and its queue is started. Returns whether it is new in the queue.
fn enqueue(queues: &Queues, alloc_queues: &mut AllocQueues, record: &mut Record) -> bool {
    let priority = record.job.priority.and_then(NonZeroU32::new);
    match (priority, queues.of_job(&record.job.jobspec)) {
        (Some(priority), Ok(queue)) if queue.is_started() && !record.set_flags.alloc_bypass => {
            alloc_queues.insert(&queue, record, priority)
        }
        _ => {
            alloc_queues.remove(record);
            false
        }
    }
}

/// [Enqueues](enqueue) or dequeues one job by its id.
pub(crate) fn enqueue_job(core: &mut Core, id: JobId) {
    let alloc = &mut core.alloc;
    let Some(record) = core.jobs.get_mut(id) else {
        return;
    };
    if enqueue(&alloc.queues, &mut alloc.alloc_queues, record) {
        core.post_debug(id, "debug.alloc-request");
    }
}

/// [Enqueues](enqueue) or dequeues each job in SCHED, after a change of the queues.
pub(crate) fn enqueue_all(core: &mut Core) {
    for id in core.jobs.active_where(|record| record.job.state == State::Sched) {
        enqueue_job(core, id);
    }
}

/// Takes a job out of the alloc queue in which it waits, if it does.
pub(crate) fn dequeue(core: &mut Core, id: JobId) {
    if let Some(record) = core.jobs.get_mut(id) {
        core.alloc.alloc_queues.remove(record);
    }
}
