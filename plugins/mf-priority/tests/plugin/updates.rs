//! Updates that are missing, late or malformed, that are about unknown users, or that come while the plugin is loaded again.
//! However the data came, jobs are counted where they are in the end, and none is forgotten.

use jobtap_core::prelude::*;
use jobtap_core::testing::TestJob;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::site::{Site, UNLIMITED, association, job, queue};

const DAY: f64 = 86_400.0;
const USERS: [u32; 3] = [5001, 5002, 5003];

/// The tables with all that a job needs, except for associations.
const SERVICES: [&str; 6] = [
    "rec_update",
    "rec_q_update",
    "rec_proj_update",
    "rec_bank_update",
    "rec_fac_update",
    "rec_config_update",
];

/// What `plugin.query` shows must be what the jobs are.
fn assert_counted(site: &mut Site) {
    let shown = site.0.query_plugin("mf_priority").unwrap();
    for user in shown["mf_priority_map"].as_array().unwrap() {
        for bank in user["banks"].as_array().unwrap() {
            let mut counts = [0; 5];
            for id in site.0.jobs() {
                let job = site.0.job(id);
                let named = job.jobspec().attribute("bank").and_then(Value::as_str).unwrap_or("A");
                if Some(u64::from(job.userid().as_u32())) != user["userid"].as_u64()
                    || Some(named) != bank["bank_name"].as_str()
                    || job.state() == State::Inactive
                {
                    continue;
                }
                let runs = i64::from(matches!(job.state(), State::Run | State::Cleanup));
                let cores = job.resources().map_or(0, |resources| resources.ncores());
                let held = i64::from(job.dependencies().any(|name| name.starts_with("max-")));
                let sched = i64::from(job.state() == State::Sched);
                let each = [1, sched, runs, runs * i64::try_from(cores).unwrap(), held];
                counts.iter_mut().zip(each).for_each(|(count, one)| *count += one);
            }
            let number = |key: &str| bank[key].as_i64().unwrap();
            let shown = [
                number("cur_active_jobs"),
                number("cur_sched_jobs"),
                number("cur_run_jobs"),
                number("cur_cores"),
                i64::try_from(bank["held_jobs"].as_object().unwrap().len()).unwrap(),
            ];
            assert_eq!(shown, counts, "active, in SCHED, running, cores, held: {bank}");
        }
    }
}

fn all_users(limits: Value) -> Value {
    USERS.iter().map(|user| association(*user, "A", limits.clone())).collect()
}

fn refused(site: &mut Site, service: &str, data: Value) -> String {
    let payload = json!({ "data": data });
    site.0.call_service(&format!("mf_priority.{service}"), payload).unwrap_err().text()
}

#[test]
fn jobs_wait_for_data_that_is_days_late() {
    let mut site = Site::start(None, &[]);
    let ids: Vec<JobId> = (0..3).map(|_| site.submit(job(5001))).collect();
    site.0.advance(3.0 * DAY);
    site.reprioritize();
    assert!(ids.iter().all(|id| site.state(*id) == State::Priority));
    site.cancel(ids[0]);
    // The data of others is no data about this user, and the user's jobs can't wait any longer.
    site.send("rec_update", json!([association(5001, "A", json!({"max_running_jobs": 1}))]));
    site.reprioritize();
    assert_counted(&mut site);
    // The limit was not known when they passed DEPEND, so it holds later jobs only, as in the original.
    assert!(ids[1..].iter().all(|id| site.state(*id) == State::Run));
    let later = site.submit(job(5001));
    assert_eq!(site.dependencies(later), ["max-running-jobs-user-limit"]);
    assert_counted(&mut site);
}

#[test]
fn without_queues_and_banks_their_factors_are_0_and_no_limit_holds() {
    let mut site = Site::start(None, &["batch"]);
    site.send("rec_update", json!([association(5001, "A", json!({"queues": "batch"}))]));
    site.send("rec_fac_update", json!([{"factor": "bank", "weight": 100}]));
    site.0.hold_scheduling().unwrap();
    let id = site.submit(job(5001).queue("batch"));
    assert_eq!(site.priority(id), Some(50_000));
    site.send("rec_q_update", json!([queue("batch", 2, json!({"max_sched_jobs": 1}))]));
    site.send("rec_bank_update", json!([{"bank": "A", "priority": 1.5}]));
    assert_eq!(site.priority(id), Some(50_000), "data alone changes no priority");
    site.reprioritize();
    assert_eq!(site.priority(id), Some(70_150));
    let second = site.submit(job(5001).queue("batch"));
    assert_eq!(site.dependencies(second), ["max-sched-jobs-queue-limit"]);
    // A queue that is gone has no limits any more, and what it held goes on.
    site.send("rec_q_update", json!([]));
    site.reprioritize();
    assert_eq!((site.state(second), site.priority(second)), (State::Sched, Some(50_150)));
    assert_counted(&mut site);
}

