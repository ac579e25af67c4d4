//! `limits` in virtual time: jobs beyond the limits are refused or wait, and the counts agree with the jobs
//! after crashes, removals and reloads.

use std::collections::BTreeMap;

use jobtap_builtins::{DependencyAfter, Limits, PriorityDefault};
use jobtap_core::prelude::*;
use jobtap_core::testing::{ManagerStartError, TestJob, TestManager};
use proptest::prelude::*;
use serde_json::{Value, json};

const RUNS: &str = "submit validate depend priority alloc start";
const WAITED: &str = "submit validate dependency-add dependency-remove depend priority alloc start";

fn conf(limits: Value) -> Value {
    json!({"job-manager": {"plugins": [{"load": "limits"}]}, "plugins": {"limits": limits}})
}

/// Starts a manager with the queues `any` (the default), `debug` and `closed`.
fn manager_with_queues(limits: Value) -> TestManager {
    let mut config = conf(limits);
    config["queues"] = json!({"any": {}, "debug": {}, "closed": {}});
    config["policy"] = json!({"jobspec": {"defaults": {"system": {"queue": "any"}}}});
    let mut m = start(config).unwrap();
    m.start_queues().unwrap();
    m
}

fn try_manager(limits: Value) -> Result<TestManager, ManagerStartError> {
    start(conf(limits))
}

fn start(config: Value) -> Result<TestManager, ManagerStartError> {
    let builder = TestManager::new().plugin::<PriorityDefault>().plugin::<DependencyAfter>();
    builder.plugin::<Limits>().hosts(8).cores(8).config(config).try_start()
}

fn manager(limits: Value) -> TestManager {
    try_manager(limits).unwrap()
}

fn row(m: &mut TestManager, scope: &str, what: &str) -> u64 {
    let told = m.query_plugin("limits").unwrap();
    told["scopes"][scope][what].as_u64().unwrap_or_default()
}

fn states(m: &TestManager, ids: &[JobId]) -> Vec<State> {
    ids.iter().map(|id| m.job(*id).state()).collect()
}

fn refusal(m: &mut TestManager, job: TestJob) -> String {
    m.submit(job).unwrap_err().text()
}

#[test]
fn jobs_beyond_the_running_limit_wait() {
    let mut m = manager(json!({"user": {"running": 1}}));
    let first = m.submit(TestJob::new()).unwrap();
    let second = m.submit(TestJob::new()).unwrap();
    let other = m.submit(TestJob::new().user(7)).unwrap();
    m.assert_events(first, RUNS);
    m.assert_events(other, RUNS);
    m.assert_state(second, State::Depend);
    assert_eq!(m.why(second), ["dependency limits holds it, by plugin limits"]);
    let why = m.call_service("limits.why", json!(second)).unwrap();
    assert_eq!(why, json!(["user 1000 has 1 of 1 jobs that run or may run; this job needs 1"]));
    m.finish(first, 0);
    m.assert_events(second, WAITED);
}

#[test]
fn a_users_own_limits_override_the_general_ones_by_key() {
    let mut m = manager(json!({
        "user": {"running": 1, "pending": 2},
        "users": {"7": {"running": 2}, "8": {"running": -1}},
    }));
    for (user, running) in [(6, 1), (7, 2), (8, 4)] {
        m.scheduling(true).unwrap();
        let ids: Vec<JobId> =
            (0..4).filter_map(|_| m.submit(TestJob::new().user(user)).ok()).collect();
        let runs = ids.iter().filter(|id| m.job(**id).state() == State::Run).count();
        assert_eq!(runs, running, "user {user}");
    }
    m.scheduling(false).unwrap();
    m.submit(TestJob::new().user(8)).unwrap();
    m.submit(TestJob::new().user(8)).unwrap();
    assert_eq!(
        refusal(&mut m, TestJob::new().user(8)),
        "user 8 has 2 pending jobs and may have 2: wait until some have started"
    );
}

#[test]
fn queues_and_banks_have_limits_too() {
    let mut m = manager_with_queues(json!({
        "queues": {"debug": {"running": 1}},
        "banks": {"chem": {"running": 1}},
    }));
    let debug = || TestJob::new().queue("debug");
    let chem = || TestJob::new().attribute("bank", "chem");
    let ids = [debug(), debug().user(7), chem(), chem().user(8), TestJob::new()];
    let ids = ids.map(|job| m.submit(job).unwrap());
    use State::{Depend, Run};
    assert_eq!(states(&m, &ids), [Run, Depend, Run, Depend, Run]);
    m.finish(ids[0], 0);
    m.finish(ids[2], 0);
    assert_eq!((states(&m, &ids)[1], states(&m, &ids)[3]), (Run, Run));
}

