//! The resources of the instance, and the choice of those that a job gets.
//!
//! Nodes with the most free cores come first, then those with the most free gpus, then the lowest
//! rank; on a node the lowest free ids go first (formats: allocation from a pool). Only nodes that
//! match the job's constraint (RFC 31) are eligible.

use std::borrow::Cow;

use super::asked::Asked;
use super::choice::{choose, refusal};
use super::maintenance::Maintenance;
use crate::jobspec::{Counts, Jobspec};
use crate::resource::{Constraint, Idset, ResourceSet};

/// What can be given out.
#[derive(Debug, Clone)]
pub struct Pool {
    /// With the nodes that are excluded.
    inventory: ResourceSet,
    /// Without them.
    all: ResourceSet,
    /// What no job holds, nodes that are down or excluded included.
    unheld: ResourceSet,
    /// What no job holds, on nodes that are up.
    free: ResourceSet,
    down: Idset,
    /// Down, or excluded.
    out: Idset,
    maintenance: Vec<Maintenance>,
    changes: u64,
    /// Requests that can be met when nothing else runs.
    feasible: Asked,
    /// Requests for which there is nothing free, until something comes back.
    busy: Asked,
}

/// The answer to a request for resources.
#[derive(Debug, Clone)]
pub enum Answer {
    /// These are the job's now.
    Granted(ResourceSet),
    /// Not now, but when others have ended.
    Busy,
    /// Never, for this reason.
    Never(String),
}

impl Pool {
    /// A pool of which everything is free.
    pub fn new(all: &ResourceSet) -> Self {
        Self {
            inventory: all.clone(),
            all: all.clone(),
            unheld: all.clone(),
            free: all.clone(),
            down: Idset::new(),
            out: Idset::new(),
            maintenance: Vec::new(),
            changes: 0,
            feasible: Asked::default(),
            busy: Asked::default(),
        }
    }

    /// Counts the changes of what is free: without one the answer to a request stays the same.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// All resources, without nodes that are excluded.
    pub fn all(&self) -> &ResourceSet {
        &self.all
    }

    /// Those that no job holds, on nodes that are up.
    pub fn free(&self) -> &ResourceSet {
        &self.free
    }

    /// Those that jobs hold.
    pub fn allocated(&self) -> ResourceSet {
        self.inventory.difference(&self.unheld)
    }

    /// The nodes that are given to nobody.
    pub fn down(&self) -> &Idset {
        &self.down
    }

    /// Says which nodes are given to nobody from now on. Jobs that are on them stay.
    pub fn set_down(&mut self, down: Idset) {
        if self.down != down {
            self.down = down;
            self.refresh();
        }
    }

    /// Takes nodes out of the instance until this is said anew: requests that need them are refused.
    /// Jobs that are on them stay.
    pub fn set_excluded(&mut self, excluded: &Idset) {
        self.all = self.inventory.without_ranks(excluded);
        self.refresh();
    }

    /// Puts other resources in the place of all, of which some are excluded. What jobs hold of them
    /// stays theirs.
    pub fn set_inventory(&mut self, all: &ResourceSet, excluded: &Idset) {
        let held = self.allocated();
        self.inventory = all.clone();
        self.unheld = all.difference(&held);
        self.set_excluded(excluded);
    }

    fn refresh(&mut self) {
        self.out = self.down.union(&self.inventory.ranks().difference(&self.all.ranks()));
        self.free = self.up(&self.unheld).into_owned();
        self.feasible.clear();
        self.more_is_free();
    }

    /// When nodes are to be empty.
    pub fn maintenance(&self) -> &[Maintenance] {
        &self.maintenance
    }

    /// Says when nodes are to be empty, from now on. To be said again when one of them is over, since
    /// jobs that waited for its end may start then.
    pub fn set_maintenance(&mut self, maintenance: Vec<Maintenance>) {
        self.maintenance = maintenance;
        self.more_is_free();
    }

    fn more_is_free(&mut self) {
        self.busy.clear();
        self.changes += 1;
    }

    /// Chooses resources for a job at a time (UNIX seconds).
    pub fn allocate(&mut self, jobspec: &Jobspec, now: f64) -> Answer {
        self.allocate_but(jobspec, now, None)
    }

    /// The same, from what is free and not among `but`.
    pub fn allocate_but(
        &mut self,
        jobspec: &Jobspec,
        now: f64,
        but: Option<&ResourceSet>,
    ) -> Answer {
        if self.busy.has(jobspec) {
            return Answer::Busy;
        }
        let counts = jobspec.counts();
        let constraint = match constraint(jobspec) {
            Ok(constraint) => constraint,
            Err(text) => return Answer::Never(unsatisfiable(&text)),
        };
        let free = match but {
            None => Cow::Borrowed(&self.free),
            Some(but) => Cow::Owned(self.free.difference(but)),
        };
        let free = self.without_maintenance(free, now, jobspec);
        let whole = matches!(free, Cow::Borrowed(_));
        let Some(mut chosen) = self.choose(&free, &constraint, &counts) else {
            return self.refuse(jobspec, &constraint, whole);
        };
        chosen.set_nslots(counts.nslots);
        let duration = jobspec.duration();
        let expiration = match duration > 0.0 && duration.is_finite() {
            true => now + duration,
            // A job without end lives as long as the instance does.
            false => self.inventory.expiration().filter(|end| *end > now).unwrap_or(0.0),
        };
        // Refused only when the times contradict each other, which they can't: now <= expiration.
        if chosen.set_times(now, expiration).is_err() {
            return Answer::Never("the job's duration is out of range".to_owned());
        }
        self.unheld.subtract(&chosen);
        self.free.subtract(&chosen);
        self.changes += 1;
        chosen.remove_local_properties();
        Answer::Granted(chosen)
    }