#[test]
fn data_that_is_malformed_changes_nothing() {
    let mut site = Site::start(None, &["batch"]);
    let limits = json!({"queues": "batch", "max_running_jobs": 1});
    site.send("rec_update", json!([association(5001, "A", limits)]));
    site.send("rec_q_update", json!([queue("batch", 1, json!({}))]));
    let first = site.submit(job(5001).queue("batch"));
    let second = site.submit(job(5001).queue("batch"));
    let shown = |site: &mut Site| site.0.query_plugin("mf_priority").unwrap();
    let before = shown(&mut site);
    for service in SERVICES {
        for data in [Value::Null, json!("text"), json!(1), json!([1]), json!([[]]), json!([null])] {
            let said = refused(&mut site, service, data.clone());
            assert!(said.contains("mf_priority unpack: "), "{service} {data}: {said}");
            site.0.assert_logged("mf_priority unpack: ");
        }
        for payload in [Value::Null, json!([]), json!("text"), json!({"other": 1})] {
            let said = site.0.call_service(&format!("mf_priority.{service}"), payload).unwrap_err();
            assert!(said.text().contains("Protocol error"), "{service}: {said:?}");
        }
    }
    // The rows before the one that is wrong aren't taken either.
    let rows = [
        (
            "rec_update",
            json!([association(5001, "A", json!({"fairshare": 0.9})), {"userid": 5002}]),
        ),
        ("rec_update", json!([association(5001, "A", json!({"max_running_jobs": 1.5}))])),
        ("rec_update", json!([association(5001, "A", json!({"max_running_jobs": "9"}))])),
        ("rec_update", json!([association(5001, "A", json!({"userid": -1}))])),
        ("rec_update", json!([association(5001, "A", json!({"userid": 1_u64 << 32}))])),
        ("rec_update", json!([association(5001, "A", json!({"queues": null}))])),
        ("rec_q_update", json!([queue("other", 1, json!({})), {"queue": "batch"}])),
        ("rec_proj_update", json!([{"project": "p"}, {"project": 1}])),
        ("rec_bank_update", json!([{"bank": "A", "priority": 1}, {"bank": "A", "priority": "1"}])),
        ("rec_fac_update", json!([{"factor": "fairshare", "weight": 1}, {"factor": "queue"}])),
        ("rec_config_update", json!({"deny_unknown_queues": "yes"})),
    ];
    for (service, data) in rows {
        let said = refused(&mut site, service, data.clone());
        assert!(said.contains("mf_priority unpack: "), "{service} {data}: {said}");
    }
    assert_eq!(shown(&mut site), before);
    site.reprioritize();
    assert_eq!(site.priority(first), Some(60_000), "the weights are as before");
    site.cancel(first);
    assert_eq!(site.state(second), State::Run);
    assert_counted(&mut site);
}

#[test]
fn a_refusal_names_the_row_and_the_key() {
    let mut site = Site::with(json!([association(5001, "A", json!({}))]));
    let rows = json!([association(5001, "A", json!({})), {"userid": 5002, "bank": "A"}]);
    let said = refused(&mut site, "rec_update", rows);
    assert_eq!(said, "mf_priority unpack: associations[1]: missing field `def_bank`");
    let said = refused(&mut site, "rec_q_update", json!([{"queue": "a"}]));
    assert_eq!(said, "mf_priority unpack: queues[0]: missing field `min_nodes_per_job`");
}

