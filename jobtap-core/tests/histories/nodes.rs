//! Random histories of several nodes that are drained, lost, found again and reserved, with jobs whose plugins
//! misbehave and a plugin that retains what jobs free. No resource is allocated twice or lost, no job starts
//! on a node that is drained, lost or reserved or stays on a lost node, and no job waits that could start.
//!
//! `PROPTEST_CASES` sets their number.

use std::collections::BTreeSet;

use jobtap_core::engine::{DrainMode, ExecEvent, NodeRequest};
use jobtap_core::prelude::*;
use jobtap_core::resource::Children;
use jobtap_core::testing::{TestJob, TestManager};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cluster::Nodes;
use crate::common::ByUrgency;
use crate::hostile::{Hostile, Slow};
use crate::keeper::Keeper;
use crate::model::Model;
use crate::run::{all_are_over, cases, end_all, quiet};

const NODES: u32 = 4;
pub(crate) const CORES: u32 = 2;

/// The places at which a job can ask for trouble, each with the number of kinds of trouble.
const PLACES: &[(&str, u64)] = &[
    ("sched", 5),
    ("run", 9),
    ("cleanup", 8),
    ("event", 9),
    ("slow-run", 6),
    ("slow-cleanup", 6),
    ("free", 6),
];

#[derive(Debug, Clone)]
struct Asked {
    trouble: Option<(&'static str, u64)>,
    nodes: Option<u64>,
    more_tasks: u64,
    exclusive: bool,
    on: Option<Idset>,
    urgency: i64,
    run_for: Option<u8>,
    duration: Option<u8>,
}

#[derive(Debug, Clone)]
enum Act {
    Submit(Asked),
    Cancel(usize),
    Finish(usize),
    GiveBack(usize, Idset),
    Advance(u8),
    Drain(Idset),
    Undrain(Idset),
    Lose(Idset),
    Find(Idset),
    /// The nodes, in how many seconds the maintenance begins, and how many seconds it lasts.
    Reserve(Idset, u8, Option<u8>),
    Unreserve(u64),
    Exclude(Idset),
    Scheduling(bool),
    Restart,
    CrashIn(u32),
}

fn ranks() -> impl Strategy<Value = Idset> {
    (1u32..1 << NODES).prop_map(|mask| (0..NODES).filter(|rank| mask >> rank & 1 == 1).collect())
}

fn asked() -> impl Strategy<Value = Asked> {
    let trouble = (0..PLACES.len()).prop_flat_map(|index| {
        let (place, kinds) = PLACES[index];
        (Just(place), 1..=kinds)
    });
    (
        option::weighted(0.3, trouble),
        option::of(1..=3u64),
        0..4u64,
        any::<bool>(),
        option::weighted(0.3, ranks()),
        prop_oneof![5 => Just(16), 1 => 0..32i64],
        option::of(1..9u8),
        option::of(1..12u8),
    )
        .prop_map(|(trouble, nodes, more_tasks, exclusive, on, urgency, run_for, duration)| {
            Asked { trouble, nodes, more_tasks, exclusive, on, urgency, run_for, duration }
        })
}

fn act() -> impl Strategy<Value = Act> {
    let job = || 0..8usize;
    prop_oneof![
        10 => asked().prop_map(Act::Submit),
        1 => job().prop_map(Act::Cancel),
        4 => job().prop_map(Act::Finish),
        4 => (job(), ranks()).prop_map(|(job, ranks)| Act::GiveBack(job, ranks)),
        5 => (0..6u8).prop_map(Act::Advance),
        3 => ranks().prop_map(Act::Drain),
        3 => ranks().prop_map(Act::Undrain),
        3 => ranks().prop_map(Act::Lose),
        3 => ranks().prop_map(Act::Find),
        2 => (ranks(), 0..20u8, option::of(1..10u8))
            .prop_map(|(ranks, from, to)| Act::Reserve(ranks, from, to)),
        2 => (1..6u64).prop_map(Act::Unreserve),
        1 => prop_oneof![Just(Idset::new()), ranks()].prop_map(Act::Exclude),
        1 => any::<bool>().prop_map(Act::Scheduling),
        2 => Just(Act::Restart),
        3 => (0..12u32).prop_map(Act::CrashIn),
    ]
}

fn all() -> ResourceSet {
    let node = Children::new(Idset::from(0..=CORES - 1), Idset::new());
    ResourceSet::uniform(0, &format!("n[0-{}]", NODES - 1).parse().unwrap(), node)
}

fn config(policy: &str, exclude: &Idset) -> Value {
    let resource =
        if exclude.is_empty() { json!({}) } else { json!({"exclude": exclude.to_string()}) };
    json!({"policy": {"scheduler": {"queue-policy": policy}}, "resource": resource})
}

/// A manager, and what the test knows about it.
struct World {
    m: TestManager,
    /// Whether the executor reports no starts of its own accord.
    hold: bool,
    /// Whether resources are allocated; `None` if the manager crashed before it answered.
    scheduling: Option<bool>,
    /// The jobs whose start has been checked.
    started: BTreeSet<JobId>,
    policy: &'static str,
}

impl World {
    fn new(hold: bool, policy: &'static str) -> Self {
        let mut m = TestManager::new()
            .resources(all())
            .config(config(policy, &Idset::new()))
            .plugin::<ByUrgency>()
            .plugin::<Hostile>()
            .plugin::<Slow>()
            .plugin::<Keeper>()
            .start();
        if hold {
            m.hold_execution();
        }
        Self { m, hold, scheduling: Some(true), started: BTreeSet::new(), policy }
    }