    /// Whether there is enough free for a job, at a time (UNIX seconds); true as well where nobody
    /// found out yet whether it can ever run.
    pub(crate) fn fits(&mut self, jobspec: &Jobspec, now: f64) -> bool {
        if self.busy.has(jobspec) {
            return false;
        }
        let free = self.without_maintenance(Cow::Borrowed(&self.free), now, jobspec);
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
        // Only who wants whole nodes has to know what a whole node is.
        let all = match counts.exclusive {
            true => eligible(&self.all, constraint),
            false => Cow::Borrowed(&self.all),
        };
        choose(&eligible(free, constraint), &all, counts)
    }

    /// The answer where nothing was found; `whole` says that all that is free was looked at.
    fn refuse(&mut self, jobspec: &Jobspec, constraint: &Constraint, whole: bool) -> Answer {
        if !self.feasible.has(jobspec) {
            let all = eligible(&self.all, constraint);
            if let Some(text) = refusal(&all, &jobspec.counts()) {
                return Answer::Never(unsatisfiable(&text));
            }
            self.feasible.note(jobspec);
        }
        if whole {
            self.busy.note(jobspec);
        }
        Answer::Busy
    }

    /// The nodes that a job's constraint lets it have, whether they are up or not.
    pub fn eligible_ranks(&self, jobspec: &Jobspec) -> Idset {
        let constraint = constraint(jobspec).unwrap_or(Constraint::Always);
        eligible(&self.all, &constraint).ranks()
    }

    /// Those of them that are up, and not reserved when the job runs from a time (UNIX seconds) on.
    pub fn usable_ranks(&self, jobspec: &Jobspec, start: f64) -> Idset {
        let constraint = constraint(jobspec).unwrap_or(Constraint::Always);
        let up = self.without_maintenance(self.up(&self.all), start, jobspec);
        eligible(&up, &constraint).ranks()
    }

    /// Whether a job could run on the nodes that are up if nothing else did, were it not for
    /// maintenance.
    pub fn waits_for_maintenance(&self, jobspec: &Jobspec) -> bool {
        self.choose_from(&self.all, jobspec).is_some()
    }

    /// Whether a job could run now if all nodes were up.
    pub fn waits_for_nodes(&self, jobspec: &Jobspec) -> bool {
        let constraint = constraint(jobspec).unwrap_or(Constraint::Always);
        let unheld = self.all.intersection(&self.unheld);
        self.choose(&unheld, &constraint, &jobspec.counts()).is_some()
    }

    /// What a job would get if this were free; nothing is taken. Nodes that are down are not free.
    pub fn choose_from(&self, free: &ResourceSet, jobspec: &Jobspec) -> Option<ResourceSet> {
        let constraint = constraint(jobspec).ok()?;
        self.choose(&self.up(free), &constraint, &jobspec.counts())
    }

    /// The same for a job that starts at a time (UNIX seconds): what it would still have when a
    /// maintenance begins is not free either.
    pub fn choose_at(&self, free: &ResourceSet, jobspec: &Jobspec, at: f64) -> Option<ResourceSet> {
        let free = self.without_maintenance(Cow::Borrowed(free), at, jobspec);
        self.choose_from(&free, jobspec)
    }

    /// The part of a set that is on nodes that are up.
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
        let duration = jobspec.duration();
        let duration = if duration > 0.0 { duration } else { f64::INFINITY };
        let concerned = self.maintenance.iter().filter(|m| m.concerns(start, duration));
        concerned.fold(free, |free, m| Cow::Owned(free.without_ranks(&m.ranks)))
    }

    /// Whether a job could run if nothing else did.
    ///
    /// # Errors
    /// Why it never can.
    pub fn feasible(&self, jobspec: &Jobspec) -> Result<(), String> {
        let constraint = constraint(jobspec).map_err(|text| unsatisfiable(&text))?;
        match refusal(&eligible(&self.all, &constraint), &jobspec.counts()) {
            Some(text) => Err(unsatisfiable(&text)),
            None => Ok(()),
        }
    }

    /// What of a set no job holds, on nodes that are up or not.
    pub fn unheld_of(&self, set: &ResourceSet) -> ResourceSet {
        self.unheld.intersection(set)
    }

    /// Takes what a restored job holds; `false` when some of it is not free, or not ours.
    pub fn claim(&mut self, held: &ResourceSet) -> bool {
        if !held.is_subset(&self.unheld) {
            return false;
        }
        self.unheld.subtract(held);
        self.free.subtract(held);
        self.changes += 1;
        true
    }

    /// Takes back what a job held.
    pub fn release(&mut self, held: &ResourceSet) {
        let back = self.inventory.intersection(held);
        self.free.union_with(&self.up(&back));
        self.unheld.union_with(&back);
        self.more_is_free();
    }
}