#[test]
fn data_about_users_that_nobody_knows_harms_nobody() {
    let mut site = Site::with(json!([association(5001, "A", json!({}))]));
    let running = site.submit(job(5001));
    let rows = json!([
        association(u32::MAX, "A", json!({})),
        // The default bank is one that the user isn't in.
        association(5002, "B", json!({})),
        association(5001, "", json!({"def_bank": "A"})),
    ]);
    site.send("rec_update", rows);
    site.reprioritize();
    assert_eq!(site.state(running), State::Run);
    assert_eq!(
        site.refusal(job(5002)),
        "cannot find user/bank or user/default bank entry for uid: 5002"
    );
    let named = site.submit(job(5002).attribute("bank", "B"));
    assert_eq!(site.state(named), State::Run);
    assert_counted(&mut site);
}

#[test]
fn a_user_whom_the_data_does_not_name_any_more_keeps_the_association() {
    let mut site = Site::with(all_users(json!({"max_running_jobs": 1})));
    let ids = [site.submit(job(5001)), site.submit(job(5001))];
    site.send("rec_update", json!([association(5002, "A", json!({}))]));
    site.reprioritize();
    site.cancel(ids[0]);
    assert_eq!(site.state(ids[1]), State::Run);
    assert_counted(&mut site);
}

#[test]
fn what_happens_between_a_reload_and_its_data_is_counted() {
    let limits = json!({"max_running_jobs": 2, "max_active_jobs": 9});
    let mut site = Site::with(all_users(limits.clone()));
    let ids: Vec<JobId> = (0..5).map(|_| site.submit(job(5001))).collect();
    site.0.reload_plugin("mf_priority", json!({})).unwrap();
    // One ends, one is canceled while it is held, and one comes.
    site.cancel(ids[0]);
    site.cancel(ids[3]);
    let waits = site.submit(job(5001));
    assert_eq!((site.state(ids[2]), site.state(waits)), (State::Depend, State::Priority));
    // A part of the data comes, and the plugin is loaded once more in the middle.
    site.send("rec_update", all_users(limits.clone()));
    assert_counted_without(&mut site, waits);
    site.0.reload_plugin("mf_priority", json!({})).unwrap();
    let said = refused(&mut site, "rec_update", json!([{"userid": 5001}]));
    assert!(said.contains("missing field"), "{said}");
    site.send("rec_update", all_users(limits));
    site.send("rec_proj_update", json!([{"project": "*"}]));
    site.reprioritize();
    assert_counted(&mut site);
    let states: Vec<State> = [ids[1], ids[2], ids[4], waits].map(|id| site.state(id)).to_vec();
    let running = states.iter().filter(|state| **state == State::Run).count();
    assert!(running >= 2, "{states:?}");
    site.0.cancel_all().unwrap();
    assert_counted(&mut site);
}

#[test]
fn a_job_keeps_its_priority_until_the_data_has_come_again() {
    let mut site = Site::with(all_users(json!({"max_running_jobs": 9, "max_active_jobs": 9})));
    site.0.scheduling(false).unwrap();
    let id = site.submit(job(5001));
    let before = site.0.job(id).priority();
    site.0.reload_plugin("mf_priority", json!({})).unwrap();
    site.reprioritize();
    assert_eq!((site.state(id), site.0.job(id).priority()), (State::Sched, before));
    // One that has to be computed anew waits.
    site.0.urgency(id, 20).unwrap();
    assert_eq!(site.state(id), State::Priority);
    site.send("rec_update", all_users(json!({"fairshare": 0.1})));
    site.reprioritize();
    assert_eq!(site.state(id), State::Sched);
    assert_ne!(site.0.job(id).priority(), before);
}

/// The same while a job waits for data, which is counted as soon as it has a priority.
fn assert_counted_without(site: &mut Site, waits: JobId) {
    let active = site.0.jobs().into_iter().filter(|id| site.state(*id) != State::Inactive);
    let expected = i64::try_from(active.filter(|id| *id != waits).count()).unwrap();
    assert_eq!(site.counts(&["cur_active_jobs"]), [expected]);
}