#[test]
fn nodes_are_counted_and_a_large_job_is_not_overtaken() {
    let mut m = manager(json!({"user": {"nodes": 4}}));
    let three = m.submit(TestJob::new().nodes(3).ntasks(3)).unwrap();
    let four = m.submit(TestJob::new().nodes(4).ntasks(4)).unwrap();
    let one = m.submit(TestJob::new().nodes(1)).unwrap();
    assert_eq!(states(&m, &[three, four, one]), [State::Run, State::Depend, State::Depend]);
    m.finish(three, 0);
    assert_eq!(states(&m, &[four, one]), [State::Run, State::Depend]);
    assert_eq!(row(&mut m, "user 1000", "nodes"), 4);
    assert_eq!(
        refusal(&mut m, TestJob::new().nodes(5).ntasks(5)),
        "the job asks for 5 nodes, and user 1000 may have 4 at a time"
    );
}

#[test]
fn a_job_without_a_node_count_counts_its_allocated_nodes() {
    let mut m = manager(json!({"user": {"nodes": 4}}));
    // More cores than one host has.
    m.submit(TestJob::new().ntasks(20)).unwrap();
    assert_eq!(row(&mut m, "user 1000", "nodes"), 3);
}

#[test]
fn submissions_per_hour_are_limited() {
    let mut m = manager(json!({"user": {"submitted-per-hour": 2}}));
    let first = m.submit(TestJob::new().run_for(1.0)).unwrap();
    m.advance(600.0);
    m.submit(TestJob::new().run_for(1.0)).unwrap();
    m.advance(10.0);
    let text = "user 1000 has submitted 2 jobs within the hour and may submit 2: try again in 50m";
    assert_eq!(refusal(&mut m, TestJob::new()), text);
    // Inactive jobs count too, also after a restart.
    m.crash_and_restart();
    m.assert_state(first, State::Inactive);
    assert_eq!(refusal(&mut m, TestJob::new()), text);
    m.submit(TestJob::new().user(7)).unwrap();
    m.advance(3000.0);
    m.submit(TestJob::new()).unwrap();
    refusal(&mut m, TestJob::new());
}

#[test]
fn a_limit_of_no_running_jobs_refuses_them() {
    let mut m = manager_with_queues(json!({"queues": {"closed": {"running": 0}}}));
    let text = refusal(&mut m, TestJob::new().queue("closed"));
    assert_eq!(text, "queue closed may run no jobs");
}

#[test]
fn a_job_that_cannot_run_yet_takes_no_place() {
    let mut m = manager(json!({"user": {"running": 1}}));
    let target = m.submit(TestJob::new().user(7)).unwrap();
    let chained = {
        let m = &mut m;
        m.finish(target, 0);
        let target = m.submit(TestJob::new()).unwrap();
        (target, m.submit(TestJob::new().dependency(&format!("afterany:{target}"))).unwrap())
    };
    let held = m.submit(TestJob::new().urgency(0)).unwrap();
    let next = m.submit(TestJob::new()).unwrap();
    assert_eq!(states(&m, &[chained.1, held, next]), [State::Depend; 3]);
    // The job with the dependency is now the oldest one that can run.
    m.finish(chained.0, 0);
    assert_eq!(states(&m, &[chained.1, held, next]), [State::Run, State::Depend, State::Depend]);
    m.finish(chained.1, 0);
    m.finish(next, 0);
    let why = m.call_service("limits.why", json!(held)).unwrap();
    assert_eq!(why, json!(["its urgency is 0"]));
    m.urgency(held, 16).unwrap();
    m.assert_state(held, State::Run);
}

#[test]
fn users_can_query_their_own_counts() {
    let mut m = manager(json!({"user": {"running": 1}}));
    m.submit(TestJob::new().user(7)).unwrap();
    let waits = m.submit(TestJob::new().user(7)).unwrap();
    let mine = m.call_service_as(7, "limits.mine", json!({})).unwrap();
    assert_eq!((&mine["running"], &mine["pending"]), (&json!(1), &json!(1)));
    assert_eq!(mine["limits"]["running"], 1);
    m.call_service_as(7, "limits.why", json!(waits)).unwrap();
    let refused = m.call_service_as(8, "limits.why", json!(waits)).unwrap_err();
    assert_eq!(refused, "guests can only access their own jobs");
}

#[test]
fn a_mistake_in_the_configuration_is_named() {
    let text = |limits| try_manager(limits).err().unwrap();
    let negative = text(json!({"users": {"7": {"nodes": -2}}}));
    assert!(negative.text().contains("[plugins.limits]: users.7: -2 is no limit"), "{negative}");
    let misspelt = text(json!({"user": {"runing": 1}}));
    assert!(
        misspelt.text().contains("unknown key \"user.runing\"; did you mean \"user.running\"?")
    );
}

#[test]
fn a_reload_takes_over_the_waiting_jobs() {
    let mut m = manager(json!({"user": {"running": 1}}));
    let first = m.submit(TestJob::new()).unwrap();
    let second = m.submit(TestJob::new()).unwrap();
    let third = m.submit(TestJob::new()).unwrap();
    m.remove_plugin("limits").unwrap();
    assert!(m.why(second)[0].contains("dependency limits holds it, and no loaded plugin"));
    m.load_plugin("limits", json!({})).unwrap();
    assert_eq!(states(&m, &[second, third]), [State::Depend; 2]);
    m.reload_plugin("limits", json!({"user": {"running": 2}})).unwrap();
    assert_eq!(states(&m, &[second, third]), [State::Run, State::Depend]);
    m.finish(first, 0);
    m.assert_state(third, State::Run);
}

