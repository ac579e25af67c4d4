//! Asks the schedulers for decisions and carries them out.

use std::num::NonZeroU32;

use serde_json::json;

use super::alloc_queues::AllocQueues;
use super::{Allocation, in_use, maintenance};
use crate::api::Level;
use crate::eventlog::{Allocated, Event, Name};
use crate::job::{JobFlag, JobId, State};
use crate::jobs::{Jobs, Phase, Record};
use crate::kept::{Place, TurnParts};
use crate::queue::Queues;
use crate::resource::ResourceSet;
use crate::sched::{self, Answer, Decision};
use crate::timers::Timers;
use crate::turn::Turn;

/// Lets the schedulers decide which jobs start; returns whether anything was decided.
pub(crate) fn run(
    turn: &mut Turn,
    jobs: &mut Jobs,
    alloc: &mut Allocation,
    timers: &mut Timers,
) -> bool {
    alloc.alloc_queues.follow_nodes(&alloc.queues, &alloc.pool);
    let mut decided = run_in_order(turn, jobs, alloc, timers);
    for queue in alloc.alloc_queues.in_turn() {
        decided |= run_queue(turn, jobs, alloc, timers, queue, None);
    }
    for text in alloc.alloc_queues.take_panics() {
        turn.effects.log(Level::Error, text);
    }
    decided
}

/// Lets queues that share nodes take turns, so that their jobs start in one common order of priority. A queue drops out
/// when one of its jobs can't start: its scheduler decides later which of its jobs may pass others.
fn run_in_order(
    turn: &mut Turn,
    jobs: &mut Jobs,
    alloc: &mut Allocation,
    timers: &mut Timers,
) -> bool {
    let (mut decided, mut blocked) = (false, Vec::new());
    while let Some((queue, until)) = alloc.alloc_queues.first_of_sharing(&blocked) {
        decided |= run_queue(turn, jobs, alloc, timers, queue, Some(until));
        if alloc.alloc_queues.starts_before(queue, until) {
            blocked.push(queue);
        }
    }
    decided
}

/// Lets a scheduler decide; with `until`, only about the jobs before that place of another queue's job.
fn run_queue(
    turn: &mut Turn,
    jobs: &mut Jobs,
    alloc: &mut Allocation,
    timers: &mut Timers,
    queue: usize,
    until: Option<Place>,
) -> bool {
    let now = turn.clock.now.as_secs();
    let jobspec = |id: JobId| {
        let record = jobs.get(id).filter(|record| record.job.state() == State::Sched)?;
        Some(&record.job.kept().jobspec)
    };
    // Taken apart: the scheduler changes the pool while it reads what is in use.
    let (allocated_jobs, retained) = (&alloc.allocated_jobs, &alloc.retained);
    // Made only when the scheduler asks: most turns allocate without looking at what is in use.
    let running = || in_use(jobs, allocated_jobs, retained, now);
    let pool = &mut alloc.pool;
    let Some(queue) = alloc.alloc_queues.get_mut(queue) else {
        return false;
    };
    let (mut decided, mut passed_over, mut too_near) = (Vec::new(), Vec::new(), f64::INFINITY);
    queue.with_scheduler(|scheduler, queue| {
        let (jobspec, running, decided) = (&jobspec, &running, &mut decided);
        let (passed_over, too_near) = (&mut passed_over, &mut too_near);
        let parts =
            TurnParts { now, pool, queue, until, jobspec, running, decided, passed_over, too_near };
        scheduler.turn(&mut sched::Turn::from_parts(parts));
    });
    if too_near.is_finite() {
        maintenance::note_too_near(turn, alloc, timers, too_near);
    }
    for id in passed_over {
        if let Some(record) = jobs.get(id) {
            alloc.alloc_queues.set_aside(record);
        }
    }
    let any = !decided.is_empty();
    for (id, decision) in decided {
        dequeue(jobs, alloc, id);
        match decision {
            Decision::Granted(resources) => grant(turn, jobs, alloc, id, resources),
            Decision::Never(note) => jobs.raise_fatal(turn, id, "alloc", &note),
        }
    }
    any
}

/// Allocates resources to a job in SCHED, bypassing its scheduler; returns whether there were enough.
pub(crate) fn allocate_now(
    turn: &mut Turn,
    jobs: &mut Jobs,
    alloc: &mut Allocation,
    id: JobId,
) -> bool {
    let now = turn.clock.now.as_secs();
    let Some(record) = jobs.get(id).filter(|record| record.job.state() == State::Sched) else {
        return false;
    };
    match alloc.pool.allocate(&record.job.kept().jobspec, now) {
        Answer::Granted(resources) => {
            dequeue(jobs, alloc, id);
            grant(turn, jobs, alloc, id, resources);
            true
        }
        _ => false,
    }
}

