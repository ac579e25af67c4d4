//! The pool: which resources of the instance are allocated, free, or not usable.
//!
//! Nodes with the most free cores are chosen first, then those with the most free gpus, then those with
//! the lowest rank. On a node the lowest free ids are chosen first. Only nodes that match the job's
//! constraint (RFC 31) are eligible.

use super::choice::{Shortage, choose, shortage, with_room};
use crate::jobspec::{Counts, Jobspec};
use crate::resource::{Constraint, ConstraintError, Idset, ResourceSet};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;
use std::borrow::Cow;

/// The resources of the instance and which of them are allocated.
#[derive(Debug, Clone)]
pub struct Pool {
    /// All resources, including excluded nodes.
    inventory: ResourceSet,
    /// All resources without excluded nodes.
    all: ResourceSet,
    /// Resources that are not allocated, including nodes that are down or excluded.
    unallocated: ResourceSet,
    /// The part of `unallocated` on nodes that are neither down nor excluded. `None` if that is all of it, which is so
    /// while `out` is empty: then an allocation changes one set instead of two.
    up: Option<ResourceSet>,
    down: Idset,
    /// Nodes that are down or excluded.
    out: Idset,
    maintenance: Vec<Maintenance>,
    /// Whether a rank is a place in which one host comes after the other.
    hosts_change: bool,
    /// Until when nodes are there that an outer job manager has lent.
    ends: Vec<Maintenance>,
    changes: u64,
    /// Counts changes to the set of usable nodes.
    node_changes: u64,
    /// Requests that are known to be satisfiable if no other job runs and all nodes are up.
    feasible: RequestSet,
    /// Requests that are known to be satisfiable by the nodes that are up.
    present: RequestSet,
    /// Requests that are known to be feasible, but not with the nodes that are up.
    absent: RequestSet,
    /// Requests that can't be satisfied until more resources are free.
    busy: RequestSet,
}

/// The answer to a request for resources.
#[derive(Debug, Clone)]
pub enum Answer {
    /// The job has been allocated these resources.
    Granted(ResourceSet),
    /// The request can't be satisfied now, but can be when other jobs have finished.
    Busy,
    /// The request can never be satisfied, for this reason.
    Never(Infeasible),
}