    /// Returns a job by its index, the newest first, or an unknown id if there are too few jobs.
    fn pick(&self, index: usize) -> JobId {
        let jobs = self.m.jobs();
        let job = jobs.len().checked_sub(index + 1).and_then(|i| jobs.get(i));
        job.copied().unwrap_or(JobId::new(4711))
    }

    fn submit(&mut self, asked: Asked) {
        let mut job = TestJob::new().urgency(asked.urgency);
        job = job.ntasks(asked.nodes.unwrap_or(1) + asked.more_tasks);
        if let Some(nodes) = asked.nodes {
            job = job.nodes(nodes);
            job = if asked.exclusive { job.exclusive() } else { job };
        }
        if let Some(ranks) = asked.on {
            job = job.attribute("constraints", json!({"ranks": [ranks.to_string()]}));
        }
        if let Some((place, kind)) = asked.trouble {
            job = job.attribute(&format!("h.{place}"), kind);
        }
        if let Some(seconds) = asked.run_for {
            job = job.run_for(seconds.into());
        }
        if let Some(seconds) = asked.duration {
            job = job.duration(seconds.into());
        }
        // Plugins may refuse it.
        drop(self.m.submit(job));
    }

    fn nodes(&mut self, request: NodeRequest) {
        // A refused request leaves no trace in the log, with which everything is compared.
        drop(self.m.nodes(request));
    }

    fn act(&mut self, act: Act) {
        let now = self.m.now().as_secs();
        let configures = matches!(act, Act::Exclude(_));
        let text = |ranks: Idset| ranks.to_string();
        match act {
            Act::Submit(asked) => self.submit(asked),
            Act::Cancel(job) => drop(self.m.cancel(self.pick(job))),
            Act::Finish(job) => self.m.finish(self.pick(job), 0),
            Act::GiveBack(job, ranks) => {
                let id = self.pick(job);
                self.m.report(ExecEvent::PartlyReleased { id, ranks });
            }
            Act::Advance(seconds) => self.m.advance(seconds.into()),
            Act::Drain(ranks) => self.nodes(NodeRequest::Drain {
                targets: text(ranks),
                reason: None,
                mode: DrainMode::Update,
            }),
            Act::Undrain(ranks) => self.nodes(NodeRequest::Undrain {
                targets: text(ranks),
                reason: None,
                mode: DrainMode::Update,
            }),
            Act::Lose(ranks) => {
                self.nodes(NodeRequest::Offline { targets: text(ranks), reason: None });
            }
            Act::Find(ranks) => self.nodes(NodeRequest::Online { targets: text(ranks) }),
            Act::Reserve(ranks, from, to) => {
                let from = now + f64::from(from);
                let to = to.map(|seconds| from + f64::from(seconds));
                let (targets, reason) = (text(ranks), String::new());
                self.nodes(NodeRequest::AddMaintenance { targets, from: Some(from), to, reason });
            }
            Act::Unreserve(id) => self.nodes(NodeRequest::RemoveMaintenance { id }),
            Act::Exclude(ranks) => {
                let config = config(self.policy, &ranks);
                // Refused when no node would be left.
                drop(self.m.configure(config));
            }
            Act::Scheduling(start) => {
                self.scheduling = self.m.scheduling(start).ok().map(|()| start);
            }
            Act::Restart => self.m.crash_and_restart(),
            Act::CrashIn(steps) => self.m.crash_in(steps),
        }
        if self.m.is_dead() {
            self.m.crash_and_restart();
            if configures {
                // Jobs that started under the new configuration can't be checked against the old one.
                let m = &self.m;
                let has_started = |id: &JobId| m.job(*id).resources().is_some();
                self.started.extend(m.jobs().into_iter().filter(has_started));
            }
        }
    }

