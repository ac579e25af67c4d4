//! Which one thing holds a job: what lists show in a word, and the first reason of `job-manager.why`.
//!
//! A list asks this of every job in it, so nothing here goes through the jobs before a job or through those that run,
//! except for the first job of a queue.

use super::why;
use crate::alloc::nodes::PlannedMaintenance;
use crate::api::WaitsFor;
use crate::arrays::Array;
use crate::core::Core;
use crate::host::WorkKind;
use crate::job::{JobId, State, Uid};
use crate::jobs::Record;
use crate::plugin::Perilog;
use crate::queue::{Queue, QueueError};

/// What an active job waits for; `None` if its tasks run.
pub(super) fn of_job(core: &Core, record: &Record) -> Option<WaitsFor> {
    match record.job.state() {
        State::New => Some(WaitsFor::Submission),
        State::Depend => record.job.dependencies().next().map(WaitsFor::of_dependency),
        State::Priority => Some(of_priority(core, record)),
        State::Sched => Some(of_sched(core, record)),
        State::Run if record.perilogs.is_open(Perilog::Prolog) => Some(WaitsFor::Prolog),
        State::Run if record.job.kept().times.start().is_none() => Some(WaitsFor::Start),
        State::Run | State::Inactive => None,
        State::Cleanup => Some(of_cleanup(record)),
    }
}

/// Why the waiting elements of an array don't run; `None` if no element waits, or if they wait for nothing.
pub(super) fn of_array(core: &Core, array: &Array) -> Option<WaitsFor> {
    if is_array_held(array) {
        return Some(WaitsFor::Held);
    }
    if array.refusal().is_some() {
        return Some(WaitsFor::Refused);
    }
    if array.is_limited() {
        return Some(WaitsFor::ArrayLimit);
    }
    of_job(core, first_pending(core, array)?)
}

/// Whether elements of an array that aren't jobs yet have urgency 0.
pub(super) fn is_array_held(array: &Array) -> bool {
    array.urgency().value() == 0 && array.has_pending()
}

/// The first job of an array that has no resources.
pub(super) fn first_pending<'a>(core: &'a Core, array: &Array) -> Option<&'a Record> {
    let is_pending = |job: &JobId| core.jobs.state(*job).is_some_and(|state| state < State::Run);
    let first = array.active_jobs().map(|(_, job)| job).find(is_pending)?;
    core.jobs.get(first)
}

fn of_priority(core: &Core, record: &Record) -> WaitsFor {
    let mut work = record.async_work.running.iter();
    if work.any(|work| work.kind == WorkKind::Priority) {
        return WaitsFor::Priority;
    }
    let withheld_by = core.jobs.attributions.withheld_by(record.job.id());
    let is_withheld = withheld_by.is_some_and(|plugin| core.plugins.stack.get(plugin).is_some());
    match is_withheld || why::faulted_deciders(core).next().is_some() {
        true => WaitsFor::Plugin,
        false => WaitsFor::Priority,
    }
}

fn of_sched(core: &Core, record: &Record) -> WaitsFor {
    if core.alloc.prefill.before(record.job.id()).is_some() {
        return WaitsFor::Order;
    }
    if is_held(record) {
        return WaitsFor::Held;
    }
    if let Some(blocked) = Blocked::find(core, record) {
        return blocked.waits_for();
    }
    if core.alloc.alloc_queues.has_before(record) {
        return WaitsFor::Order;
    }
    if !core.allocations.tables.is_empty() {
        return WaitsFor::Allocation;
    }
    shortage(core, record)
}

fn of_cleanup(record: &Record) -> WaitsFor {
    match () {
        () if record.perilogs.is_open(Perilog::Prolog) => WaitsFor::Prolog,
        () if record.perilogs.is_open(Perilog::Epilog) => WaitsFor::Epilog,
        () if record.execution.phase.is_open() => WaitsFor::Tasks,
        () => WaitsFor::Release,
    }
}

/// Whether a job in SCHED is held by its user or by a plugin.
fn is_held(record: &Record) -> bool {
    record.job.kept().urgency.value() == 0 || record.job.priority() == Some(0)
}

/// What keeps a queue from starting its jobs.
pub(super) enum Blocked<'a> {
    /// It is stopped, or the parent of a virtual queue is.
    Stopped(Queue<'a>),
    /// Its scheduler is offline.
    Offline,
    /// It is no longer configured.
    Unknown(QueueError),
}

impl<'a> Blocked<'a> {
    pub(super) fn find(core: &'a Core, record: &Record) -> Option<Self> {
        match core.alloc.queues.of_job(&record.job.kept().jobspec) {
            Ok(_) if record.set_flags.alloc_bypass => None,
            Ok(queue) if queue.is_started() => {
                core.alloc.alloc_queues.is_offline(&queue).then_some(Self::Offline)
            }
            Ok(queue) => Some(Self::Stopped(queue)),
            Err(error) => Some(Self::Unknown(error)),
        }
    }