/// Gives resources that were taken from the pool to a job in SCHED.
///
/// The pool and `allocated_jobs` have changed at once, but the job's own allocation begins only when `alloc`
/// is applied. This is safe because schedulers run when the agenda is empty, and the events of a job that was handed to
/// the executor wait: no event of the job is pending then, so `alloc` is the next one that is applied to it.
pub(crate) fn grant(
    turn: &mut Turn,
    jobs: &mut Jobs,
    alloc: &mut Allocation,
    id: JobId,
    resources: ResourceSet,
) {
    let text = resources.to_json();
    alloc.allocated_jobs.insert(id);
    alloc.prefill.note_holder(id);
    let summary = resources.summary();
    if let Some(record) = jobs.get_mut(id) {
        record.job.kept_mut().set_written_resources(resources, &text);
    }
    // In one commit with `alloc`, which is posted below: a restarted manager can't replay `alloc` without R.
    jobs.put(&mut turn.effects, id, "R", text);
    let sched = [("sched".to_owned(), json!({ "resource_summary": summary }))];
    // As Flux's scheduler does: watchers and plugins see the annotations, then the event that has them.
    let annotations = jobs.post_annotations(turn, id, sched.into_iter().collect());
    let annotations = annotations.as_ref();
    jobs.post(turn, id, Event::Alloc(Allocated { annotations, bypass: false }));
}

/// Gives a job the resources that a plugin returned from `job.state.sched`. They are the plugin's own
/// and are not taken from the pool.
pub(crate) fn force_resources(turn: &mut Turn, jobs: &mut Jobs, id: JobId, resources: ResourceSet) {
    let Some(record) = jobs.get(id) else {
        return;
    };
    let refusal = match (record.job.state(), &*record.job.kept().resources) {
        (State::Sched, None) => None,
        // A plugin gives the same R again when it is asked again after a restart.
        (State::Sched, Some(present)) if **present == without_scheduling(&resources) => return,
        (State::Sched, Some(_)) => Some("R is already set"),
        _ => Some("R may only be set in SCHED state"),
    };
    if let Some(text) = refusal {
        return turn.effects.log(Level::Error, format!("job.state.sched: {id}: {text}"));
    }
    jobs.put(&mut turn.effects, id, "R", resources.to_json());
    if let Some(record) = jobs.get_mut(id) {
        record.job.kept_mut().set_resources(resources);
        if !record.set_flags.alloc_bypass && !record.pending_events.contains(&Name::SetFlags) {
            jobs.post(turn, id, Event::SetFlags(vec![JobFlag::AllocBypass]));
        }
    }
}

/// R as a job shows it: without its `scheduling` key.
fn without_scheduling(resources: &ResourceSet) -> ResourceSet {
    let mut shown = resources.clone();
    shown.set_scheduling(None);
    shown
}

/// Puts a job in SCHED into its alloc queue, or takes it out: a job waits for resources while it has
/// a priority above 0 and its queue is started. Returns whether it is new in the queue.
fn place_record(queues: &Queues, alloc_queues: &mut AllocQueues, record: &mut Record) -> bool {
    // A job that was handed over ahead of its turn gets the resources of another one.
    let waits = record.execution.phase != Phase::Ahead;
    let priority = record.job.priority().and_then(NonZeroU32::new).filter(|_| waits);
    match (priority, queues.of_job(&record.job.kept().jobspec)) {
        (Some(priority), Ok(queue)) if queue.is_started() && !record.set_flags.alloc_bypass => {
            alloc_queues.insert(&queue, record, priority)
        }
        _ => {
            alloc_queues.remove(record);
            false
        }
    }
}

/// Puts one job into its alloc queue or takes it out, as [`place_record`] decides.
pub(crate) fn place_in_queue(turn: &mut Turn, jobs: &mut Jobs, alloc: &mut Allocation, id: JobId) {
    let Some(record) = jobs.get_mut(id) else {
        return;
    };
    if place_record(&alloc.queues, &mut alloc.alloc_queues, record) {
        jobs.post_debug(turn, id, Event::DebugAllocRequest);
    }
}

/// Does so for each job in SCHED, after a change of the queues.
pub(crate) fn place_all_in_queues(turn: &mut Turn, jobs: &mut Jobs, alloc: &mut Allocation) {
    for id in jobs.active_where(|record| record.job.state() == State::Sched) {
        place_in_queue(turn, jobs, alloc, id);
    }
}

/// Removes a job from its alloc queue, if it is in one.
pub(crate) fn dequeue(jobs: &mut Jobs, alloc: &mut Allocation, id: JobId) {
    if let Some(record) = jobs.get_mut(id) {
        alloc.alloc_queues.remove(record);
    }
}
