//! The schedulers `fifo` and `easy`.
//!
//! Both start jobs in order of priority until there are not enough free resources for one. With `fifo` no
//! job passes that job; with `easy` (EASY backfill) jobs pass it if that can't delay it.

use rustc_hash::FxHashSet;

use super::pool::{RequestSet, limit};
use super::turn::{Scheduler, Turn};
use crate::job::JobId;
use crate::jobspec::Jobspec;
use crate::resource::ResourceSet;

/// The scheduler `fifo`, also called `strict` and `fcfs`: a job that can't start yet blocks all jobs after it, even if
/// its nodes are drained or offline.
#[derive(Debug)]
pub struct Fifo {
    /// Its name in the configuration.
    name: &'static str,
    /// The job that could not start, and the pool's change counter at that time.
    blocked: Option<(JobId, u64)>,
}

impl Default for Fifo {
    fn default() -> Self {
        Self::named("fifo")
    }
}

impl Fifo {
    /// The scheduler under another of its names.
    pub(super) fn named(name: &'static str) -> Self {
        Self { name, blocked: None }
    }
}

impl Scheduler for Fifo {
    fn name(&self) -> &'static str {
        self.name
    }

    fn starts_in_order(&self) -> bool {
        true
    }

    fn turn(&mut self, turn: &mut Turn<'_>) {
        for id in turn.pending() {
            let asked = Some((id, turn.pool().changes()));
            if self.blocked == asked {
                // Nothing has been freed since, so another search would fail too.
                return;
            }
            if !turn.allocate(id, None) {
                self.blocked = asked;
                return;
            }
        }
    }

    fn job_left(&mut self, id: JobId) {
        self.blocked = self.blocked.filter(|(blocked, _)| *blocked != id);
    }
}

/// The scheduler `easy`: EASY backfill. The first job that can't start has a reservation at the earliest
/// time at which, by the time limits of running jobs, there will be enough free resources. A later job may start before
/// it if it will end by that time, or if it needs none of the reserved resources.
///
/// If the first job needs the resources of a running job without a time limit, its start isn't known, and a later job
/// may pass it only on nodes that it can't use, or if it will end before the first job could start in any case. Jobs whose nodes are drained or offline are passed over: nothing is
/// reserved for them. Apart from these, only the 256 jobs after the first one are considered.
#[derive(Debug, Default)]
pub struct Easy {
    reserved: Option<Reserved>,
    /// Later jobs that were tried and can't start while the pool is in the state for which `reserved` is valid.
    tried: FxHashSet<JobId>,
    /// Requests that the resources outside of the reservation can't satisfy, in the same state.
    unavailable: RequestSet,
}

/// The first job that can't start and its reservation, which last from one turn to the next.
#[derive(Debug)]
struct Reserved {
    head: JobId,
    /// The pool's change counter for which the reservation is valid.
    changes: u64,
    /// Determined when the first job that could pass the head is considered; `Some(None)` if a maintenance without an
    /// end begins before the head could have run.
    reservation: Option<Option<Reservation>>,
}

/// The time at which a job can start, and its resources.
#[derive(Debug, Clone)]
pub struct Reservation {
    /// The time, in UNIX seconds. If the job needs the resources of a running job without a time limit, this is the
    /// earliest time that is possible: the start if all such jobs ended now.
    pub at: f64,
    /// The resources that it will get, or may get if it waits for a job without a time limit.
    pub resources: ResourceSet,
}

impl Scheduler for Easy {
    fn name(&self) -> &'static str {
        "easy"
    }

    fn starts_in_order(&self) -> bool {
        true
    }

    fn turn(&mut self, turn: &mut Turn<'_>) {
        let mut pending = turn.pending();
        let head = loop {
            let Some(id) = pending.next() else { return };
            let known = self.reserved.as_ref();
            if known.is_some_and(|r| r.head == id && r.changes == turn.pool().changes()) {
                break id;
            }
            if !turn.allocate(id, None) && !turn.pass_over(id) {
                self.reserve(id, turn);
                break id;
            }
        };
        if turn.pool().free().is_empty() {
            return;
        }
        let mut considered = 0;
        for id in pending {
            if considered == DEPTH {
                break;
            }
            if !self.tried.contains(&id) && turn.pass_over(id) {
                continue;
            }
            considered += 1;
            self.backfill(head, id, turn);
        }
    }

    fn job_left(&mut self, id: JobId) {
        if self.reserved.as_ref().is_some_and(|reserved| reserved.head == id) {
            self.reserved = None;
        }
        self.tried.remove(&id);
    }
}