/// Why a job can never run with the resources of the instance.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Infeasible {
    /// Its constraint is malformed, which is so only if the jobspec wasn't validated.
    #[error("unsatisfiable request: attributes.system.constraints: {0}")]
    Constraint(#[from] ConstraintError),
    /// It needs more than there is.
    #[error("unsatisfiable request: {0}")]
    Shortage(#[from] Shortage),
    /// It would end at a time that can't be written.
    #[error("the job's duration is out of range")]
    NoEnd,
}

impl Pool {
    /// A pool with these resources, all of them free.
    pub fn new(all: &ResourceSet) -> Self {
        Self {
            inventory: all.clone(),
            all: all.clone(),
            unallocated: all.clone(),
            up: None,
            down: Idset::new(),
            out: Idset::new(),
            maintenance: Vec::new(),
            hosts_change: false,
            ends: Vec::new(),
            changes: 0,
            node_changes: 0,
            feasible: RequestSet::default(),
            present: RequestSet::default(),
            absent: RequestSet::default(),
            busy: RequestSet::default(),
        }
    }

    /// A counter that increases when the free resources change. As long as it stays the same, so does the
    /// answer to a request.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// A counter that increases when the set of usable nodes changes. As long as it stays the same, so does the answer
    /// of [`lacks_nodes`](Self::lacks_nodes), unless a maintenance has come too near.
    pub fn node_changes(&self) -> u64 {
        self.node_changes
    }

    /// All resources, including those of excluded nodes.
    pub fn inventory(&self) -> &ResourceSet {
        &self.inventory
    }

    /// All resources except those of excluded nodes.
    pub fn all(&self) -> &ResourceSet {
        &self.all
    }

    /// The resources that can be allocated now.
    pub fn free(&self) -> &ResourceSet {
        self.up.as_ref().unwrap_or(&self.unallocated)
    }

    /// The resources that are allocated to jobs.
    pub fn allocated(&self) -> ResourceSet {
        self.inventory.difference(&self.unallocated)
    }

    /// The nodes that are down: drained or offline, so that new jobs don't get them.
    pub fn down(&self) -> &Idset {
        &self.down
    }

    /// Sets the nodes that are down. Jobs that run on them keep their resources.
    pub fn set_down(&mut self, down: Idset) {
        if self.down != down {
            self.down = down;
            self.refresh();
        }
    }

    /// Sets the excluded nodes. Requests that need them are refused as unsatisfiable. Jobs that run on
    /// them keep their resources.
    pub fn set_excluded(&mut self, excluded: &Idset) {
        self.all = self.inventory.without_ranks(excluded);
        self.refresh();
    }

    /// Replaces the inventory and the excluded nodes. Jobs keep their resources.
    pub fn set_inventory(&mut self, all: &ResourceSet, excluded: &Idset) {
        let held = self.allocated();
        self.inventory = all.clone();
        self.unallocated = all.difference(&held);
        self.set_excluded(excluded);
    }

    fn refresh(&mut self) {
        self.out = self.down.union(&self.inventory.ranks().difference(&self.all.ranks()));
        self.up = match self.up(&self.unallocated) {
            Cow::Borrowed(_) => None,
            Cow::Owned(up) => Some(up),
        };
        self.feasible.clear();
        self.other_nodes();
    }

    /// Clears the cached answers that depend on the usable nodes.
    fn other_nodes(&mut self) {
        self.present.clear();
        self.absent.clear();
        self.node_changes += 1;
        self.more_is_free();
    }

    /// The reservations of nodes for maintenance.
    pub fn maintenance(&self) -> &[Maintenance] {
        &self.maintenance
    }

    /// Sets the reservations for maintenance. Must also be called at the end of one of them, since jobs
    /// may be waiting for it.
    pub fn set_maintenance(&mut self, maintenance: Vec<Maintenance>) {
        self.maintenance = maintenance;
        self.other_nodes();
    }

    /// From now on, a rank is a place in which one host comes after the other: what a job has there is its own and is freed
    /// under whichever name the host of that rank has then.
    #[doc(hidden)]
    pub fn let_hosts_change(&mut self) {
        self.hosts_change = true;
    }

    /// What a job has, as it is compared with the inventory.
    fn comparable<'a>(&self, held: &'a ResourceSet) -> Cow<'a, ResourceSet> {
        match self.hosts_change {
            true => Cow::Owned(held.without_hosts()),
            false => Cow::Borrowed(held),
        }
    }

    /// Sets when nodes will be gone, in UNIX seconds. A job whose time limit reaches beyond that doesn't start there; one
    /// without a time limit does.
    pub fn set_ends(&mut self, ends: impl IntoIterator<Item = (Idset, f64)>) {
        let endless = |(ranks, from)| Maintenance { ranks, from, to: f64::INFINITY };
        let ends: Vec<Maintenance> = ends.into_iter().map(endless).collect();
        if self.ends != ends {
            self.ends = ends;
            self.other_nodes();
        }
    }

    /// Whether nodes have an end that was [set](Self::set_ends).
    pub(super) fn has_ends(&self) -> bool {
        !self.ends.is_empty()
    }

    /// What keeps a job of this duration (infinite without a time limit) from nodes at some time.
    fn closures(&self, duration: f64) -> impl Iterator<Item = &Maintenance> {
        let ends = self.ends.iter().filter(move |_| duration.is_finite());
        self.maintenance.iter().chain(ends)
    }

    /// Must be called when reservations may be different though the same resources are free: the expected end of a
    /// running job has changed, or a maintenance has come too near for a pending job.
    pub fn plan_anew(&mut self) {
        self.changes += 1;
    }

    fn more_is_free(&mut self) {
        self.busy.clear();
        self.changes += 1;
    }

    /// Allocates resources to a job that starts at `now` (UNIX seconds).
    pub fn allocate(&mut self, jobspec: &Jobspec, now: f64) -> Answer {
        self.allocate_except(jobspec, now, None)
    }

    /// Like [`allocate`](Self::allocate), but only from free resources that are not in `except`.
    pub fn allocate_except(
        &mut self,
        jobspec: &Jobspec,
        now: f64,
        except: Option<&ResourceSet>,
    ) -> Answer {
        if self.busy.has(jobspec) {
            return Answer::Busy;
        }
        let counts = jobspec.counts();
        let constraint = match constraint(jobspec) {
            Ok(constraint) => constraint,
            Err(error) => return Answer::Never(error.into()),
        };
        let free = match except {
            None => Cow::Borrowed(self.free()),
            Some(except) => Cow::Owned(self.free().difference(except)),
        };
        let free = self.without_maintenance(free, now, jobspec);
        let whole = matches!(free, Cow::Borrowed(_));
        let Some(mut chosen) = self.choose(&free, &constraint, &counts) else {
            return self.refuse(jobspec, &constraint, whole);
        };
        chosen.set_nslots(counts.nslots);
        // This only fails if the expiration is not after `now`, which it is.
        if chosen.set_times(now, self.expiration_of(jobspec, now)).is_err() {
            return Answer::Never(Infeasible::NoEnd);
        }
        self.take(&chosen);
        chosen.remove_local_properties();
        Answer::Granted(chosen)
    }

    /// When a job that starts now ends at the latest; 0 if it has no limit.
    fn expiration_of(&self, jobspec: &Jobspec, now: f64) -> f64 {
        let duration = jobspec.duration();
        match duration > 0.0 && duration.is_finite() {
            true => now + duration,
            // A job without a time limit may run until the instance itself expires.
            false => self.inventory.expiration().filter(|end| *end > now).unwrap_or(0.0),
        }
    }

    /// What a job has that gets the allocated resources of another one with the same request; `None` if it would end at
    /// a time that can't be written.
    #[doc(hidden)]
    #[must_use]
    pub fn handed_over(
        &self,
        resources: &ResourceSet,
        jobspec: &Jobspec,
        now: f64,
    ) -> Option<ResourceSet> {
        let mut resources = resources.clone();
        resources.set_times(now, self.expiration_of(jobspec, now)).ok()?;
        Some(resources)
    }

    /// Whether [`allocate`](Self::allocate) is worth a call at `now` (UNIX seconds): there are enough free
    /// resources for the job, or it is not known yet whether it can ever run.
    pub(crate) fn fits(&mut self, jobspec: &Jobspec, now: f64) -> bool {
        if self.busy.has(jobspec) {
            return false;
        }
        let free = self.without_maintenance(Cow::Borrowed(self.free()), now, jobspec);
        let whole = matches!(free, Cow::Borrowed(_));
        if !self.feasible.has(jobspec) || self.choose_from(&free, jobspec).is_some() {
            return true;
        }
        if whole {
            self.busy.note(jobspec);
        }
        false
    }

    fn choose(
        &self,
        free: &ResourceSet,
        constraint: &Constraint,
        counts: &Counts,
    ) -> Option<ResourceSet> {
        // All resources of a node matter only if the job gets whole nodes.
        let all = match counts.exclusive {
            true => eligible(&self.all, constraint),
            false => Cow::Borrowed(&self.all),
        };
        choose(&eligible(free, constraint), &all, counts)
    }

    /// The answer if no resources were found. `whole` is true if all free resources were searched, so
    /// that the result also holds for later requests.
    fn refuse(&mut self, jobspec: &Jobspec, constraint: &Constraint, whole: bool) -> Answer {
        if !self.feasible.has(jobspec) {
            let all = eligible(&self.all, constraint);
            if let Some(shortage) = shortage(&all, &jobspec.counts()) {
                return Answer::Never(shortage.into());
            }
            self.feasible.note(jobspec);
        }
        if whole {
            self.busy.note(jobspec);
        }
        Answer::Busy
    }

    /// Whether a feasible job can't run on the usable nodes, even if all other jobs end: the other nodes are drained,
    /// offline, or under a maintenance that has no end and would affect the job if it started at `now` (UNIX seconds).
    /// The job can't start before the nodes change, and it isn't known when that will be.
    pub fn lacks_nodes(&mut self, jobspec: &Jobspec, now: f64) -> bool {
        let duration = limit(jobspec);
        let endless = self.closures(duration).filter(|m| m.to == f64::INFINITY);
        let closed = endless.filter(|m| m.concerns(now, duration));
        let closed = closed.fold(Idset::new(), |all, m| all.union(&m.ranks));
        if !closed.is_empty() {
            // Not cached: the answer depends on the time limit, too.
            let there = self.up(&self.all).without_ranks(&closed);
            return self.is_feasible(jobspec) && self.choose_from(&there, jobspec).is_none();
        }
        if self.out.is_empty() || self.present.has(jobspec) {
            return false;
        }
        if self.absent.has(jobspec) {
            return true;
        }
        if self.choose_from(&self.all, jobspec).is_some() {
            self.present.note(jobspec);
            return false;
        }
        let lacks = self.is_feasible(jobspec);
        if lacks {
            self.absent.note(jobspec);
        }
        lacks
    }

    /// The next time, in UNIX seconds, from which a maintenance that doesn't affect the job if it starts at `now` would
    /// affect it, or nodes are there for too short a time; `None` if nothing of that is to come.
    #[doc(hidden)]
    #[must_use]
    pub fn comes_too_near(&self, jobspec: &Jobspec, now: f64) -> Option<f64> {
        let duration = limit(jobspec);
        first_too_near(self.closures(duration), duration, now)
    }

    /// Whether a job could start at any time from `now` until `until` (UNIX seconds) on nodes on which it could start now:
    /// no maintenance is to come, and no node's end comes too near in that time.
    #[doc(hidden)]
    #[must_use]
    pub fn stays_possible(&self, jobspec: &Jobspec, now: f64, until: f64) -> bool {
        let duration = limit(jobspec);
        first_too_near(self.maintenance.iter(), duration, now).is_none()
            && self.comes_too_near(jobspec, now).is_none_or(|at| at > until)
    }

    /// Whether a job could run if there were no other jobs and all nodes were up.
    fn is_feasible(&mut self, jobspec: &Jobspec) -> bool {
        let is_feasible = self.feasible.has(jobspec) || self.feasible(jobspec).is_ok();
        if is_feasible {
            self.feasible.note(jobspec);
        }
        is_feasible
    }

    /// The nodes that match the job's constraint and have enough resources for a part of the job if no other job runs,
    /// including nodes that are down.
    pub fn eligible_ranks(&self, jobspec: &Jobspec) -> Idset {
        let constraint = constraint(jobspec).unwrap_or(Constraint::Always);
        with_room(&eligible(&self.all, &constraint), &jobspec.counts())
    }

    /// The nodes that match the job's constraint, are up, and are not reserved for maintenance while the
    /// job would run if it started at `start` (UNIX seconds).
    pub fn usable_ranks(&self, jobspec: &Jobspec, start: f64) -> Idset {
        let constraint = constraint(jobspec).unwrap_or(Constraint::Always);
        let up = self.without_maintenance(self.up(&self.all), start, jobspec);
        eligible(&up, &constraint).ranks()
    }

    /// Whether a job could run on the nodes that are up if there were no other jobs and no maintenance.
    pub fn could_run_without_maintenance(&self, jobspec: &Jobspec) -> bool {
        self.choose_from(&self.all, jobspec).is_some()
    }

    /// Whether a job could start now if all nodes were up.
    pub fn could_start_with_all_nodes_up(&self, jobspec: &Jobspec) -> bool {
        let constraint = constraint(jobspec).unwrap_or(Constraint::Always);
        let unallocated = self.all.intersection(&self.unallocated);
        self.choose(&unallocated, &constraint, &jobspec.counts()).is_some()
    }

    /// The resources that a job would get if `free` were free. Allocates nothing. Nodes that are down are
    /// not used.
    pub fn choose_from(&self, free: &ResourceSet, jobspec: &Jobspec) -> Option<ResourceSet> {
        let constraint = constraint(jobspec).ok()?;
        self.choose(&self.up(free), &constraint, &jobspec.counts())
    }

    /// Like [`choose_from`](Self::choose_from), for a job that starts at `at` (UNIX seconds). Nodes on
    /// which it could still run when a maintenance begins are not used.
    pub fn choose_at(&self, free: &ResourceSet, jobspec: &Jobspec, at: f64) -> Option<ResourceSet> {
        let free = self.without_maintenance(Cow::Borrowed(free), at, jobspec);
        self.choose_from(&free, jobspec)
    }

    /// The resources that a job may get if its start isn't known: all nodes that it can use, since any of them may
    /// become free first. `None` if it can't run on the usable nodes.
    pub(super) fn eligible_resources(&self, jobspec: &Jobspec) -> Option<ResourceSet> {
        self.choose_at(&self.all, jobspec, f64::INFINITY)?;
        Some(self.all.with_ranks(&self.eligible_ranks(jobspec)))
    }

    /// The part of `set` on nodes that are neither down nor excluded.
    fn up<'a>(&self, set: &'a ResourceSet) -> Cow<'a, ResourceSet> {
        if self.out.is_empty() {
            Cow::Borrowed(set)
        } else {
            Cow::Owned(set.without_ranks(&self.out))
        }
    }

    fn without_maintenance<'a>(
        &self,
        free: Cow<'a, ResourceSet>,
        start: f64,
        jobspec: &Jobspec,
    ) -> Cow<'a, ResourceSet> {
        let duration = limit(jobspec);
        let concerned = self.closures(duration).filter(|m| m.concerns(start, duration));
        concerned.fold(free, |free, m| Cow::Owned(free.without_ranks(&m.ranks)))
    }

    /// Checks that a job could run if there were no other jobs.
    ///
    /// # Errors
    /// The reason why the job can never run.
    pub fn feasible(&self, jobspec: &Jobspec) -> Result<(), Infeasible> {
        let constraint = constraint(jobspec)?;
        match shortage(&eligible(&self.all, &constraint), &jobspec.counts()) {
            Some(shortage) => Err(shortage.into()),
            None => Ok(()),
        }
    }

    /// The part of `set` that is not allocated, including nodes that are down or excluded.
    pub fn unallocated_of(&self, set: &ResourceSet) -> ResourceSet {
        self.unallocated.intersection(set)
    }

    /// Allocates the resources of a restored job. Returns false and changes nothing if some of them are
    /// already allocated or not in the inventory.
    pub fn claim(&mut self, held: &ResourceSet) -> bool {
        if !self.comparable(held).is_subset(&self.unallocated) {
            return false;
        }
        self.take(held);
        true
    }

    fn take(&mut self, chosen: &ResourceSet) {
        self.unallocated.subtract(chosen);
        if let Some(up) = &mut self.up {
            up.subtract(chosen);
        }
        self.changes += 1;
    }

    /// Frees the resources of a job.
    pub fn release(&mut self, held: &ResourceSet) {
        let back = self.inventory.intersection(&self.comparable(held));
        let usable = self.up.is_some().then(|| self.up(&back).into_owned());
        if let (Some(up), Some(usable)) = (&mut self.up, usable) {
            up.union_with(&usable);
        }
        self.unallocated.union_with(&back);
        self.more_is_free();
    }
}

