//! Random histories of queues that are started, stopped and configured anew, with crashes: no job starts in a stopped
//! queue, none waits in a started queue while a core is free, and the counts of each queue match its jobs.

use std::collections::BTreeMap;

use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::common::ByUrgency;

const QUEUES: [&str; 3] = ["day", "night", "debug"];
const CORES: usize = 4;

#[derive(Debug, Clone)]
enum Act {
    Submit(&'static str, i64),
    Start(&'static str),
    Stop(&'static str),
    /// Sets the parent of `night`.
    Configure(Option<&'static str>),
    Cancel(usize),
    Urgency(usize, i64),
    Advance(f64),
    Crash,
}

fn act() -> impl Strategy<Value = Act> {
    let queue = || select(QUEUES.as_slice());
    prop_oneof![
        4 => (queue(), 0..=31i64).prop_map(|(queue, urgency)| Act::Submit(queue, urgency)),
        2 => queue().prop_map(Act::Start),
        2 => queue().prop_map(Act::Stop),
        1 => option::of(select(vec!["day", "debug"])).prop_map(Act::Configure),
        1 => (0..20usize).prop_map(Act::Cancel),
        1 => (0..20usize, 0..=31i64).prop_map(|(job, urgency)| Act::Urgency(job, urgency)),
        2 => (1..15u32).prop_map(|seconds| Act::Advance(seconds.into())),
        1 => Just(Act::Crash),
    ]
}

fn config(parent: Option<&str>) -> Value {
    let night = parent.map_or_else(|| json!({}), |parent| json!({ "parent": parent }));
    json!({"queues": {"day": {}, "night": night, "debug": {}}})
}

fn step(m: &mut TestManager, jobs: &mut Vec<JobId>, act: Act) {
    match act {
        Act::Submit(queue, urgency) => {
            let job = TestJob::new().queue(queue).urgency(urgency).run_for(10.0);
            jobs.push(m.submit(job).unwrap());
        }
        Act::Start(queue) => m.start_queue(queue).unwrap(),
        Act::Stop(queue) => m.stop_queue(queue, None).unwrap(),
        Act::Configure(parent) => m.configure(config(parent)).unwrap(),
        // Inactive jobs refuse it.
        Act::Cancel(job) => drop(jobs.get(job).map(|id| m.cancel(*id))),
        Act::Urgency(job, urgency) => drop(jobs.get(job).map(|id| m.urgency(*id, urgency))),
        Act::Advance(seconds) => m.advance(seconds),
        Act::Crash => m.crash_and_restart(),
    }
}

fn states(m: &TestManager, jobs: &[JobId]) -> BTreeMap<JobId, State> {
    jobs.iter().map(|id| (*id, m.job(*id).state())).collect()
}

fn is_started(m: &TestManager, id: JobId) -> bool {
    m.queues().unwrap().of_job(m.job(id).jobspec()).unwrap().is_started()
}

/// What `job_stats` must report: the number of jobs in each state, by queue.
fn counted(m: &TestManager, jobs: &[JobId]) -> BTreeMap<String, BTreeMap<&'static str, u64>> {
    let names = ["day", "night", "debug"].map(str::to_owned);
    let mut counts: BTreeMap<String, BTreeMap<&'static str, u64>> =
        names.into_iter().map(|name| (name, BTreeMap::new())).collect();
    for id in jobs {
        let job = m.job(*id);
        let queue = job.jobspec().queue().unwrap().to_owned();
        let state = match job.state() {
            State::Sched => "sched",
            State::Run => "run",
            State::Inactive => "inactive",
            other => panic!("{id} rests in {other:?}"),
        };
        *counts.entry(queue).or_default().entry(state).or_default() += 1;
    }
    counts
}

fn told(m: &TestManager) -> BTreeMap<String, BTreeMap<&'static str, u64>> {
    let stats = m.job_stats();
    let one = |queue: &Value| {
        let of = |state: &'static str| (state, queue["job_states"][state].as_u64().unwrap());
        let counts = ["sched", "run", "inactive"].map(of).into_iter().filter(|(_, n)| *n > 0);
        (queue["name"].as_str().unwrap().to_owned(), counts.collect())
    };
    stats["queues"].as_array().unwrap().iter().map(one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn any_history_schedules_what_its_queues_allow(acts in vec(act(), 1..40)) {
        let mut m = TestManager::new().plugin::<ByUrgency>().config(config(Some("day"))).start();
        let mut jobs = Vec::new();
        let mut before = BTreeMap::new();
        for act in acts {
            let what = format!("{act:?}");
            step(&mut m, &mut jobs, act);
            let now = states(&m, &jobs);
            for (id, state) in &now {
                let began = *state == State::Run && before.get(id) != Some(&State::Run);
                prop_assert!(!began || is_started(&m, *id), "{what}: {id} began in a stopped queue");
            }
            let running = now.values().filter(|state| **state == State::Run).count();
            prop_assert!(running <= CORES);
            for (id, state) in &now {
                let ready = *state == State::Sched && m.job(*id).priority() > Some(0);
                let idle = running < CORES && ready && is_started(&m, *id);
                prop_assert!(!idle, "{what}: {id} waits beside free cores: {:?}", m.why(*id));
            }
            crate::waits::check(&m)?;
            prop_assert_eq!(told(&m), counted(&m, &jobs), "{}", what);
            before = now;
        }
    }
}