fn unsatisfiable(why: &str) -> String {
    format!("unsatisfiable request: {why}")
}

/// The job's constraint. A job that nobody validated may have a malformed one.
fn constraint(jobspec: &Jobspec) -> Result<Constraint, String> {
    jobspec.constraints().map_or(Ok(Constraint::Always), |value| {
        Constraint::from_value(value)
            .map_err(|error| format!("attributes.system.constraints: {error}"))
    })
}

/// The part of a set that a constraint leaves. Most jobs have none, and copy nothing.
fn eligible<'a>(set: &'a ResourceSet, constraint: &Constraint) -> Cow<'a, ResourceSet> {
    match constraint {
        Constraint::Always => Cow::Borrowed(set),
        constraint => Cow::Owned(set.matching(constraint)),
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
    fn lowest_free_cores_go_first_and_come_back() {
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
    fn a_request_that_can_never_be_met_is_refused_with_the_reason() {
        let Answer::Never(text) = pool("0-3").allocate(&job(5, 1), 1.0) else { panic!() };
        assert_eq!(
            text,
            "unsatisfiable request: need 5 slot(s) of 1 core(s), only 4 such slot(s) available \
             (total cores: 4)"
        );
    }

    #[test]
    fn a_whole_node_waits_until_nobody_is_on_it() {
        let mut pool = pool("0-3");
        let whole = JobspecBuilder::new(["true"]).nodes(1).exclusive(true).build().unwrap();
        let one = granted(pool.allocate(&job(1, 1), 1.0));
        assert!(matches!(pool.allocate(&whole, 1.0), Answer::Busy));
        pool.release(&one);
        assert_eq!(granted(pool.allocate(&whole, 1.0)).ncores(), 4);
    }

    #[test]
    fn what_was_asked_for_in_vain_is_searched_for_again_when_something_comes_back() {
        let mut pool = pool("0-3");
        let held = granted(pool.allocate(&job(3, 1), 1.0));
        let never = job(9, 1);
        for _ in 0..2 {
            assert!(pool.fits(&job(1, 1), 1.0));
            assert!(matches!(pool.allocate(&job(2, 1), 1.0), Answer::Busy));
            assert!(!pool.fits(&job(2, 1), 1.0));
            // It has to be told, whoever asks first.
            assert!(pool.fits(&never, 1.0));
            assert!(matches!(pool.allocate(&never, 1.0), Answer::Never(_)));
        }
        pool.release(&held);
        assert!(pool.fits(&job(2, 1), 1.0));
        assert!(matches!(pool.allocate(&job(2, 1), 1.0), Answer::Granted(_)));
    }

    #[test]
    fn the_duration_sets_the_end() {
        let spec = JobspecBuilder::new(["true"]).duration(60.0).build().unwrap();
        let r = granted(pool("0").allocate(&spec, 100.0));
        assert_eq!((r.starttime(), r.expiration()), (Some(100.0), Some(160.0)));
    }

    /// Four nodes of two cores; n1 and n2 have a property.
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
    fn only_nodes_that_match_the_constraint_are_given() {
        let mut pool = cluster();
        let task = || JobspecBuilder::new(["true"]).cores_per_task(2);
        let two = granted(pool.allocate(&requires(task().ntasks(2), "ssd"), 1.0));
        assert_eq!(two.summary(), "rank[1-2]/core[0-1]");
        assert_eq!(two.properties().into_keys().collect::<Vec<_>>(), ["ssd"]);
        // Others are free, but none that matches.
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
    fn a_constraint_that_too_few_nodes_match_is_refused_with_the_reason() {
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
            assert_eq!(cluster().feasible(&job), Err(text.clone()));
            let Answer::Never(never) = cluster().allocate(&job, 1.0) else { panic!() };
            assert_eq!(never, text);
        }
        assert_eq!(
            cluster().feasible(&requires(JobspecBuilder::new(["true"]).nodes(2), "ssd")),
            Ok(())
        );
    }

    #[test]
    fn a_malformed_constraint_of_an_unvalidated_job_is_refused() {
        let mut value = job(1, 1).value().clone();
        crate::jobspec::path::set(&mut value, "attributes.system.constraints", 1.into()).unwrap();
        let Answer::Never(text) = cluster().allocate(&Jobspec::unvalidated(value), 1.0) else {
            panic!()
        };
        assert_eq!(
            text,
            "unsatisfiable request: attributes.system.constraints: constraint must be JSON object"
        );
    }
}