#[test]
fn a_manager_that_crashes_anywhere_counts_again() {
    let limits = json!({"max_running_jobs": 1, "max_active_jobs": 9});
    for steps in 0..25 {
        let mut site = Site::start(None, &[]);
        site.0.crash_in(steps);
        let mut did = || -> Option<()> {
            let submit = |site: &mut Site| site.0.submit(job(5001)).ok();
            let call = |site: &mut Site, service: &str, payload: Value| {
                site.0.call_service(&format!("mf_priority.{service}"), payload).ok()
            };
            submit(&mut site)?;
            call(&mut site, "rec_update", json!({"data": all_users(limits.clone())}))?;
            call(&mut site, "reprioritize", Value::Null)?;
            submit(&mut site)?;
            let third = submit(&mut site)?;
            site.0.cancel(third).ok()?;
            call(&mut site, "rec_update", json!({"data": all_users(json!({}))}))?;
            call(&mut site, "reprioritize", Value::Null)?;
            Some(())
        };
        if did().is_some() {
            continue;
        }
        site.0.crash_and_restart();
        site.send("rec_update", all_users(limits.clone()));
        site.send("rec_proj_update", json!([{"project": "*"}]));
        site.reprioritize();
        assert_counted(&mut site);
        site.0.cancel_all().unwrap();
        assert_counted(&mut site);
    }
}

/// What can happen.
#[derive(Debug, Clone)]
enum Step {
    Submit { user: usize, nodes: u64, queue: bool },
    Cancel(usize),
    Data { user: usize, most: i64, nodes: i64 },
    Queues { most: i64 },
    Malformed(usize),
    Reprioritize,
    Reload,
    Crash,
    Pass,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..USERS.len(), 1..3_u64, any::<bool>())
            .prop_map(|(user, nodes, queue)| Step::Submit { user, nodes, queue }),
        3 => (0..20_usize).prop_map(Step::Cancel),
        3 => (0..USERS.len(), 1..4_i64, 2..5_i64)
            .prop_map(|(user, most, nodes)| Step::Data { user, most, nodes }),
        1 => (1..4_i64).prop_map(|most| Step::Queues { most }),
        1 => (0..SERVICES.len()).prop_map(Step::Malformed),
        2 => Just(Step::Reprioritize),
        1 => Just(Step::Reload),
        1 => Just(Step::Crash),
        2 => Just(Step::Pass),
    ]
}

fn take(site: &mut Site, step: &Step) {
    match *step {
        Step::Submit { user, nodes, queue } => {
            let mut job: TestJob = job(USERS[user]).nodes(nodes).ntasks(nodes).run_for(30.0);
            job = job.queue(if queue { "debug" } else { "batch" });
            // A limit may refuse it.
            site.0.submit(job).ok();
        }
        Step::Cancel(number) => {
            if let Some(id) = site.0.jobs().get(number) {
                site.0.cancel(*id).ok();
            }
        }
        Step::Data { user, most, nodes } => {
            let limits = json!({
                "queues": "batch,debug", "max_running_jobs": most, "max_sched_jobs": most + 1,
                "max_nodes": nodes, "max_active_jobs": 9,
            });
            site.send("rec_update", json!([association(USERS[user], "A", limits)]));
        }
        Step::Queues { most } => site.send(
            "rec_q_update",
            json!([queue(
                "debug",
                1,
                json!({"max_running_jobs": most, "max_sched_nodes_per_assoc": 2 * most})
            )]),
        ),
        Step::Malformed(service) => drop(refused(site, SERVICES[service], json!([[1]]))),
        Step::Reprioritize => site.reprioritize(),
        Step::Reload => site.0.reload_plugin("mf_priority", json!({})).unwrap(),
        Step::Crash => site.0.crash_and_restart(),
        Step::Pass => site.0.advance(10.0),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Whatever has happened: when data is there that limits nothing, no job is held or waits for a priority.
    #[test]
    fn no_job_is_forgotten_or_counted_twice(steps in proptest::collection::vec(step(), 1..40)) {
        let mut site = Site::start(None, &["batch", "debug"]);
        steps.iter().for_each(|step| take(&mut site, step));
        let limits = json!({
            "queues": "batch,debug", "max_running_jobs": UNLIMITED, "max_active_jobs": UNLIMITED,
        });
        site.send("rec_update", all_users(limits));
        site.send("rec_q_update", json!([]));
        site.send("rec_proj_update", json!([{"project": "*"}]));
        site.reprioritize();
        assert_counted(&mut site);
        let waits = |state| matches!(state, State::Depend | State::Priority);
        let stuck = site.0.jobs().into_iter().find(|id| waits(site.state(*id)));
        prop_assert_eq!(stuck, None);
        site.0.cancel_all().unwrap();
        site.0.advance(60.0);
        assert_counted(&mut site);
    }
}
