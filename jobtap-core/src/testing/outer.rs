//! A job manager that elastic instances ask for allocations, played in virtual time. It outlives the manager under test.

use std::collections::BTreeMap;
use std::fmt;

use super::manager::TestManager;
use super::refused::Refused;
use crate::allocation::AllocationId;
use crate::engine::{AllocationCommand, AllocationEvent, Input, Request};
use crate::eventlog::{EventEntry, decode_log};
use crate::job::Timestamp;
use crate::resource::Idset;

/// A job manager that is asked for allocations.
pub(crate) struct OuterManager {
    jobs: BTreeMap<AllocationId, OuterJob>,
    /// How many seconds a new allocation waits.
    wait: Box<dyn FnMut() -> f64>,
    /// Whether it says nothing about new requests until it is told to.
    is_silent: bool,
    /// Why it refuses requests, if it does.
    refusal: Option<String>,
    /// Each request that it has taken, with the time.
    taken: Vec<(AllocationId, Timestamp)>,
    /// The number of hosts that have joined.
    hosts: u64,
    /// What ended allocations have had.
    used: OuterUse,
}

/// What allocations have had, in sums.
#[derive(Debug, Clone, Default)]
pub(crate) struct OuterUse {
    /// How many were taken.
    pub(crate) asked: u64,
    /// How many have started.
    pub(crate) started: u64,
    /// How long these had waited, in seconds.
    pub(crate) waited: f64,
    /// How many seconds nodes were there, by table.
    pub(crate) node_seconds: BTreeMap<String, f64>,
}

/// An allocation as the outer job manager has it.
#[derive(Debug, Clone, PartialEq)]
pub struct OuterJob {
    /// The name of its table.
    pub table: String,
    /// The places of its nodes.
    pub ranks: Idset,
    /// Its time limit in seconds.
    pub time_limit: Option<f64>,
    /// When it was taken.
    pub since: Timestamp,
    /// When it starts, or has started; `None` if only the test decides that.
    pub starts_at: Option<Timestamp>,
    /// Whether it runs.
    pub is_running: bool,
    hosts: Vec<String>,
}

impl Default for OuterManager {
    fn default() -> Self {
        Self {
            jobs: BTreeMap::new(),
            wait: Box::new(|| 0.0),
            is_silent: false,
            refusal: None,
            taken: Vec::new(),
            hosts: 0,
            used: OuterUse::default(),
        }
    }
}

impl fmt::Debug for OuterManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OuterManager").field("jobs", &self.jobs).finish_non_exhaustive()
    }
}

impl OuterManager {
    /// Carries out a command, and returns what it reports.
    pub(crate) fn follow(
        &mut self,
        now: Timestamp,
        command: AllocationCommand,
    ) -> Vec<AllocationEvent> {
        match command {
            AllocationCommand::Order { id, again: true, .. } if self.jobs.contains_key(&id) => {
                self.report(id)
            }
            AllocationCommand::Order { id, table, ranks, time_limit, .. } => {
                if let Some(reason) = &self.refusal {
                    return vec![AllocationEvent::Refused { id, reason: reason.clone() }];
                }
                self.taken.push((id, now));
                self.used.asked += 1;
                let wait = (self.wait)();
                let starts_at = wait.is_finite().then(|| now + wait);
                let (since, is_running, hosts) = (now, false, Vec::new());
                let job =
                    OuterJob { table, ranks, time_limit, since, starts_at, is_running, hosts };
                self.jobs.insert(id, job);
                if self.is_silent {
                    return Vec::new();
                }
                let mut events = self.report(id);
                if wait <= 0.0 {
                    events.extend(self.start(now, id));
                }
                events
            }
            AllocationCommand::Follow { id, .. } => match self.jobs.contains_key(&id) {
                true => self.report(id),
                false => vec![AllocationEvent::Ended { id, reason: "gone".to_owned() }],
            },
            AllocationCommand::End { id, .. } => {
                self.remove(now, id);
                vec![AllocationEvent::Ended { id, reason: "CANCELLED".to_owned() }]
            }
        }
    }

