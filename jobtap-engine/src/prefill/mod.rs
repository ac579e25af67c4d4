//! Prefill: short jobs are handed to the executor ahead of their turn.
//!
//! Between two short jobs a core would be idle until the end of the first one is durable and the start of the second one
//! has gone back to the node. So jobs that need just what a short job has are handed over while it runs. They form a
//! line: the executor begins each of them as soon as nothing is left of the one before, without asking.
//!
//! Users and plugins see that such a job waits in SCHED. When the job that runs, the *holder*, frees its resources, the
//! first job of the line gets them, by the same events as any other job. Until then the events of the line's jobs wait. An
//! event that comes, a job that goes
//! first, a change of nodes, and a request about its jobspec, its queue or the plugins make the engine *recall* the job:
//! what then happens to it depends on whether the executor has begun it.
//!
//! | file | what it holds |
//! |---|---|
//! | this one | when jobs join lines, and when they leave them |
//! | `lines` | who waits behind whom |
//! | `pace` | how short jobs are at present, and so how long lines may be |
//! | `held_requests` | requests that wait until lines have dissolved |

mod held_requests;
mod lines;
mod pace;

use std::collections::VecDeque;
use std::sync::Arc;

use self::held_requests::HeldRequests;
pub(crate) use self::held_requests::admit;
use self::lines::{Lines, Member, Stage};
use self::pace::Pace;
use crate::agenda::Work;
use crate::alloc::{Allocation, schedule};
use crate::api::{Cred, Effect, Effects, ExecCommand, ExecEvent, ExecStart, ReplyTo, Request};
use crate::core::Core;
use crate::eventlog::EventEntry;
use crate::job::{Flags, JobId, State};
use crate::jobs::{Jobs, Phase, Reattach, Record};
use crate::kept::Place;
use crate::plugins::Plugins;
use crate::resource::ResourceSet;
use crate::timers::{Due, Timers};
use crate::topic::TopicId;
use crate::turn::Turn;

/// The number of seconds after which the jobs behind a job that still runs are recalled: others may be faster.
const LONGEST: f64 = 0.2;

/// The number of seconds within which a job that was handed over has begun, or was taken back.
const MOST_WAIT: f64 = 10.0;

/// The maximum number of holders that may have room in their lines. With more of them, jobs seldom wait for a node.
const MOST_HOLDERS: usize = 4096;

/// The maximum number of holders that are looked at in a turn without a job for them.
const MOST_LOOKS: usize = 64;

/// Topics whose handlers may have a job wait before it starts, or keep its resources after it.
const BETWEEN_JOBS: [TopicId; 6] = [
    TopicId::JobStateRun,
    TopicId::JobStateCleanup,
    TopicId::SlurmPrologSlurmctld,
    TopicId::SlurmProlog,
    TopicId::SlurmEpilogSlurmctld,
    TopicId::SlurmEpilog,
];

/// The jobs that were handed over ahead of their turn.
#[derive(Debug, Default)]
pub(crate) struct Prefill {
    /// Whether the executor begins jobs by itself.
    is_supported: bool,
    lines: Lines,
    /// Jobs that have got resources, and whose lines may have room.
    holders: VecDeque<JobId>,
    pace: Pace,
    held: HeldRequests,
    /// The [count of node changes](crate::sched::Pool::node_changes) that the lines know.
    node_changes: u64,
    /// Whether the timer is set that ends lines that have become slow.
    is_timed: bool,
}

impl Prefill {
    /// Lets jobs be handed over ahead of their turn.
    pub(crate) fn support(&mut self) {
        self.is_supported = true;
    }

    /// Notes that a job has got resources.
    pub(crate) fn note_holder(&mut self, id: JobId) {
        if self.is_supported {
            if self.holders.len() >= MOST_HOLDERS {
                self.holders.pop_front();
            }
            self.holders.push_back(id);
        }
    }

    /// The job behind which this one was handed over, if it was.
    pub(crate) fn before(&self, id: JobId) -> Option<JobId> {
        self.lines.before(id)
    }

    /// Takes a request that need not wait any longer for a job to leave its line.
    pub(crate) fn take_request(&mut self) -> Option<(ReplyTo, Cred, Request)> {
        self.held.take(&self.lines)
    }

    /// Whether a job has to wait with the end of its allocation, although nothing is left of it: it is not known whether
    /// the executor has begun the first job behind it. Then asks for that.
    pub(crate) fn holds_back(&mut self, effects: &mut Effects, holder: JobId) -> bool {
        let is_undecided = self.lines.is_undecided(holder);
        if is_undecided {
            let behind = self.lines.waiting_behind(holder);
            recall_each(effects, self, &behind);
        }
        is_undecided
    }