/// The first time from which one of these closures keeps a job of this duration from its nodes, if it doesn't at `now`.
fn first_too_near<'a>(
    closures: impl Iterator<Item = &'a Maintenance>,
    duration: f64,
    now: f64,
) -> Option<f64> {
    let later = closures.filter(|m| now + duration <= m.from);
    // Rounded up, so that the sum of this and the duration is above `from`: then the closure affects the job, and this is
    // after `now`.
    later.map(|m| (m.from.next_up() - duration).next_up()).min_by(f64::total_cmp)
}

/// A job's time limit, in seconds; infinite for a job without one.
pub(super) fn limit(jobspec: &Jobspec) -> f64 {
    Some(jobspec.duration()).filter(|limit| *limit > 0.0).unwrap_or(f64::INFINITY)
}

/// The job's constraint, which may be malformed if the jobspec was not validated.
fn constraint(jobspec: &Jobspec) -> Result<Constraint, ConstraintError> {
    jobspec.constraints().map_or(Ok(Constraint::Always), Constraint::from_value)
}

/// The part of `set` that matches a constraint. Most jobs have none, and nothing is copied for them.
fn eligible<'a>(set: &'a ResourceSet, constraint: &Constraint) -> Cow<'a, ResourceSet> {
    match constraint {
        Constraint::Always => Cow::Borrowed(set),
        constraint => Cow::Owned(set.matching(constraint)),
    }
}