    /// What is known about an allocation.
    fn report(&self, id: AllocationId) -> Vec<AllocationEvent> {
        let Some(job) = self.jobs.get(&id) else { return Vec::new() };
        let mut events = vec![AllocationEvent::Ordered { id, job: format!("outer-{id}") }];
        if !job.is_running {
            events.push(AllocationEvent::Waits { id, reason: "Priority".to_owned() });
            return events;
        }
        events.push(AllocationEvent::Started { id, ends_at: job.ends_at() });
        let joined = job.ranks.iter().zip(&job.hosts);
        events.extend(joined.map(|(rank, host)| AllocationEvent::Joined {
            id,
            rank,
            host: host.clone(),
        }));
        events
    }

    /// Starts an allocation: its nodes join at once.
    fn start(&mut self, now: Timestamp, id: AllocationId) -> Vec<AllocationEvent> {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| !job.is_running) else {
            return Vec::new();
        };
        (job.starts_at, job.is_running) = (Some(now), true);
        self.used.started += 1;
        self.used.waited += now - job.since;
        let first = self.hosts;
        self.hosts += job.ranks.len() as u64;
        job.hosts = (first..self.hosts).map(|host| format!("n{host}")).collect();
        self.report(id)
    }

    fn end(&mut self, now: Timestamp, id: AllocationId, reason: &str) -> Vec<AllocationEvent> {
        match self.remove(now, id) {
            true => vec![AllocationEvent::Ended { id, reason: reason.to_owned() }],
            false => Vec::new(),
        }
    }

    /// Removes an allocation; returns whether there was one.
    fn remove(&mut self, now: Timestamp, id: AllocationId) -> bool {
        let Some(job) = self.jobs.remove(&id) else { return false };
        *self.used.node_seconds.entry(job.table.clone()).or_default() += job.node_seconds(now);
        true
    }

    /// From now on, a new allocation waits as long as `wait` says, in seconds.
    pub(crate) fn let_wait(&mut self, wait: impl FnMut() -> f64 + 'static) {
        self.wait = Box::new(wait);
    }

    /// What allocations have had up to now.
    pub(crate) fn used(&self, now: Timestamp) -> OuterUse {
        let mut used = self.used.clone();
        for job in self.jobs.values() {
            *used.node_seconds.entry(job.table.clone()).or_default() += job.node_seconds(now);
        }
        used
    }

    /// When an allocation next starts or ends by itself.
    pub(crate) fn next_time(&self) -> Option<Timestamp> {
        let times = self.jobs.values().filter_map(OuterJob::next_time);
        times.min_by(|a, b| a.as_secs().total_cmp(&b.as_secs()))
    }

    /// Starts or ends the next allocation whose time has come.
    pub(crate) fn pass(&mut self, now: Timestamp) -> Vec<AllocationEvent> {
        let due =
            |(_, job): &(&AllocationId, &OuterJob)| job.next_time().is_some_and(|at| at <= now);
        match self.jobs.iter().find(due).map(|(id, job)| (*id, job.is_running)) {
            Some((id, true)) => self.end(now, id, "TIMEOUT"),
            Some((id, false)) => self.start(now, id),
            None => Vec::new(),
        }
    }
}

impl OuterJob {
    /// When it ends, if it runs and has a time limit.
    fn ends_at(&self) -> Option<Timestamp> {
        Some(self.starts_at? + self.time_limit?).filter(|_| self.is_running)
    }

    /// How many seconds its nodes have been there, in sum.
    fn node_seconds(&self, now: Timestamp) -> f64 {
        let since = self.starts_at.filter(|_| self.is_running);
        since.map_or(0.0, |since| (now - since) * self.ranks.len() as f64)
    }

    fn next_time(&self) -> Option<Timestamp> {
        if self.is_running { self.ends_at() } else { self.starts_at }
    }
}

