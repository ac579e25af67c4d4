//! Conservative backfill: every job that waits has a reservation, and none is delayed by a job behind
//! it.
//!
//! Time is cut where jobs end or reservations begin and end; between two cuts what is free stays the
//! same. A job gets the earliest place in which there is enough from its start to its time limit.

use super::turn::{Scheduler, Turn};
use crate::job::JobId;
use crate::jobspec::Jobspec;
use crate::resource::ResourceSet;

/// How many jobs have reservations: so that a turn takes no longer in a long queue. Those behind wait
/// until they are among them.
const DEPTH: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub struct Conservative {
    /// What the last plan was made of: the state of the pool, and the jobs.
    planned: Option<(u64, Vec<JobId>)>,
}

impl Scheduler for Conservative {
    fn name(&self) -> &'static str {
        "conservative"
    }

    fn turn(&mut self, turn: &mut Turn<'_>) {
        let jobs: Vec<JobId> = turn.waiting().take(DEPTH).collect();
        let changes = turn.pool().changes();
        let same = |(pool, of): &(u64, Vec<JobId>)| *pool == changes && *of == jobs;
        if self.planned.as_ref().is_some_and(same) {
            return;
        }
        let mut plan = Plan::new(turn);
        for id in &jobs {
            let Some(jobspec) = turn.jobspec(*id) else { continue };
            match plan.reserve(turn, jobspec) {
                Some(start) if start.now => {
                    let others = turn.pool().free().difference(&start.resources);
                    turn.allocate(*id, Some(&others));
                }
                Some(_) => {}
                // It fits at no time: for want of resources, or because no end of others is known.
                // Nobody may pass it then, unless it never can run.
                None if turn.allocate(*id, None) => {}
                None => break,
            }
        }
        self.planned = Some((turn.pool().changes(), jobs));
    }

    fn left(&mut self, _: JobId) {
        self.planned = None;
    }
}

/// What is free from now on.
struct Plan {
    /// Each with what is free from its time to that of the next one.
    spans: Vec<Span>,
}

#[derive(Clone)]
struct Span {
    from: f64,
    free: ResourceSet,
}

/// A place in the plan.
struct Start {
    now: bool,
    resources: ResourceSet,
}

impl Plan {
    fn new(turn: &Turn<'_>) -> Self {
        let now = turn.now();
        let mut plan = Self { spans: vec![Span { from: now, free: turn.pool().free().clone() }] };
        for running in turn.running() {
            let Some(until) = running.until else { continue };
            // One that is late ends any moment, but not before something else can start: what it
            // has isn't free now.
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

    /// Makes a span begin at a time; says which.
    fn cut(&mut self, at: f64) -> usize {
        let next = self.spans.partition_point(|span| span.from < at);
        let begins = self.spans.get(next).is_some_and(|span| span.from == at);
        if !begins {
            // The first span begins now, and nothing is cut before.
            let Some(before) = next.checked_sub(1).and_then(|index| self.spans.get(index)) else {
                return 0;
            };
            let span = Span { from: at, ..before.clone() };
            self.spans.insert(next, span);
        }
        next
    }

    /// Finds the earliest place for a job and takes it.
    fn reserve(&mut self, turn: &Turn<'_>, jobspec: &Jobspec) -> Option<Start> {
        let limit = jobspec.duration();
        let limit = if limit > 0.0 { limit } else { f64::INFINITY };
        for index in 0..self.spans.len() {
            let from = self.spans.get(index)?.from;
            let end = from + limit;
            let mut common = self.spans.get(index)?.free.clone();
            for span in self.spans.iter().skip(index + 1).take_while(|span| span.from < end) {
                common = common.intersection(&span.free);
            }
            if let Some(resources) = turn.pool().choose_from(&common, jobspec) {
                self.take(from, end, &resources);
                return Some(Start { now: index == 0, resources });
            }
        }
        None
    }

    fn take(&mut self, from: f64, end: f64, resources: &ResourceSet) {
        let first = self.cut(from);
        let last = if end.is_finite() { self.cut(end) } else { self.spans.len() };
        for span in self.spans.iter_mut().take(last).skip(first) {
            span.free.subtract(resources);
        }
    }
}