/// Nodes that are reserved for maintenance for a period. A job whose time limit reaches into the period
/// doesn't start on these nodes.
///
/// ```
/// use jobtap_core::resource::Idset;
/// use jobtap_core::sched::Maintenance;
///
/// let ranks = Idset::from(0..=3);
/// let maintenance = Maintenance { ranks, from: 1000.0, to: 2000.0 };
/// assert!(!maintenance.concerns(900.0, 100.0));
/// assert!(maintenance.concerns(900.0, 101.0));
/// assert!(maintenance.concerns(900.0, f64::INFINITY));
/// assert!(!maintenance.concerns(2000.0, f64::INFINITY));
/// let endless = Maintenance { to: f64::INFINITY, ..maintenance };
/// assert!(endless.concerns(f64::INFINITY, 1.0));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Maintenance {
    /// The ranks of the nodes.
    pub ranks: Idset,
    /// The start of the period, in UNIX seconds.
    pub from: f64,
    /// The end of the period, in UNIX seconds; infinite if it isn't known.
    pub to: f64,
}

impl Maintenance {
    /// Whether a job that starts at `start` (UNIX seconds) and has a time limit of `duration` seconds could
    /// run during the period. The duration of a job without a time limit is infinite, and so is a start that isn't
    /// known.
    pub fn concerns(&self, start: f64, duration: f64) -> bool {
        (start < self.to || self.to == f64::INFINITY) && start + duration > self.from
    }
}