    /// Whether the resources that a job frees go to the first job behind it. If so, keeps them.
    pub(crate) fn keeps(&mut self, holder: JobId, freed: &ResourceSet) -> bool {
        let line = self.lines.behind(holder);
        line.map(|line| line.freed = Some(freed.clone())).is_some()
    }
}

/// Notes how long a job has run, at its `finish`.
pub(crate) fn note_finish(alloc: &mut Allocation, record: &Record, finish: &EventEntry) {
    if alloc.prefill.is_supported
        && let Some(start) = record.job.kept().times.start()
    {
        alloc.prefill.pace.note(finish.timestamp.as_secs() - start.as_secs());
    }
}

/// Makes lines, and recalls jobs whose turn may be another one now. Called when no scheduler has anything to decide.
pub(crate) fn follow_schedule(core: &mut Core) {
    let Core { turn, jobs, plugins, alloc, timers, .. } = core;
    let prefill = &mut alloc.prefill;
    if prefill.holders.is_empty() && prefill.lines.are_empty() {
        return;
    }
    let nodes = alloc.pool.node_changes();
    if std::mem::replace(&mut prefill.node_changes, nodes) != nodes {
        recall_all(&mut turn.effects, alloc);
    }
    recall_overtaken(&mut turn.effects, alloc);
    if !alloc.alloc_queues.is_empty() && may_fill(plugins, alloc) {
        fill(turn, jobs, alloc);
    }
    time(turn, alloc, timers);
}

/// Whether jobs may be handed over at present.
fn may_fill(plugins: &Plugins, alloc: &Allocation) -> bool {
    alloc.prefill.held.are_none()
        && alloc.prefill.pace.depth() > 0
        && plugins.shadows.is_empty()
        && !BETWEEN_JOBS.iter().any(|topic| plugins.is_handled(*topic))
}

/// Hands over the first jobs of the queues, one behind each holder in turn, as long as they need just what it has.
fn fill(turn: &mut Turn, jobs: &mut Jobs, alloc: &mut Allocation) {
    let (mut looks, mut without_job) = (0, 0);
    while looks < MOST_LOOKS
        && without_job <= alloc.prefill.holders.len()
        && let Some(holder) = alloc.prefill.holders.pop_front()
    {
        looks += 1;
        match next(turn, jobs, alloc, holder) {
            Next::Unfit => {}
            Next::None => {
                without_job += 1;
                alloc.prefill.holders.push_back(holder);
            }
            Next::Job { place, resources } => {
                (looks, without_job) = (0, 0);
                alloc.prefill.holders.push_back(holder);
                hand_over(turn, jobs, alloc, holder, place, resources);
            }
        }
    }
}

fn hand_over(
    turn: &mut Turn,
    jobs: &mut Jobs,
    alloc: &mut Allocation,
    holder: JobId,
    place: (usize, Place),
    resources: ResourceSet,
) {
    let (_, (_, id)) = place;
    let (_, last) = alloc.prefill.lines.end_of(holder);
    schedule::dequeue(jobs, alloc, id);
    alloc.prefill.lines.join(turn.clock.now, holder, id, place);
    let Some(record) = jobs.get_mut(id) else { return };
    record.execution.phase = Phase::Ahead;
    // What is posted to it waits.
    record.pending_events.busy = true;
    let job = &record.job;
    let start = ExecStart {
        id,
        userid: job.userid(),
        jobspec: job.kept().jobspec.opened(),
        resources: Some(Arc::new(resources)),
        reattach: false,
        after: Some(last),
    };
    turn.effects.after.push(Effect::Exec(ExecCommand::Start(start)));
}

/// What can be handed over behind a holder.
enum Next {
    /// This job, at its place in this alloc queue: when the holder ended, it would start on these resources.
    Job { place: (usize, Place), resources: ResourceSet },
    /// Nothing at present: no job waits, or one of another queue is first.
    None,
    /// Nothing: the line is full, the holder can't have one, or the first job needs something else.
    Unfit,
}