/// The maximum number of jobs after the first one that are considered, which bounds the time of a turn.
const DEPTH: usize = 256;

impl Easy {
    fn reserve(&mut self, head: JobId, turn: &Turn<'_>) {
        self.reserved = Some(Reserved { head, changes: turn.pool().changes(), reservation: None });
        // Cleared to reuse their memory: this happens whenever a job ends.
        self.tried.clear();
        self.unavailable.clear();
    }

    /// Starts a job after the first one if that can't delay the first one.
    fn backfill(&mut self, head: JobId, id: JobId, turn: &mut Turn<'_>) {
        let Some(reserved) = self.reserved.as_mut().filter(|reserved| reserved.head == head) else {
            return;
        };
        if !self.tried.insert(id) {
            return;
        }
        let Some(jobspec) = turn.jobspec(id) else { return };
        let end = turn.now() + limit(jobspec);
        let ends_before = |reservation: &Reservation| end <= reservation.at;
        // Checked first, since the pool may have to search for an answer.
        if let Some(Some(reservation)) = &reserved.reservation
            && !ends_before(reservation)
            && self.unavailable.has(jobspec)
        {
            return;
        }
        if !turn.fits(jobspec) {
            return;
        }
        let look = || turn.jobspec(head).and_then(|spec| earliest(spec, turn));
        let reservation = reserved.reservation.get_or_insert_with(look).as_ref();
        let reservation = reservation.filter(|reservation| !ends_before(reservation));
        let except = reservation.map(|reservation| &reservation.resources);
        if turn.allocate(id, except) {
            // The job doesn't affect the reservation, which stays valid in the new state of the pool.
            reserved.changes = turn.pool().changes();
        } else if except.is_some()
            && turn.pool().maintenance().is_empty()
            && !turn.pool().has_ends()
        {
            self.unavailable.note(jobspec);
        }
    }
}

/// The earliest time at which there are enough free resources for a job, if running jobs end at their time
/// limits and no other job is started.
fn earliest(jobspec: &Jobspec, turn: &Turn<'_>) -> Option<Reservation> {
    let running = turn.running();
    let mut times: Vec<(f64, Option<&ResourceSet>)> = Vec::new();
    for running in &running {
        let Some(until) = running.until else { continue };
        // A job past its time limit may finish at any moment.
        times.push((until.max(turn.now()), Some(running.resources)));
    }
    // The end of a maintenance frees nodes too.
    times.extend(turn.pool().maintenance().iter().map(|m| (m.to, None)));
    times.retain(|(at, _)| at.is_finite() && *at >= turn.now());
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    let free = turn.pool().free().clone();
    if let Some((at, resources)) = first_fit(jobspec, turn, free, &times) {
        return Some(Reservation { at, resources });
    }
    // Resources that the job needs are held by a job without a time limit. If all such jobs ended now, it would still
    // wait for jobs with one, and for maintenance.
    let resources = turn.pool().eligible_resources(jobspec)?;
    let endless = running.iter().filter(|running| running.until.is_none());
    let mut free = turn.pool().free().clone();
    endless.for_each(|running| free.union_with(running.resources));
    times.insert(0, (turn.now(), None));
    let at = first_fit(jobspec, turn, free, &times).map_or(turn.now(), |(at, _)| at);
    Some(Reservation { at, resources })
}

/// The first of these times at which a job fits, and what it would get then. Each time frees the resources beside it.
fn first_fit(
    jobspec: &Jobspec,
    turn: &Turn<'_>,
    mut free: ResourceSet,
    times: &[(f64, Option<&ResourceSet>)],
) -> Option<(f64, ResourceSet)> {
    let cores = jobspec.counts().ncores();
    times.iter().find_map(|(at, freed)| {
        if let Some(freed) = freed {
            free.union_with(freed);
        }
        // Counting is cheaper than choosing.
        let enough = free.ncores() as u64 >= cores;
        let resources = enough.then(|| turn.pool().choose_at(&free, jobspec, *at)).flatten()?;
        Some((*at, resources))
    })
}