    pub(super) fn waits_for(&self) -> WaitsFor {
        match self {
            Self::Stopped(_) | Self::Unknown(_) => WaitsFor::Queue,
            Self::Offline => WaitsFor::Scheduler,
        }
    }
}

/// What is missing for a job that is the first of its queue.
fn shortage(core: &Core, record: &Record) -> WaitsFor {
    let (alloc, now) = (&core.alloc, core.turn.clock.now.as_secs());
    let spec = &record.job.kept().jobspec;
    // A job that was passed over could not run if all others ended.
    if !alloc.alloc_queues.is_passed_over(record) {
        let mut free = alloc.pool.free().clone();
        why::in_use(core, record).iter().for_each(|used| free.union_with(used.resources));
        if alloc.pool.choose_at(&free, spec, now).is_some() {
            return WaitsFor::Resources;
        }
    }
    if alloc.pool.could_run_without_maintenance(spec) {
        return of_maintenance(core, record);
    }
    let down = alloc.nodes.down().intersection(&alloc.pool.eligible_ranks(spec));
    match down.is_empty() || alloc.pool.feasible(spec).is_err() {
        true => WaitsFor::Resources,
        false => WaitsFor::Nodes,
    }
}

/// What it is if the job could run were it not for a maintenance. Nodes of an allocation are given back at its end, which
/// is one as well.
pub(super) fn of_maintenance(core: &Core, record: &Record) -> WaitsFor {
    match planned(core, record).next() {
        None if core.alloc.nodes.is_elastic => WaitsFor::Allocation,
        _ => WaitsFor::Maintenance,
    }
}

/// The planned maintenances that would concern a job if it started now.
pub(super) fn planned<'a>(
    core: &'a Core,
    record: &Record,
) -> impl Iterator<Item = &'a PlannedMaintenance> {
    let (alloc, spec) = (&core.alloc, &record.job.kept().jobspec);
    let eligible = alloc.pool.eligible_ranks(spec);
    let duration = Some(spec.duration()).filter(|duration| *duration > 0.0);
    let (now, duration) = (core.turn.clock.now.as_secs(), duration.unwrap_or(f64::INFINITY));
    alloc.nodes.maintenance(core.turn.clock.now).filter(move |planned| {
        let maintenance = &planned.maintenance;
        maintenance.concerns(now, duration) && maintenance.ranks.intersects(&eligible)
    })
}

/// How many jobs wait for what, counted job by job, so that no turn of the engine takes long.
#[derive(Debug)]
pub struct WaitCount {
    left: std::vec::IntoIter<JobId>,
    counts: [u64; WaitsFor::ALL.len()],
}

impl WaitCount {
    /// What jobs wait for, each with the number of these jobs.
    pub fn counts(&self) -> impl Iterator<Item = (WaitsFor, u64)> {
        WaitsFor::ALL.into_iter().zip(self.counts).filter(|(_, count)| *count > 0)
    }

    fn add(&mut self, what: Option<WaitsFor>, count: u64) {
        let place = what.and_then(|what| WaitsFor::ALL.iter().position(|known| *known == what));
        if let Some(all) = place.and_then(|place| self.counts.get_mut(place)) {
            *all += count;
        }
    }
}

/// Begins to count the jobs of one user or of all users, and the elements of arrays that aren't jobs yet.
pub(crate) fn begin_count(core: &Core, userid: Option<Uid>) -> WaitCount {
    let is_of = |user: Uid| userid.is_none_or(|wanted| wanted == user);
    let ids = core.jobs.active_where(|record| record.is_accepted() && is_of(record.job.userid()));
    let mut count = WaitCount { left: ids.into_iter(), counts: [0; WaitsFor::ALL.len()] };
    for array in core.arrays.open().filter(|array| is_of(array.userid())) {
        // Elements wait for a job of theirs to go on if nothing else holds them.
        let what = of_array(core, array).unwrap_or(WaitsFor::Submission);
        count.add(Some(what), array.waiting() as u64);
    }
    count
}

/// Counts up to this many more jobs. Returns false when all are counted.
pub(crate) fn count_next(core: &Core, count: &mut WaitCount, jobs: usize) -> bool {
    for _ in 0..jobs {
        let Some(id) = count.left.next() else { return false };
        let what = core.jobs.get(id).and_then(|record| of_job(core, record));
        count.add(what, 1);
    }
    true
}

/// What a job or the pending elements of an array wait for; `None` for one that isn't known or waits for nothing.
pub(crate) fn of_id(core: &Core, id: JobId) -> Option<WaitsFor> {
    match core.arrays.get(id) {
        Some(array) => of_array(core, array),
        None => {
            let record = core.jobs.get(id).filter(|record| record.is_accepted())?;
            of_job(core, record)
        }
    }
}
