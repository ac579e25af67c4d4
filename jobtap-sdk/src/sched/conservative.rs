//! Conservative backfill: every pending job has a reservation, so that no job is delayed by a job of lower
//! priority.
//!
//! The plan divides time into spans at the expected ends of jobs and at the limits of reservations; within
//! a span the free resources stay the same. A job is planned at the earliest time at which there are
//! enough free resources until its time limit.

use super::pool::limit;
use super::turn::{Scheduler, Turn};
use crate::job::JobId;
use crate::jobspec::Jobspec;
use crate::resource::ResourceSet;

/// The maximum number of jobs with reservations, which bounds the time of a turn. The jobs after them are considered
/// when earlier ones have started.
const DEPTH: usize = 64;

/// The scheduler `conservative`: every pending job has a reservation at the earliest time at which it can
/// run, and a job starts out of order only if it delays none of the jobs before it.
///
/// If a job needs the resources of a job without a time limit, its start isn't known: all nodes that it can use are
/// reserved from the time at which it could start if the other job ended as soon as it has begun. Jobs whose nodes are drained or offline are passed over: nothing is
/// reserved for them.
#[derive(Debug, Default)]
pub struct Conservative {
    /// The pool's change counter and the jobs for which the last plan was made, so that an unchanged plan is not
    /// made again.
    planned: Option<(u64, Vec<JobId>)>,
}

impl Scheduler for Conservative {
    fn name(&self) -> &'static str {
        "conservative"
    }

    fn starts_in_order(&self) -> bool {
        true
    }

    fn turn(&mut self, turn: &mut Turn<'_>) {
        let changes = turn.pool().changes();
        let same = |(pool, of): &(u64, Vec<JobId>)| {
            *pool == changes && turn.pending().take(DEPTH).eq(of.iter().copied())
        };
        if self.planned.as_ref().is_some_and(same) {
            return;
        }
        let mut plan = Plan::new(turn);
        let mut jobs = Vec::new();
        for id in turn.pending() {
            if jobs.len() == DEPTH {
                break;
            }
            if turn.pass_over(id) {
                continue;
            }
            jobs.push(id);
            let Some(jobspec) = turn.jobspec(id) else { continue };
            match plan.reserve(turn, jobspec) {
                Some(start) if start.now => {
                    let others = turn.pool().free().difference(&start.resources);
                    turn.allocate(id, Some(&others));
                }
                Some(_) => {}
                // The plan has no time for the job: either it can never run, which `allocate` finds out, or a
                // maintenance without an end begins too soon.
                None => drop(turn.allocate(id, None)),
            }
        }
        self.planned = Some((turn.pool().changes(), jobs));
    }

    fn job_left(&mut self, _: JobId) {
        self.planned = None;
    }
}

/// The free resources from now on.
struct Plan {
    /// In order of time. A span lasts until the next one begins.
    spans: Vec<Span>,
    /// The resources of jobs whose end isn't known, each with the time at which the job gets them.
    open: Vec<(f64, ResourceSet)>,
}

#[derive(Clone)]
struct Span {
    from: f64,
    free: ResourceSet,
}

/// The planned start of a job.
struct Start {
    now: bool,
    resources: ResourceSet,
}

impl Plan {
    fn new(turn: &Turn<'_>) -> Self {
        let now = turn.now();
        let spans = vec![Span { from: now, free: turn.pool().free().clone() }];
        let mut plan = Self { spans, open: Vec::new() };
        for running in turn.running() {
            let Some(until) = running.until else {
                plan.open.push((now, running.resources.clone()));
                continue;
            };
            // A job past its time limit may finish at any moment, but its resources are not free
            // yet. So its end must be after now.
            let at = plan.cut(until.max(now.next_up()));
            for span in plan.spans.iter_mut().skip(at) {
                span.free.union_with(running.resources);
            }
        }
        for maintenance in turn.pool().maintenance() {
            let empty = turn.pool().all().with_ranks(&maintenance.ranks);
            if maintenance.to > now {
                plan.take(maintenance.from.max(now), maintenance.to, &empty);
            }
        }
        plan
    }

    /// Splits a span so that one begins at `at`, and returns the index of the new span.
    fn cut(&mut self, at: f64) -> usize {
        let next = self.spans.partition_point(|span| span.from < at);
        let begins = self.spans.get(next).is_some_and(|span| span.from == at);
        if !begins {
            // The first span begins now, and nothing is planned before it.
            let Some(before) = next.checked_sub(1).and_then(|index| self.spans.get(index)) else {
                return 0;
            };
            let span = Span { from: at, ..before.clone() };
            self.spans.insert(next, span);
        }
        next
    }

    /// Finds the earliest start for a job and reserves its resources.
    fn reserve(&mut self, turn: &Turn<'_>, jobspec: &Jobspec) -> Option<Start> {
        let limit = limit(jobspec);
        for index in 0..self.spans.len() {
            let from = self.spans.get(index)?.from;
            let end = from + limit;
            let mut common = self.spans.get(index)?.free.clone();
            for span in self.spans.iter().skip(index + 1).take_while(|span| span.from < end) {
                common = common.intersection(&span.free);
            }
            if let Some(resources) = turn.pool().choose_from(&common, jobspec) {
                self.take(from, end, &resources);
                if end.is_infinite() {
                    self.open.push((from, resources.clone()));
                }
                return Some(Start { now: index == 0, resources });
            }
        }
        let resources = turn.pool().eligible_resources(jobspec)?;
        let from = self.possible_from(turn, jobspec, &resources)?;
        self.take(from, f64::INFINITY, &resources);
        self.open.push((from, resources.clone()));
        Some(Start { now: false, resources })
    }

    /// The earliest time at which a job could start if the jobs without a known end that hold some of `resources` ended
    /// as soon as they begin.
    fn possible_from(
        &self,
        turn: &Turn<'_>,
        jobspec: &Jobspec,
        resources: &ResourceSet,
    ) -> Option<f64> {
        let open = self.open.iter().filter(|(_, open)| open.intersects(resources));
        let cores = jobspec.counts().ncores();
        let first = open.clone().map(|(from, _)| *from).min_by(f64::total_cmp)?;
        let fits = |span: &&Span| {
            let mut free = span.free.clone();
            let begun = open.clone().filter(|(from, _)| *from <= span.from);
            begun.for_each(|(_, open)| free.union_with(open));
            // Counting is cheaper than choosing.
            free.ncores() as u64 >= cores
                && turn.pool().choose_at(&free, jobspec, span.from).is_some()
        };
        let spans = self.spans.iter().filter(|span| span.from >= first);
        Some(spans.clone().find(fits).map_or(first, |span| span.from))
    }

    fn take(&mut self, from: f64, end: f64, resources: &ResourceSet) {
        let first = self.cut(from);
        let last = if end.is_finite() { self.cut(end) } else { self.spans.len() };
        for span in self.spans.iter_mut().take(last).skip(first) {
            span.free.subtract(resources);
        }
    }
}
