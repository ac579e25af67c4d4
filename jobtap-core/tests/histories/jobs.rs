//! Random histories of a manager with plugins that misbehave. Whatever is submitted, canceled, reported, removed and
//! loaded, and wherever the manager crashes, every job's log obeys RFC 21, the manager agrees with the logs, no
//! resource is lost or allocated twice, and in the end no job hangs.
//!
//! `PROPTEST_CASES` sets their number.

use std::collections::{BTreeMap, BTreeSet};

use jobtap_core::array::Elements;
use jobtap_core::engine::{ExecEvent, RaisedException, Request};
use jobtap_core::job::{JobId, State};
use jobtap_core::resource::{Idset, ResourceSet};
use jobtap_core::testing::{Refused, TestJob, TestManager};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::common::ByUrgency;
use crate::hostile::{self, Hostile, Second, Slow};
use crate::model::Model;
use crate::newer::{self, Newer};
use crate::run::{all_are_over, cases, end_all, quiet};

const CORES: u32 = 8;

const PLUGINS: [&str; 5] = ["by-urgency", "hostile", "slow", "second", "newer"];

#[derive(Debug, Clone)]
pub(crate) struct Asked {
    trouble: Vec<(&'static str, u64)>,
    waits: u8,
    tasks: u64,
    urgency: i64,
    run_for: Option<u8>,
    duration: u8,
}

/// What was asked for with an array.
struct AskedArray {
    count: u32,
    at_once: Option<u32>,
    /// Whether a plugin may take its time before it accepts an element.
    slow: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum Act {
    Submit(Asked),
    /// An array: the number of its elements, and how many of them may be active at once.
    Array(Asked, u32, Option<u32>),
    /// An exception on the elements of an array from one index to another.
    RaiseElements(usize, u32, u32, i64),
    Raise(usize, i64, &'static str),
    Urgency(usize, i64),
    Finish(usize, u8),
    Report(usize, u8),
    Advance(u8),
    Queue(bool),
    CancelAll,
    Remove(usize),
    Load(usize),
    Reload(usize),
    Update(usize, u8),
    Purge(usize),
    PurgeOver(i64),
    Memo(usize, bool),
    Restart,
    CrashIn(u32),
}

pub(crate) fn asked() -> impl Strategy<Value = Asked> {
    let places = select([hostile::PLACES, newer::PLACES].concat());
    let trouble = places.prop_flat_map(|(place, kinds)| (Just(place), 1..=kinds));
    let urgency = prop_oneof![6 => Just(16), 1 => Just(0), 1 => Just(31), 2 => 1..31i64];
    (vec(trouble, 0..4), 0..3u8, 1..6u64, urgency, proptest::option::of(1..9u8), 0..9u8).prop_map(
        |(trouble, waits, tasks, urgency, run_for, duration)| Asked {
            trouble,
            waits,
            tasks,
            urgency,
            run_for,
            duration,
        },
    )
}

pub(crate) fn act() -> impl Strategy<Value = Act> {
    let kinds =
        prop_oneof![Just("cancel"), Just("timeout"), Just("scheduler-restart"), Just("odd")];
    let which = 0..12usize;
    prop_oneof![
        10 => asked().prop_map(Act::Submit),
        3 => (which.clone(), prop_oneof![3 => Just(0), 1 => 1..8i64], kinds)
            .prop_map(|(job, severity, kind)| Act::Raise(job, severity, kind)),
        2 => (which.clone(), prop_oneof![Just(0), Just(31), 0..32i64])
            .prop_map(|(job, urgency)| Act::Urgency(job, urgency)),
        4 => (which.clone(), 0..2u8).prop_map(|(job, code)| Act::Finish(job, code)),
        2 => (which.clone(), 0..10u8).prop_map(|(job, what)| Act::Report(job, what)),
        3 => (which.clone(), 0..7u8).prop_map(|(job, how)| Act::Update(job, how)),
        1 => which.clone().prop_map(Act::Purge),
        1 => (0..6i64).prop_map(Act::PurgeOver),
        1 => (which, any::<bool>()).prop_map(|(job, volatile)| Act::Memo(job, volatile)),
        5 => (0..5u8).prop_map(Act::Advance),
        1 => any::<bool>().prop_map(Act::Queue),
        1 => Just(Act::CancelAll),
        1 => (0..PLUGINS.len()).prop_map(Act::Remove),
        2 => (0..PLUGINS.len()).prop_map(Act::Load),
        2 => (0..PLUGINS.len()).prop_map(Act::Reload),
        2 => Just(Act::Restart),
        3 => (0..30u32).prop_map(Act::CrashIn),
    ]
}

/// A manager, and what the test knows about it.
struct World {
    m: TestManager,
    acknowledged: BTreeSet<JobId>,
    /// Whether jobs were purged. An array goes with the last of its jobs.
    purged: bool,
    /// The acknowledged arrays; what was asked for, if the response came with the request.
    arrays: BTreeMap<JobId, Option<AskedArray>>,
    /// Whether the executor reports no starts of its own accord; `Act::Report` may.
    hold: bool,
    /// Whether resources are allocated; `None` if the manager crashed before it answered.
    scheduling: Option<bool>,
}

impl World {
    fn new(hold: bool) -> Self {
        let mut m = TestManager::new()
            .cores(CORES)
            .plugin::<ByUrgency>()
            .plugin::<Hostile>()
            .plugin::<Slow>()
            .linked::<Second>()
            .plugin::<Newer>()
            .start();
        if hold {
            m.hold_execution();
        }
        Self {
            m,
            acknowledged: BTreeSet::new(),
            purged: false,
            arrays: BTreeMap::new(),
            hold,
            scheduling: Some(true),
        }
    }

    /// Returns a job by its index, the newest first, or an unknown id if there are too few jobs.
    fn pick(&self, index: usize) -> JobId {
        let jobs = self.m.jobs();
        let job = jobs.len().checked_sub(index + 1).and_then(|i| jobs.get(i));
        job.copied().unwrap_or(JobId::new(4711))
    }

    fn submit(&mut self, asked: Asked) {
        if let Ok(id) = self.m.submit(Self::job(asked)) {
            self.acknowledged.insert(id);
        }
    }

    fn submit_array(&mut self, asked: Asked, count: u32, at_once: Option<u32>) {
        let mut elements = json!({ "indexes": Idset::from(1..=count).to_string() });
        if let Some(at_once) = at_once {
            elements["at-once"] = at_once.into();
        }
        let elements: Elements = serde_json::from_value(elements).unwrap();
        let slow = asked
            .trouble
            .iter()
            .any(|(place, _)| ["slow", "second"].iter().any(|slow| place.starts_with(slow)));
        if let Ok(id) = self.m.submit(Self::job(asked).elements(elements)) {
            self.arrays.insert(id, Some(AskedArray { count, at_once, slow }));
        }
    }

    fn job(asked: Asked) -> TestJob {
        let mut job = TestJob::new().ntasks(asked.tasks).urgency(asked.urgency);
        for (place, kind) in asked.trouble {
            job = job.attribute(&format!("h.{place}"), kind);
        }
        for index in 0..asked.waits.saturating_sub(1) {
            job = job.dependency(&format!("wait:{index}"));
        }
        if let Some(seconds) = asked.run_for {
            job = job.run_for(seconds.into());
        }
        if asked.tasks.is_multiple_of(2) {
            job = job.debug();
        }
        if asked.duration > 4 {
            job = job.duration(asked.duration.into());
        }
        job
    }

    fn act(&mut self, act: Act) {
        let refusals_are_fine = |_: Result<(), Refused>| ();
        match act {
            Act::Submit(asked) => self.submit(asked),
            Act::Array(asked, count, at_once) => self.submit_array(asked, count, at_once),
            Act::RaiseElements(array, first, last, severity) => {
                let id = self.arrays.keys().rev().nth(array).copied();
                let id = id.unwrap_or(JobId::new(4711));
                let exception = RaisedException::new("cancel", severity, "by hand");
                let indexes = Idset::from(first..=last);
                self.ask(Request::RaiseElements { id, indexes, exception });
            }
            Act::Raise(job, severity, kind) => {
                refusals_are_fine(self.m.raise(self.pick(job), kind, severity, "by hand"));
            }
            Act::Urgency(job, urgency) => {
                refusals_are_fine(self.m.urgency(self.pick(job), urgency));
            }
            Act::Finish(job, code) => self.m.finish(self.pick(job), code),
            Act::Report(job, what) => self.report(self.pick(job), what),
            Act::Advance(seconds) => self.m.advance(seconds.into()),
            Act::Queue(start) => self.scheduling = self.m.scheduling(start).ok().map(|()| start),
            Act::CancelAll => drop(self.m.cancel_all()),
            Act::Remove(plugin) => refusals_are_fine(self.m.remove_plugin(PLUGINS[plugin])),
            Act::Load(plugin) => {
                refusals_are_fine(self.m.load_plugin(PLUGINS[plugin], json!({})));
            }
            Act::Reload(plugin) => {
                refusals_are_fine(self.m.reload_plugin(PLUGINS[plugin], json!({})));
            }
            Act::Update(job, how) => refusals_are_fine(self.update(self.pick(job), how)),
            Act::Purge(job) => {
                let id = self.pick(job);
                let over = self.m.jobs().contains(&id) && self.m.job(id).state() == State::Inactive;
                if over {
                    self.purged = true;
                    self.acknowledged.remove(&id);
                }
                refusals_are_fine(self.m.purge(id));
            }
            Act::PurgeOver(num_limit) => {
                let m = &self.m;
                let is_over = |id: &JobId| m.job(*id).state() == State::Inactive;
                let over: Vec<JobId> = m.jobs().into_iter().filter(is_over).collect();
                // Which of them are purged depends on the order in which they ended, so none is expected to stay.
                self.acknowledged.retain(|id| !over.contains(id));
                self.purged = true;
                let (age_limit, batch) = (-1.0, 100);
                self.ask(Request::Purge { age_limit, num_limit, batch, force: true });
            }
            Act::Memo(job, volatile) => {
                let (id, memo) =
                    (self.pick(job), [("note".into(), json!(1))].into_iter().collect());
                self.ask(Request::Memo { id, volatile, memo });
            }
            Act::Restart => self.m.crash_and_restart(),
            Act::CrashIn(steps) => self.m.crash_in(steps),
        }
        let late: Vec<JobId> = self.m.late_responses().into_iter().filter_map(Result::ok).collect();
        if self.m.is_dead() {
            self.m.crash_and_restart();
        }
        for id in late {
            if self.m.jobs().contains(&id) {
                self.acknowledged.insert(id);
            } else {
                self.arrays.insert(id, None);
            }
        }
        // A job that was lost or can't be killed has drained the only node.
        while self.m.resource_status()["drain"] != json!({}) {
            let _ = self.m.undrain_nodes("0");
            if self.m.is_dead() {
                self.m.crash_and_restart();
            }
        }
    }

    /// Makes a request whose response says nothing that the logs don't.
    fn ask(&mut self, request: Request) {
        let asked = self.m.open_request(TestJob::OWNER.0, request);
        self.m.answered(asked);
    }

    fn update(&mut self, id: JobId, how: u8) -> Result<(), Refused> {
        const DURATION: &str = "attributes.system.duration";
        match how {
            0..4 => self.m.update(id, "attributes.system.h.update", how),
            4 => self.m.update(id, "attributes.system.cwd", "/"),
            how => self.m.update(id, DURATION, f64::from(how) * 10.0),
        }
    }

    fn report(&mut self, id: JobId, what: u8) {
        let exception = RaisedException::new("exec", 0, "on purpose");
        self.m.report(match what {
            0 => ExecEvent::Started { id },
            1 => ExecEvent::Finished { id, status: 256 },
            2 => ExecEvent::Released { id },
            3 => ExecEvent::Exception { id, exception },
            4 => ExecEvent::Reattached { id },
            5 => ExecEvent::CaughtUp { id },
            6 => ExecEvent::Lost { id, note: "on purpose".into(), reason: "lost".into() },
            7 => {
                let (ranks, reason) = (Idset::from(0), "unkillable".into());
                ExecEvent::Unkillable { id, ranks, reason }
            }
            8 => ExecEvent::Output { id, text: "{}".into() },
            _ => return self.m.started(id),
        });
    }

    /// Checks what must hold at any time.
    fn check(&self) -> Result<(), TestCaseError> {
        let m = &self.m;
        let mut used = ResourceSet::new();
        let mut states = [0u64; 7];
        for id in m.jobs() {
            let model = Model::from_log(&m.eventlog(id))
                .map_err(|text| TestCaseError::fail(format!("{id}: {text}: {:?}", m.events(id))))?;
            let job = m.job(id);
            let place = format!("{id}: {:?}", m.events(id));
            prop_assert_eq!(model.state, Some(job.state()), "{}", place);
            prop_assert_eq!(model.priority, job.priority(), "{}", place);
            prop_assert_eq!(model.urgency, u64::from(job.urgency().value()), "{}", place);
            let open: Vec<&str> =
                model.dependencies.iter().filter(|(_, open)| *open).map(|(d, _)| &**d).collect();
            prop_assert_eq!(open, job.dependencies().collect::<Vec<_>>(), "{}", place);
            let index = State::ALL.iter().position(|s| *s == job.state()).unwrap();
            states[index] += 1;
            if model.holds && !model.bypass {
                let held = job.resources().expect("no R");
                prop_assert!(!used.intersects(held), "given twice: {}", place);
                used.union_with(held);
            }
            self.check_progress(&model)
                .map_err(|text| TestCaseError::fail(format!("{text}: {place}")))?;
        }
        self.check_head()?;
        crate::waits::check(m)?;
        self.check_totals(&used, &states)?;
        self.check_arrays()?;
        let m = &self.m;
        for id in &self.acknowledged {
            prop_assert!(!m.events(*id).is_empty(), "{} is lost", id);
        }
        let fault = m.log().find(|(_, text)| text.contains("could not apply"));
        prop_assert!(fault.is_none(), "{:?}", fault);
        Ok(())
    }

    /// Checks that a job at rest stays in its state for a reason that its log shows.
    fn check_progress(&self, model: &Model) -> Result<(), &'static str> {
        let has_perilogs = !model.prologs.is_empty() || !model.epilogs.is_empty();
        let held = model.dependencies.iter().any(|(_, open)| *open);
        match model.state {
            Some(State::New) => Err("committed before its acceptance"),
            Some(State::Depend) if !held => Err("nothing holds it"),
            Some(State::Run) if !has_perilogs && !self.hold && !model.has("start") => {
                Err("not started")
            }
            Some(State::Cleanup) if !has_perilogs && (!model.holds || model.released) => {
                Err("nothing holds it")
            }
            _ => Ok(()),
        }
    }

    /// Checks that the first job of the queue runs if it fits.
    fn check_head(&self) -> Result<(), TestCaseError> {
        let waiting = self.m.jobs().into_iter().map(|id| self.m.job(id));
        let bypass = |id| Model::from_log(&self.m.eventlog(id)).is_ok_and(|model| model.bypass);
        let waiting = waiting.filter(|job| job.state() == State::Sched && !bypass(job.id()));
        let head = waiting.min_by_key(|job| (std::cmp::Reverse(job.priority()), job.id()));
        let Some(head) = head.filter(|job| job.priority() > Some(0)) else {
            return Ok(());
        };
        let fits =
            head.jobspec().counts().ntasks <= self.m.free_resources().unwrap().ncores() as u64;
        prop_assert!(!fits || self.scheduling != Some(true), "{} is passed over", head.id());
        Ok(())
    }

    /// Checks that long after a restart, only those of its jobs still wait that are meant to wait forever. Elements of
    /// arrays that have become jobs since then may wait as well.
    fn check_patience(&self, of_restart: Vec<JobId>) -> Result<(), TestCaseError> {
        let log: Vec<&str> = self.m.log().map(|(_, text)| text).collect();
        let restart = log.iter().rposition(|text| text.starts_with("restart:")).unwrap();
        // Jobs wait for the decision of a faulted plugin until it is loaded again.
        let faulted = log[restart..].iter().any(|text| text.contains(": faulted after"));
        for id in of_restart {
            let job = self.m.job(id);
            let asks = |place: &str| job.jobspec().attribute(&format!("h.{place}")).cloned();
            let held = job.dependencies().filter(|_| job.state() == State::Depend);
            for open in held {
                let place = match open.split(['.', '=']).nth(1) {
                    Some("depend") => "slow-depend",
                    Some("wait") => "slow-wait",
                    _ => continue,
                };
                prop_assert_eq!(asks(place), Some(json!(6)), "{} waits for {}", id, open);
            }
            if job.state() == State::Priority && !faulted {
                prop_assert_eq!(asks("priority"), Some(json!(4)), "{} has no priority", id);
            }
        }
        Ok(())
    }

    /// Checks that each element is in one place, that no job stands for two, and that none waits without a reason.
    fn check_arrays(&self) -> Result<(), TestCaseError> {
        let mut jobs = BTreeSet::new();
        for (id, asked) in &self.arrays {
            let array = self.m.engine().unwrap().array(*id);
            if array.is_err() && self.purged {
                continue;
            }
            let array = array.unwrap();
            let set = |key: &str| array[key].as_str().unwrap_or_default().parse::<Idset>().unwrap();
            let number = |key: &str| array[key].as_u64().unwrap();
            let indexes = set("indexes");
            let mut placed = set("waiting");
            let waiting = placed.len();
            for key in ["completed", "failed", "canceled", "timeout"] {
                prop_assert!(placed.intersection(&set(key)).is_empty(), "{}: {}", key, array);
                placed = placed.union(&set(key));
            }
            let active = number("pending") + number("running");
            prop_assert_eq!(placed.len() as u64 + active, indexes.len() as u64, "{}", array);
            for index in indexes.iter() {
                let Some(job) = self.m.element(*id, index) else { continue };
                prop_assert!(jobs.insert(job), "{} stands for two elements: {}", job, array);
                let is_over = placed.contains(index);
                if self.m.jobs().contains(&job) {
                    let state = self.m.job(job).state();
                    prop_assert_eq!(state == State::Inactive, is_over, "[{}]: {}", index, array);
                } else {
                    // It was purged.
                    prop_assert!(is_over, "{} is lost: {}", job, array);
                }
            }
            let Some(asked) = asked else { continue };
            prop_assert_eq!(number("count"), u64::from(asked.count), "{}", array);
            let most = asked.at_once.map_or(u64::MAX, u64::from);
            prop_assert!(active <= most, "more than {} at once: {}", most, array);
            let held = array["urgency"] == 0 || !array["refused"].is_null();
            let may_wait = asked.slow || held || active == most;
            prop_assert!(waiting == 0 || may_wait, "nothing holds them: {}", array);
        }
        Ok(())
    }

    fn check_totals(&self, used: &ResourceSet, states: &[u64; 7]) -> Result<(), TestCaseError> {
        let free = self.m.free_resources().unwrap();
        prop_assert!(!used.intersects(free), "used and free");
        prop_assert_eq!(used.ncores() + free.ncores(), CORES as usize);
        let stats = self.m.job_stats();
        let waiting = |array: &Value| array["waiting"].as_str().unwrap().parse::<Idset>().unwrap();
        let unmade: usize = self.m.arrays().iter().map(|array| waiting(array).len()).sum();
        let unmade = unmade as u64;
        for (state, count) in State::ALL.iter().zip(states).skip(1) {
            let name = state.long_name().to_lowercase();
            // Elements that aren't jobs yet count as pending, unless a plugin is just asked about them.
            let waiting = if *state == State::Sched { unmade } else { 0 };
            let told = stats["job_states"][&name].as_u64().unwrap();
            prop_assert!((*count..=count + waiting).contains(&told), "{}: {}", name, told);
        }
        Ok(())
    }

    /// Ends all jobs, removes all plugins, and checks that no job stays active.
    fn end(&mut self) -> Result<(), TestCaseError> {
        self.m.crash_and_restart();
        let of_restart = self.m.jobs();
        let _ = self.m.scheduling(true);
        self.m.advance(50.0);
        self.check_patience(of_restart)?;
        end_all(&mut self.m);
        self.check()?;
        for id in self.arrays.keys() {
            if let Ok(array) = self.m.engine().unwrap().array(*id) {
                prop_assert_eq!(&array["over"], &json!(true), "{}", array);
            }
        }
        all_are_over(&self.m)
    }
}

pub(crate) fn leaves_order(acts: Vec<Act>, hold: bool) -> Result<(), TestCaseError> {
    quiet();
    let mut world = World::new(hold);
    for act in acts {
        world.act(act);
        world.check()?;
    }
    world.end()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_leaves_order(acts in vec(act(), 1..40)) {
        leaves_order(acts, false)?;
    }

    #[test]
    fn any_history_leaves_order_when_starts_are_reported_late(acts in vec(act(), 1..40)) {
        leaves_order(acts, true)?;
    }
}