fn next(turn: &Turn, jobs: &Jobs, alloc: &Allocation, holder: JobId) -> Next {
    let (length, _) = alloc.prefill.lines.end_of(holder);
    if length >= alloc.prefill.pace.depth() {
        return Next::Unfit;
    }
    let now = turn.clock.now.as_secs();
    let Some(holder) = jobs.get(holder).filter(|record| can_hold(record, now)) else {
        return Next::Unfit;
    };
    let jobspec = &holder.job.kept().jobspec;
    let queue = alloc.queues.of_job(jobspec).ok();
    let Some(place) = queue.and_then(|queue| alloc.alloc_queues.next_of(&queue)) else {
        return Next::None;
    };
    let next = jobs.get(place.1.1).filter(|record| can_wait(record));
    let resources = holder.job.resources().filter(|resources| resources.nnodes() == 1);
    let (Some(next), Some(resources)) = (next, resources) else { return Next::Unfit };
    let wanted = &next.job.kept().jobspec;
    let fits = jobspec.counts() == wanted.counts()
        && jobspec.constraints() == wanted.constraints()
        && !resources.ranks().intersects(alloc.pool.down())
        && alloc.pool.stays_possible(wanted, now, now + MOST_WAIT);
    let resources = alloc.pool.handed_over(resources, wanted, now).filter(|_| fits);
    resources.map_or(Next::Unfit, |resources| Next::Job { place, resources })
}

/// Whether other jobs can wait behind this one: it may end soon, and no plugin can retain its resources.
fn can_hold(record: &Record, now: f64) -> bool {
    let since = record.job.kept().times.run();
    since.is_some_and(|since| now - since.as_secs() < LONGEST)
        && record.job.state() == State::Run
        && record.execution.phase == Phase::Started
        && record.execution.reattach == Reattach::Done
        && record.execution.simulation.running().is_none()
        && record.allocation.is_from_pool()
        && record.subscribers.is_empty()
}

/// Whether a job can wait behind another one: no plugin follows its events or owns one of its dependencies.
fn can_wait(record: &Record) -> bool {
    record.job.state() == State::Sched
        && record.is_idle()
        && record.subscribers.is_empty()
        && record.dependency_owners.is_empty()
        && !record.job.kept().flags.contains(Flags::DEBUG)
        && !record.set_flags.alloc_bypass
        && !record.job.kept().jobspec.is_simulated()
}

/// Sets the timer that ends slow lines, if there are lines.
fn time(turn: &mut Turn, alloc: &mut Allocation, timers: &mut Timers) {
    let prefill = &mut alloc.prefill;
    if !prefill.is_timed && !prefill.lines.are_empty() {
        prefill.is_timed = true;
        let at = turn.clock.now + LONGEST;
        timers.start(&mut turn.effects, at, Due::SlowLines);
    }
}

/// Recalls the jobs behind jobs that run for long, and lets requests go on that have waited for long.
pub(crate) fn end_slow(turn: &mut Turn, alloc: &mut Allocation, timers: &mut Timers) {
    let prefill = &mut alloc.prefill;
    prefill.is_timed = false;
    let now = turn.clock.now.as_secs();
    let slow = prefill.lines.waiting(|line, _| line.since.as_secs() + LONGEST <= now);
    recall_each(&mut turn.effects, prefill, &slow);
    prefill.held.give_up(now);
    time(turn, alloc, timers);
}

/// Recalls jobs behind which others should start that have come since, or have become more urgent.
fn recall_overtaken(effects: &mut Effects, alloc: &mut Allocation) {
    let Allocation { prefill, alloc_queues, .. } = alloc;
    let is_overtaken = |(queue, place)| alloc_queues.is_overtaken(queue, place);
    if prefill.lines.last_of_queues().any(is_overtaken) {
        let overtaken = prefill.lines.waiting(|_, job| job.place().is_some_and(is_overtaken));
        recall_each(effects, prefill, &overtaken);
    }
}

/// Recalls all jobs.
fn recall_all(effects: &mut Effects, alloc: &mut Allocation) {
    let all = alloc.prefill.lines.waiting(|_, _| true);
    recall_each(effects, &mut alloc.prefill, &all);
}

fn recall_each(effects: &mut Effects, prefill: &mut Prefill, ids: &[JobId]) {
    ids.iter().for_each(|id| recall(effects, prefill, *id));
}

/// Asks the executor to give a job back. It answers in any case.
pub(crate) fn recall(effects: &mut Effects, prefill: &mut Prefill, id: JobId) {
    if let Some(member) = prefill.lines.get_mut(id)
        && matches!(member.stage, Stage::Waiting)
    {
        member.stage = Stage::Recalled;
        effects.after.push(Effect::Exec(ExecCommand::Recall { id }));
    }
}