    /// The jobs that run on these nodes, which are about to be lost.
    fn on(&self, ranks: &Idset) -> Vec<JobId> {
        let jobs = self.m.jobs().into_iter().filter(|id| self.m.job(*id).state() == State::Run);
        let holds = |id: &JobId| {
            let given_back = Model::from_log(&self.m.eventlog(*id)).unwrap().given_back;
            let held = self.m.job(*id).resources().unwrap().ranks().difference(&given_back);
            held.intersects(ranks)
        };
        jobs.filter(holds).collect()
    }

    /// Checks that the loss of these nodes ended the jobs, unless a plugin did or the loss isn't in the manager's log.
    fn check_lost(&self, ranks: &Idset, jobs: &[JobId]) -> Result<(), TestCaseError> {
        let known = ranks.is_subset(&Nodes::from_log(&self.m.resource_log()).lost);
        for id in jobs {
            let is_told = |entry: &EventEntry| {
                let field = |key: &str| entry.context.as_ref()?.get(key).cloned();
                entry.name == "exception"
                    && (field("type") == Some(json!("node-failure"))
                        || field("type") == Some(json!("hit")))
            };
            let ended = self.m.eventlog(*id).iter().any(is_told);
            prop_assert!(ended || !known, "{}: {:?}", id, self.m.events(*id));
        }
        Ok(())
    }

    /// Checks what must hold at any time.
    fn check(&mut self) -> Result<(), TestCaseError> {
        let mut nodes = Nodes::from_log(&self.m.resource_log());
        let m = &self.m;
        let status = m.resource_status();
        nodes.excluded = ids(status["exclude"].as_str().unwrap()).collect();
        let drained = status["drain"].as_object().unwrap().keys();
        let drained: Idset = drained.flat_map(|ranks| ids(ranks)).collect();
        prop_assert_eq!(&drained, &nodes.drained);
        prop_assert_eq!(&ids(status["offline"].as_str().unwrap()).collect::<Idset>(), &nodes.lost);
        let mut used = ResourceSet::new();
        for id in m.jobs() {
            let place = format!("{id}: {:?}", m.events(id));
            let model = Model::from_log(&m.eventlog(id))
                .map_err(|text| TestCaseError::fail(format!("{text}: {place}")))?;
            let job = m.job(id);
            prop_assert_eq!(model.state, Some(job.state()), "{}", place);
            if model.holds {
                let held = job.resources().expect("no R").without_ranks(&model.given_back);
                prop_assert!(!used.intersects(&held), "given twice: {}", place);
                let stays = job.state() == State::Run && held.ranks().intersects(&nodes.lost);
                prop_assert!(!stays, "runs on a lost node: {}", place);
                used.union_with(&held);
            }
            if model.has("alloc") && self.started.insert(id) {
                nodes.check_start(job).map_err(|text| {
                    TestCaseError::fail(format!(
                        "{text}: {place}: {nodes:?}: {:?}",
                        job.resources()
                    ))
                })?;
            }
            let at_rest = model.prologs.is_empty() && model.epilogs.is_empty();
            let hangs = match job.state() {
                State::Run => at_rest && !self.hold && !model.has("start"),
                State::Cleanup => at_rest && (!model.holds || model.released),
                _ => false,
            };
            prop_assert!(!hangs, "nothing holds it: {}", place);
        }
        for retained in crate::keeper::retained() {
            let summary = retained.summary();
            prop_assert!(!used.intersects(&retained), "retained and given away: {}", summary);
            used.union_with(&retained);
        }
        let free = m.free_resources().unwrap();
        let expected = all().difference(&used).without_ranks(&nodes.down());
        let same = free.is_subset(&expected) && expected.is_subset(free);
        prop_assert!(same, "free are {}, not {}", free.summary(), expected.summary());
        crate::waits::check(m)?;
        self.check_waiting(&nodes, free)
    }