/// Allocations on demand. The outer job manager is played: by default it grants each allocation at once, whose nodes are
/// called `n0`, `n1` and so on, and ends it at its time limit.
///
/// ```
/// # use jobtap_core::prelude::*;
/// # use jobtap_core::testing::{TestJob, TestManager};
/// # #[derive(Default)]
/// # struct OneByOne;
/// # #[jobtap_plugin(name = "one-by-one")]
/// # impl OneByOne {
/// #     #[on("job.state.priority")]
/// #     fn priority(&self) -> Priority {
/// #         Priority::new(16)
/// #     }
/// #     #[on("allocation.plan")]
/// #     fn plan(&self, demand: &Demand) -> Plan {
/// #         let on_order = demand.allocations.iter().any(|allocation| allocation.is_on_order());
/// #         match demand.pending.iter().find_map(|jobs| jobs.fits.first()) {
/// #             Some(fit) if !on_order => Plan::new().order(&fit.table, 1),
/// #             _ => Plan::new(),
/// #         }
/// #     }
/// # }
/// let config = serde_json::json!({"allocation": [{"engine": "slurm", "cores": 4}]});
/// let mut m = TestManager::new().plugin::<OneByOne>().config(config).start();
/// m.let_allocations_wait(60.0);
/// let job = m.submit(TestJob::new()).unwrap();
/// m.advance(1.0);
/// assert_eq!(m.outer_jobs().len(), 1);
/// assert!(m.why(job)[0].contains("1 on order (Priority)"));
/// m.advance(60.0);
/// m.assert_state(job, State::Run);
/// ```
impl TestManager {
    /// From now on, a new allocation waits for so many seconds; if they are infinite, until
    /// [`start_allocation`](Self::start_allocation).
    pub fn let_allocations_wait(&mut self, seconds: f64) {
        self.outer.let_wait(move || seconds);
    }

    /// From now on, the outer job manager takes requests and doesn't say so, until
    /// [`answer_orders`](Self::answer_orders).
    pub fn hold_orders(&mut self) {
        self.outer.is_silent = true;
    }

    /// Lets the outer job manager say what it has taken, and answer at once from now on.
    pub fn answer_orders(&mut self) {
        self.outer.is_silent = false;
        let ids: Vec<AllocationId> = self.outer.jobs.keys().copied().collect();
        ids.into_iter().for_each(|id| self.tell(|outer| outer.report(id)));
    }

    /// From now on, the outer job manager refuses requests for this reason; with `None` it takes them again.
    pub fn refuse_orders(&mut self, reason: Option<&str>) {
        self.outer.refusal = reason.map(str::to_owned);
    }

    /// Starts an allocation that waits.
    pub fn start_allocation(&mut self, id: AllocationId) {
        let now = self.now();
        self.tell(|outer| outer.start(now, id));
    }

    /// Ends an allocation outside, as its time limit or an administrator does.
    pub fn end_allocation(&mut self, id: AllocationId, reason: &str) {
        let now = self.now();
        self.tell(|outer| outer.end(now, id, reason));
    }

    /// Lets the outer job manager report an event, even if it contradicts what has happened.
    pub fn report_allocation(&mut self, event: AllocationEvent) {
        self.tell(|_| vec![event]);
    }

    fn tell(&mut self, what: impl FnOnce(&mut OuterManager) -> Vec<AllocationEvent>) {
        for event in what(&mut self.outer) {
            self.input(Input::Allocation(event));
        }
    }

    /// The allocations that the outer job manager has.
    pub fn outer_jobs(&self) -> &BTreeMap<AllocationId, OuterJob> {
        &self.outer.jobs
    }

    /// The requests that the outer job manager has taken since the beginning, each with its time.
    pub fn orders(&self) -> &[(AllocationId, Timestamp)] {
        &self.outer.taken
    }

    /// The entries of `allocation.eventlog`.
    pub fn allocation_log(&self) -> Vec<EventEntry> {
        decode_log(self.store.allocation_log()).unwrap_or_default()
    }

    /// The tables and allocations as `jobtap allocation list` shows them.
    pub fn allocations(&self) -> serde_json::Value {
        self.engine().map(crate::engine::Engine::allocations).unwrap_or_default()
    }

    /// Gives an allocation back, as `jobtap allocation release` does.
    ///
    /// # Errors
    /// The message with which the manager refuses the request.
    pub fn release_allocation(&mut self, id: AllocationId) -> Result<(), Refused> {
        self.ask(Request::ReleaseAllocation { id }).map(drop)
    }
}