/// Handles that the executor has given a job back: it waits in its queue again.
pub(crate) fn take_back(turn: &mut Turn, jobs: &mut Jobs, alloc: &mut Allocation, id: JobId) {
    let is_begun = |member: &mut Member| matches!(member.stage, Stage::Begun(_));
    if alloc.prefill.lines.get_mut(id).is_none_or(is_begun) {
        return;
    }
    let holder = alloc.prefill.lines.holder(id);
    alloc.prefill.lines.leave(id);
    if let Some(holder) = holder.filter(|holder| jobs.state(*holder) == Some(State::Cleanup)) {
        // It may have waited for this.
        turn.agenda.push(Work::Act(holder));
    }
    let Some(record) = jobs.get_mut(id) else { return };
    record.execution.phase = Phase::Idle;
    turn.agenda.push(Work::ApplyNextEvent(id));
    turn.agenda.push(Work::Act(id));
}

/// Handles that the executor has begun a job.
pub(crate) fn begin(turn: &mut Turn, jobs: &Jobs, alloc: &mut Allocation, id: JobId) {
    if let Some(holder) = alloc.prefill.lines.begin(id)
        && jobs.state(holder) == Some(State::Cleanup)
    {
        // It may have waited for this.
        turn.agenda.push(Work::Act(holder));
    }
}

/// Keeps a report about a job that has no resources yet; whatever is reported means that the job was begun. Returns the
/// report if it is about another job, or says what has become of a job in a line.
pub(crate) fn keep_report(
    turn: &mut Turn,
    jobs: &Jobs,
    alloc: &mut Allocation,
    event: ExecEvent,
) -> Option<ExecEvent> {
    let id = event.id();
    let is_answer = matches!(event, ExecEvent::Begun { .. } | ExecEvent::Recalled { .. });
    if is_answer || !alloc.prefill.lines.have(id) {
        return Some(event);
    }
    begin(turn, jobs, alloc, id);
    if let Some(Member { stage: Stage::Begun(events), .. }) = alloc.prefill.lines.get_mut(id) {
        events.push(event);
    }
    None
}

/// Gives the resources that a job has freed to the first job behind it.
pub(crate) fn hand_on(turn: &mut Turn, jobs: &mut Jobs, alloc: &mut Allocation, holder: JobId) {
    let now = turn.clock.now;
    let first = alloc.prefill.lines.take_begun(now, holder);
    let Some((Member { id, stage, is_restored, .. }, freed)) = first else { return };
    let Some(record) = jobs.get_mut(id) else { return alloc.pool.release(&freed) };
    let jobspec = &record.job.kept().jobspec;
    let resources = alloc.pool.handed_over(&freed, jobspec, now.as_secs()).unwrap_or(freed);
    // What was posted meanwhile comes after `alloc`.
    let mut later = Vec::new();
    while let Some(entry) = record.pending_events.pop() {
        later.push(entry);
    }
    record.pending_events.busy = false;
    record.execution.phase = if is_restored { Phase::BegunEarlier } else { Phase::Begun };
    if let Stage::Begun(events) = stage
        && !events.is_empty()
    {
        turn.agenda.push(Work::Reports(events));
    }
    schedule::grant(turn, jobs, alloc, id, resources);
    for entry in later {
        jobs.post_entry(&mut turn.agenda, id, entry);
    }
}

/// Notes, before the engine starts, jobs that the executor has begun for an earlier manager, each with the job before it.
/// Jobs that are no longer in SCHED need nothing: the manager knew that they were begun.
pub(crate) fn restore(core: &mut Core, begun: &[(JobId, JobId)]) {
    let Core { turn, jobs, alloc, .. } = core;
    let holds = |id: JobId| {
        let allocation = jobs.get(id).map(|record| &record.allocation);
        allocation.is_some_and(|own| own.is_allocated() && own.is_from_pool())
    };
    let mut left: Vec<(JobId, JobId)> = begun.to_vec();
    left.retain(|(id, _)| jobs.state(*id) == Some(State::Sched));
    // In the order of the lines: each job comes after the one before it.
    loop {
        let before = left.len();
        left.retain(|(id, after)| !alloc.prefill.lines.restore(turn.clock.now, *after, *id, holds));
        if left.len() == before {
            break;
        }
    }
    for (id, _) in begun {
        if alloc.prefill.lines.have(*id)
            && let Some(record) = jobs.get_mut(*id)
        {
            record.execution.phase = Phase::Ahead;
        }
    }
}