/// The maximum number of requests in a set; a full set is cleared.
const MOST: usize = 256;

/// A set of requests, which are equal if their counts and constraints are, since these decide which
/// nodes can satisfy them.
///
/// Pools and schedulers cache answers with it, so that many equal pending jobs cost one search of the nodes.
#[derive(Debug, Clone, Default)]
pub(super) struct RequestSet {
    /// Requests without a constraint, as most are.
    plain: FxHashSet<Counts>,
    constrained: FxHashMap<Counts, Vec<Value>>,
    number: usize,
}

impl RequestSet {
    /// Whether the request of `jobspec` is in the set.
    pub(super) fn has(&self, jobspec: &Jobspec) -> bool {
        let counts = jobspec.counts();
        match jobspec.constraints() {
            None => self.plain.contains(&counts),
            Some(constraint) => {
                self.constrained.get(&counts).is_some_and(|known| known.contains(constraint))
            }
        }
    }

    /// Adds the request of `jobspec`.
    pub(super) fn note(&mut self, jobspec: &Jobspec) {
        if self.has(jobspec) {
            return;
        }
        if self.number >= MOST {
            self.clear();
        }
        self.number += 1;
        let counts = jobspec.counts();
        match jobspec.constraints() {
            None => {
                self.plain.insert(counts);
            }
            Some(value) => self.constrained.entry(counts).or_default().push(value.clone()),
        }
    }