#[test]
fn a_kill_at_any_moment_keeps_the_running_limit() {
    for steps in 0.. {
        let mut m = manager(json!({"user": {"running": 2, "pending": 9}}));
        m.crash_in(steps);
        for _ in 0..4 {
            let _ = m.submit(TestJob::new().run_for(10.0));
        }
        m.advance(15.0);
        let died = m.is_dead();
        m.crash_and_restart();
        for _ in 0..6 {
            let jobs = m.jobs();
            let runs = |id: &&JobId| matches!(m.job(**id).state(), State::Run | State::Sched);
            assert!(jobs.iter().filter(runs).count() <= 2, "after {steps} steps");
            m.advance(10.0);
        }
        for id in m.jobs() {
            m.assert_state(id, State::Inactive);
        }
        assert_eq!(row(&mut m, "user 1000", "running"), 0);
        assert_eq!(row(&mut m, "user 1000", "pending"), 0);
        if !died {
            break;
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Submit { user: u32, nodes: u64, queue: bool, urgency: i64 },
    Finish(usize),
    Cancel(usize),
    Urgency(usize, i64),
    Restart,
    Reload,
}

fn step() -> impl Strategy<Value = Step> {
    let urgency = || prop_oneof![Just(16i64), Just(0), Just(10)];
    prop_oneof![
        4 => (5..8u32, 1..4u64, any::<bool>(), urgency())
            .prop_map(|(user, nodes, queue, urgency)| Step::Submit { user, nodes, queue, urgency }),
        3 => (0..20usize).prop_map(Step::Finish),
        1 => (0..20usize).prop_map(Step::Cancel),
        1 => (0..20usize, urgency()).prop_map(|(index, urgency)| Step::Urgency(index, urgency)),
        1 => Just(Step::Restart),
        1 => Just(Step::Reload),
    ]
}

/// Returns what the plugin reports for each scope, and the same counted from the jobs.
fn recount(m: &mut TestManager) -> (BTreeMap<String, [u64; 3]>, BTreeMap<String, [u64; 3]>) {
    let told = m.query_plugin("limits").unwrap();
    let told = told["scopes"].as_object().unwrap();
    let number = |row: &Value, key: &str| row[key].as_u64().unwrap();
    let told = told.iter().map(|(scope, row)| {
        (scope.clone(), [number(row, "running"), number(row, "nodes"), number(row, "pending")])
    });
    let told = told.filter(|(_, counts)| *counts != [0; 3]).collect();
    let mut counted: BTreeMap<String, [u64; 3]> = BTreeMap::new();
    for id in m.jobs() {
        let job = m.job(id);
        if job.state() == State::Inactive {
            continue;
        }
        let queue = job.jobspec().queue().map(|queue| format!("queue {queue}"));
        let waits = job.dependency("limits").is_some();
        let nodes = job.resources().map_or(job.jobspec().counts().nnodes, |r| r.nnodes() as u64);
        for scope in [format!("user {}", job.userid())].into_iter().chain(queue) {
            let counts = counted.entry(scope).or_default();
            if !waits {
                counts[0] += 1;
                counts[1] += nodes;
            }
            counts[2] += u64::from(!matches!(job.state(), State::Run | State::Cleanup));
        }
    }
    (told, counted)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_counts_agree_with_the_active_jobs(steps in prop::collection::vec(step(), 1..30)) {
        let limits = json!({"user": {"running": 2, "nodes": 5}, "queues": {"debug": {"running": 3}}});
        let mut m = manager_with_queues(limits);
        let mut ids: Vec<JobId> = Vec::new();
        for step in steps {
            match step {
                Step::Submit { user, nodes, queue, urgency } => {
                    let job = TestJob::new().user(user).nodes(nodes).ntasks(nodes).urgency(urgency);
                    let job = if queue { job.queue("debug") } else { job };
                    ids.push(m.submit(job).unwrap());
                }
                Step::Finish(index) => {
                    if let Some(id) = ids.get(index) && m.job(*id).state() == State::Run {
                        m.finish(*id, 0);
                    }
                }
                Step::Cancel(index) => {
                    // An inactive job refuses the update.
                    let _ = ids.get(index).map(|id| m.cancel(*id));
                }
                Step::Urgency(index, urgency) => {
                    let _ = ids.get(index).map(|id| m.urgency(*id, urgency));
                }
                Step::Restart => m.crash_and_restart(),
                Step::Reload => m.reload_plugin("limits", json!({})).unwrap(),
            }
            let (told, counted) = recount(&mut m);
            prop_assert_eq!(&told, &counted);
            for (scope, [running, nodes, _]) in counted {
                let (most, most_nodes) = match &*scope {
                    "queue any" => (u64::MAX, u64::MAX),
                    "queue debug" => (3, u64::MAX),
                    _ => (2, 5),
                };
                prop_assert!(running <= most && nodes <= most_nodes);
            }
        }
    }
}