    /// Checks that no job waits that fits and would delay none of the jobs ahead of it.
    fn check_waiting(&self, nodes: &Nodes, free: &ResourceSet) -> Result<(), TestCaseError> {
        if self.scheduling != Some(true) {
            return Ok(());
        }
        let now = self.m.now().as_secs();
        let jobs = self.m.jobs().into_iter().map(|id| self.m.job(id));
        let waiting = jobs.filter(|job| job.state() == State::Sched && job.priority() > Some(0));
        let mut waiting: Vec<&Job> = waiting.collect();
        waiting.sort_by_key(|job| (std::cmp::Reverse(job.priority()), job.id()));
        let all = all().without_ranks(&nodes.down());
        // For each job that has or must have a reservation: the nodes that it may use, and its earliest start.
        let mut ahead: Vec<(Idset, f64)> = Vec::new();
        for job in waiting {
            let spec = job.jobspec();
            let fits = nodes.fits(spec, free, now);
            let end = now + if spec.duration() > 0.0 { spec.duration() } else { f64::INFINITY };
            let may_use = Nodes::wanted(spec).unwrap_or_else(|| (0..NODES).collect());
            let delays =
                |(theirs, start): &(Idset, f64)| theirs.intersects(&may_use) && end > *start;
            let waits_in_vain = fits && !ahead.iter().any(delays);
            prop_assert!(
                !waits_in_vain,
                "{} could start: {:?} {:?} {:?}",
                job.id(),
                self.m.why(job.id()),
                ahead,
                nodes
            );
            let comes_back = nodes.fits_one_day(spec, &all, now);
            match self.policy {
                "fifo" => break,
                _ if !comes_back => {}
                // Only the first job has a reservation.
                "easy" if !ahead.is_empty() => {}
                _ => ahead.push((may_use, self.earliest(nodes, spec, free, now))),
            }
        }
        Ok(())
    }

    /// The earliest start of a job, by the time limits of the running jobs. A job without a limit may end at any
    /// moment.
    fn earliest(&self, nodes: &Nodes, spec: &Jobspec, free: &ResourceSet, now: f64) -> f64 {
        let jobs = self.m.jobs().into_iter().map(|id| self.m.job(id));
        let held = jobs.filter(|job| matches!(job.state(), State::Run | State::Cleanup));
        let held = held.filter_map(Job::resources);
        let end = |held: &ResourceSet| held.expiration().unwrap_or(now).max(now);
        let mut ends: Vec<(f64, Option<&ResourceSet>)> = vec![(now, None)];
        ends.extend(held.map(|held| (end(held), Some(held))));
        ends.extend(nodes.reserved.iter().map(|reserved| (reserved.3, None)));
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut free = free.clone();
        for retained in crate::keeper::retained() {
            free.union_with(&retained);
        }
        for (end, held) in ends {
            if let Some(held) = held {
                free.union_with(&held.without_ranks(&nodes.down()));
            }
            if end >= now && nodes.fits(spec, &free, end) {
                return end;
            }
        }
        f64::INFINITY
    }

    /// Checks that no job waits for a node once all nodes are back, and that all resources are free once all jobs have
    /// ended.
    fn end(&mut self) -> Result<(), TestCaseError> {
        self.m.crash_and_restart();
        self.scheduling = self.m.scheduling(true).ok().map(|()| true);
        let every: Idset = (0..NODES).collect();
        for reserved in Nodes::from_log(&self.m.resource_log()).reserved {
            self.act(Act::Unreserve(reserved.0));
        }
        self.act(Act::Exclude(Idset::new()));
        self.act(Act::Find(every.clone()));
        self.act(Act::Undrain(every));
        self.check()?;
        prop_assert!(Nodes::from_log(&self.m.resource_log()).down().is_empty());
        for id in self.m.jobs() {
            // No job is told to wait for a node.
            let told = self.m.why(id).join("; ");
            prop_assert!(!told.contains("nodes") && !told.contains("maintenance"), "{}", told);
        }
        end_all(&mut self.m);
        self.check()?;
        all_are_over(&self.m)
    }
}

fn ids(text: &str) -> impl Iterator<Item = u32> {
    let ids: Idset = text.parse().unwrap_or_default();
    ids.iter().collect::<Vec<_>>().into_iter()
}

fn leaves_order(acts: Vec<Act>, hold: bool, policy: &'static str) -> Result<(), TestCaseError> {
    quiet();
    let mut world = World::new(hold, policy);
    for act in acts {
        let lost = if let Act::Lose(ranks) = &act { ranks.clone() } else { Idset::new() };
        let on_lost = world.on(&lost);
        world.act(act);
        world.check()?;
        world.check_lost(&lost, &on_lost)?;
    }
    world.end()
}

fn policy() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("easy"), Just("conservative"), Just("fifo")]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_of_nodes_leaves_order(acts in vec(act(), 1..40), policy in policy()) {
        leaves_order(acts, false, policy)?;
    }

    #[test]
    fn any_history_of_nodes_leaves_order_when_starts_are_reported_late(
        acts in vec(act(), 1..40), policy in policy(),
    ) {
        leaves_order(acts, true, policy)?;
    }
}