    /// Removes all requests.
    pub(super) fn clear(&mut self) {
        self.plain.clear();
        self.constrained.clear();
        self.number = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobspec::JobspecBuilder;
    use crate::resource::Children;

    fn pool(cores: &str) -> Pool {
        Pool::new(&ResourceSet::single_host("h", cores.parse().unwrap()).unwrap())
    }

    fn job(ntasks: u64, cores: u64) -> Jobspec {
        JobspecBuilder::new(["true"]).ntasks(ntasks).cores_per_task(cores).build().unwrap()
    }

    fn granted(answer: Answer) -> ResourceSet {
        match answer {
            Answer::Granted(resources) => resources,
            other => panic!("not granted: {other:?}"),
        }
    }

    #[test]
    fn a_maintenance_affects_a_job_from_the_moment_at_which_it_comes_too_near() {
        for (now, from, seconds) in
            [(0.0, 100.0, 100.0), (10.0, 864_010.0, 864_000.0), (0.0, 86_400.0, 86_399.9)]
        {
            let mut pool = pool("0-3");
            let maintenance = Maintenance { ranks: Idset::from(0..=0), from, to: f64::INFINITY };
            pool.set_maintenance(vec![maintenance.clone()]);
            let jobspec = JobspecBuilder::new(["true"]).duration(seconds).build().unwrap();
            let at = pool.comes_too_near(&jobspec, now).unwrap();
            assert!(at > now && maintenance.concerns(at, seconds), "{now} {from} {seconds}");
            assert_eq!(pool.comes_too_near(&jobspec, at), None);
        }
    }

    #[test]
    fn allocates_the_lowest_free_cores() {
        let mut pool = pool("0-3");
        let first = granted(pool.allocate(&job(3, 1), 1.0));
        assert_eq!(first.summary(), "rank0/core[0-2]");
        let second = granted(pool.allocate(&job(1, 1), 1.0));
        assert_eq!(second.summary(), "rank0/core3");
        assert!(matches!(pool.allocate(&job(1, 1), 1.0), Answer::Busy));
        pool.release(&first);
        assert_eq!(granted(pool.allocate(&job(1, 2), 1.0)).summary(), "rank0/core[0-1]");
    }

    #[test]
    fn refuses_an_unsatisfiable_request_with_the_reason() {
        let Answer::Never(never) = pool("0-3").allocate(&job(5, 1), 1.0) else { panic!() };
        assert_eq!(
            never.to_string(),
            "unsatisfiable request: need 5 slot(s) of 1 core(s), only 4 such slot(s) available \
             (total cores: 4)"
        );
    }

    #[test]
    fn an_exclusive_job_waits_for_an_empty_node() {
        let mut pool = pool("0-3");
        let whole = JobspecBuilder::new(["true"]).nodes(1).exclusive(true).build().unwrap();
        let one = granted(pool.allocate(&job(1, 1), 1.0));
        assert!(matches!(pool.allocate(&whole, 1.0), Answer::Busy));
        pool.release(&one);
        assert_eq!(granted(pool.allocate(&whole, 1.0)).ncores(), 4);
    }

    #[test]
    fn a_busy_request_is_tried_again_after_a_release() {
        let mut pool = pool("0-3");
        let held = granted(pool.allocate(&job(3, 1), 1.0));
        let never = job(9, 1);
        for _ in 0..2 {
            assert!(pool.fits(&job(1, 1), 1.0));
            assert!(matches!(pool.allocate(&job(2, 1), 1.0), Answer::Busy));
            assert!(!pool.fits(&job(2, 1), 1.0));
            // An unsatisfiable request is always worth a call, which gives the reason.
            assert!(pool.fits(&never, 1.0));
            assert!(matches!(pool.allocate(&never, 1.0), Answer::Never(_)));
        }
        pool.release(&held);
        assert!(pool.fits(&job(2, 1), 1.0));
        assert!(matches!(pool.allocate(&job(2, 1), 1.0), Answer::Granted(_)));
    }

    #[test]
    fn the_time_limit_sets_the_expiration() {
        let spec = JobspecBuilder::new(["true"]).duration(60.0).build().unwrap();
        let r = granted(pool("0").allocate(&spec, 100.0));
        assert_eq!((r.starttime(), r.expiration()), (Some(100.0), Some(160.0)));
    }

    /// Four nodes with two cores each. n1 and n2 have a property.
    fn cluster() -> Pool {
        let cores = Children::new(Idset::from(0..=1), Idset::new());
        let mut all = ResourceSet::uniform(0, &"n[0-3]".parse().unwrap(), cores);
        all.set_property("ssd", &Idset::from(1..=2)).unwrap();
        all.set_property("+local", &Idset::from(1)).unwrap();
        Pool::new(&all)
    }

    fn requires(builder: JobspecBuilder, query: &str) -> Jobspec {
        let constraint = Constraint::from_query(query).unwrap().to_value();
        builder.attribute("constraints", constraint).unwrap().build().unwrap()
    }

    #[test]
    fn allocates_only_nodes_that_match_the_constraint() {
        let mut pool = cluster();
        let task = || JobspecBuilder::new(["true"]).cores_per_task(2);
        let two = granted(pool.allocate(&requires(task().ntasks(2), "ssd"), 1.0));
        assert_eq!(two.summary(), "rank[1-2]/core[0-1]");
        assert_eq!(two.properties().into_keys().collect::<Vec<_>>(), ["ssd"]);
        // Other nodes are free, but none of them matches.
        let another = requires(task(), "ssd|host:n1");
        assert!(matches!(pool.allocate(&another, 1.0), Answer::Busy));
        let last = granted(pool.allocate(&requires(task().nodes(1), "rank:3 -ssd"), 1.0));
        assert_eq!(last.nodelist().to_string(), "n3");
        pool.release(&two);
        assert_eq!(granted(pool.allocate(&another, 1.0)).summary(), "rank1/core[0-1]");
        pool.release(&last);
        assert_eq!(pool.free().properties(), cluster().all().without_ranks(&1.into()).properties());
    }

    #[test]
    fn refuses_a_constraint_that_too_few_nodes_match() {
        for (job, text) in [
            (
                requires(JobspecBuilder::new(["true"]).nodes(3).ntasks(3), "ssd"),
                "need 3 node(s) with 1 cores each, only 2 eligible",
            ),
            (
                requires(JobspecBuilder::new(["true"]).nodes(2), "host:n[3-9]"),
                "need 2 exclusive node(s), only 1 eligible",
            ),
            (
                requires(JobspecBuilder::new(["true"]), "tape"),
                "need 1 slot(s) of 1 core(s), only 0 such slot(s) available (total cores: 0)",
            ),
        ] {
            let text = format!("unsatisfiable request: {text}");
            assert_eq!(cluster().feasible(&job).unwrap_err().to_string(), text);
            let Answer::Never(never) = cluster().allocate(&job, 1.0) else { panic!() };
            assert_eq!(never.to_string(), text);
        }
        assert_eq!(
            cluster().feasible(&requires(JobspecBuilder::new(["true"]).nodes(2), "ssd")),
            Ok(())
        );
    }

    #[test]
    fn refuses_a_malformed_constraint() {
        let mut value = job(1, 1).value().clone();
        crate::jobspec::path::set(&mut value, "attributes.system.constraints", 1.into()).unwrap();
        let Answer::Never(never) = cluster().allocate(&Jobspec::unvalidated(value), 1.0) else {
            panic!()
        };
        assert_eq!(
            never.to_string(),
            "unsatisfiable request: attributes.system.constraints: constraint must be JSON object"
        );
    }
}
