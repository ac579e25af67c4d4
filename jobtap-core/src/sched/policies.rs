//! The schedulers that come with jobtap.
//!
//! Both go by priority. They differ in what happens behind the first job for which there is nothing
//! free: strict order lets nobody pass it; EASY backfill lets those pass who can't delay it.

use rustc_hash::FxHashSet;

use super::asked::Asked;
use super::turn::{Running, Scheduler, Turn};
use crate::job::JobId;
use crate::jobspec::Jobspec;
use crate::resource::ResourceSet;

/// Strict order: a job that can't start yet blocks all behind it.
#[derive(Debug, Default)]
pub struct Fifo {
    /// The job that was asked for in vain, and the state of the pool then.
    blocked: Option<(JobId, u64)>,
}

impl Scheduler for Fifo {
    fn name(&self) -> &'static str {
        "fifo"
    }

    fn turn(&mut self, turn: &mut Turn<'_>) {
        for id in turn.waiting() {
            let asked = Some((id, turn.pool().changes()));
            if self.blocked == asked {
                // Nothing came back since: no need to search all nodes again.
                return;
            }
            if !turn.allocate(id, None) {
                self.blocked = asked;
                return;
            }
        }
    }

    fn left(&mut self, id: JobId) {
        self.blocked = self.blocked.filter(|(blocked, _)| *blocked != id);
    }
}

/// EASY backfill: the first job that can't start has a reservation at the earliest time at which there
/// will be enough for it, by the time limits of the jobs that run. A job behind it may start if it ends
/// before that time, or takes nothing of what is reserved.
///
/// When a job that runs has no time limit and its resources are needed, no time is known, and strict
/// order holds: nobody passes whose passing might be a delay.
#[derive(Debug, Default)]
pub struct Easy {
    reservation: Option<Reserved>,
}

/// What is kept from one turn to the next.
#[derive(Debug)]
struct Reserved {
    head: JobId,
    /// The state of the pool for which this is true.
    changes: u64,
    /// Looked for when the first job comes that could pass.
    reservation: Option<Option<Reservation>>,
    /// Jobs that were tried behind it, and can't start in this state of the pool.
    tried: FxHashSet<JobId>,
    /// Requests for which there is nothing beside what is reserved.
    in_vain: Asked,
}

/// The time from which a job can run, and on what.
#[derive(Debug, Clone)]
pub struct Reservation {
    /// UNIX seconds.
    pub at: f64,
    /// What it will get.
    pub resources: ResourceSet,
}

impl Scheduler for Easy {
    fn name(&self) -> &'static str {
        "easy"
    }

    fn turn(&mut self, turn: &mut Turn<'_>) {
        let mut waiting = turn.waiting();
        let head = loop {
            let Some(id) = waiting.next() else { return };
            let known = self.reservation.as_ref();
            if known.is_some_and(|r| r.head == id && r.changes == turn.pool().changes()) {
                break id;
            }
            if !turn.allocate(id, None) {
                self.reserve(id, turn);
                break id;
            }
        };
        if turn.pool().free().is_empty() {
            return;
        }
        for id in waiting.take(DEPTH) {
            self.backfill(head, id, turn);
        }
    }

    fn left(&mut self, id: JobId) {
        match &mut self.reservation {
            Some(reserved) if reserved.head == id => self.reservation = None,
            Some(reserved) => {
                reserved.tried.remove(&id);
            }
            None => {}
        }
    }
}

/// How many jobs behind the first one are looked at: so that a turn takes no longer in a long queue.
const DEPTH: usize = 256;

impl Easy {
    fn reserve(&mut self, head: JobId, turn: &Turn<'_>) {
        self.reservation = Some(Reserved {
            head,
            changes: turn.pool().changes(),
            reservation: None,
            tried: FxHashSet::default(),
            in_vain: Asked::default(),
        });
    }

    /// Starts a job behind the first one, if that can't delay it.
    fn backfill(&mut self, head: JobId, id: JobId, turn: &mut Turn<'_>) {
        let Some(reserved) = self.reservation.as_mut() else { return };
        if reserved.head != head || !reserved.tried.insert(id) {
            return;
        }
        let Some(jobspec) = turn.jobspec(id).filter(|jobspec| turn.fits(jobspec)) else { return };
        let look = || turn.jobspec(head).and_then(|spec| earliest(spec, turn));
        let Some(reservation) = reserved.reservation.get_or_insert_with(look) else { return };
        let duration = jobspec.duration();
        let ends_before = duration > 0.0 && turn.now() + duration <= reservation.at;
        let but = if ends_before { None } else { Some(&reservation.resources) };
        if but.is_some() && reserved.in_vain.has(jobspec) {
            return;
        }
        if turn.allocate(id, but) {
            // It was no change for the reservation, which stays as it is.
            reserved.changes = turn.pool().changes();
        } else if but.is_some() && turn.pool().maintenance().is_empty() {
            reserved.in_vain.note(jobspec);
        }
    }
}

/// The earliest time at which there is enough for a job, if those that run end at their time limits
/// and nobody else is started.
fn earliest<'a>(jobspec: &Jobspec, turn: &Turn<'a>) -> Option<Reservation> {
    // One that is late ends any moment.
    let ends = |running: Running<'a>| Some((running.until?.max(turn.now()), Some(running)));
    let mut times: Vec<(f64, Option<Running<'_>>)> =
        turn.running().into_iter().filter_map(ends).collect();
    // The end of a maintenance makes room as well.
    times.extend(turn.pool().maintenance().iter().map(|m| (m.to, None)));
    times.retain(|(at, _)| at.is_finite() && *at >= turn.now());
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut free = turn.pool().free().clone();
    for (at, running) in times {
        if let Some(running) = running {
            free.union_with(running.resources);
        }
        if let Some(resources) = turn.pool().choose_at(&free, jobspec, at) {
            return Some(Reservation { at, resources });
        }
    }
    None
}
