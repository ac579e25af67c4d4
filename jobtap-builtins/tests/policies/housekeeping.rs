//! `housekeeping` in virtual time: nodes wait for its scripts, are released as configured, and users can see
//! and kill the scripts.

use std::io::ErrorKind;

use jobtap_builtins::{AllocBypass, Housekeeping, PriorityDefault};
use jobtap_core::job::WaitStatus;
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::{Value, json};

const WHOLE: &str = "submit validate depend priority alloc start finish release free clean";

fn config(table: Value) -> Value {
    json!({ "job-manager": { "housekeeping": table } })
}

/// Starts a manager with four nodes of one core and this table.
fn manager(table: Value) -> TestManager {
    let builder = TestManager::new().plugin::<PriorityDefault>().plugin::<Housekeeping>();
    let mut m = builder.hosts(4).cores(1).config(config(table)).start();
    m.hold_processes();
    m
}

fn clean() -> Value {
    json!({"command": ["clean", "-q"]})
}

fn after(release: Value) -> Value {
    json!({"command": ["clean"], "release-after": release})
}

fn nodes(nodes: u64) -> TestJob {
    TestJob::new().nodes(nodes).ntasks(nodes)
}

/// Runs a job on all nodes to its end.
fn ended(m: &mut TestManager) -> JobId {
    let id = m.submit(nodes(4)).unwrap();
    m.finish(id, 0);
    m.assert_events(id, WHOLE);
    id
}

fn done(m: &mut TestManager, code: u8) {
    m.end_process("clean", WaitStatus::from_exit_code(code));
}

fn running(m: &TestManager) -> usize {
    m.running_processes().count()
}

fn hosts(m: &TestManager, id: JobId) -> String {
    m.job(id).resources().map(|r| r.nodelist().to_string()).unwrap_or_default()
}

/// Returns the lines that the plugin has logged.
fn logged(m: &TestManager) -> Vec<String> {
    let own = m.log().map(|(_, text)| text).filter(|text| text.starts_with("housekeeping: "));
    own.map(str::to_owned).collect()
}

fn query(m: &mut TestManager) -> Value {
    m.query_plugin("housekeeping").unwrap()
}

#[test]
fn nodes_of_an_inactive_job_wait_for_the_last_script() {
    let mut m = manager(clean());
    let id = ended(&mut m);
    assert_eq!(running(&m), 4);
    let next = m.submit(nodes(1)).unwrap();
    let text = format!("its resources are held by plugin housekeeping since the end of {id}");
    assert_eq!(m.why(next), [text]);
    (0..3).for_each(|_| done(&mut m, 0));
    m.assert_state(next, State::Sched);
    done(&mut m, 0);
    m.assert_state(next, State::Run);
    assert_eq!(
        logged(&m),
        [
            "housekeeping: is configured".to_owned(),
            format!("housekeeping: {id} started"),
            format!("housekeeping: {id} complete"),
        ]
    );
}

#[test]
fn the_script_knows_its_job_and_its_rank() {
    let mut m = manager(clean());
    let id = m.submit(nodes(2).user(7)).unwrap();
    m.finish(id, 0);
    let started = m.started_processes();
    assert_eq!(started[1].args, ["-q"]);
    let env = &started[1].env;
    assert_eq!(env["FLUX_JOB_ID"], id.as_u64().to_string());
    assert_eq!((&*env["FLUX_JOB_RANKS"], &*env["FLUX_JOB_USERID"]), ("0-1", "7"));
    assert_eq!(env["JOBTAP_RANK"], "1");
}

#[test]
fn each_rank_can_be_released_at_once() {
    let mut m = manager(after(json!("0s")));
    ended(&mut m);
    done(&mut m, 0);
    let next = m.submit(nodes(1)).unwrap();
    assert_eq!(hosts(&m, next), "testhost0");
    let next = m.submit(nodes(1)).unwrap();
    m.assert_state(next, State::Sched);
    done(&mut m, 0);
    assert_eq!(hosts(&m, next), "testhost1");
}

#[test]
fn ranks_are_released_after_a_delay_and_then_singly() {
    let mut m = manager(after(json!("10s")));
    ended(&mut m);
    let (first, second) = (m.submit(nodes(2)).unwrap(), m.submit(nodes(1)).unwrap());
    done(&mut m, 0);
    m.advance(9.0);
    done(&mut m, 0);
    m.assert_state(first, State::Sched);
    m.advance(1.0);
    assert_eq!(hosts(&m, first), "testhost[0-1]");
    m.assert_state(second, State::Sched);
    done(&mut m, 0);
    assert_eq!(hosts(&m, second), "testhost2");
}

#[test]
fn a_failed_script_is_logged_and_its_nodes_are_released() {
    type Ending = fn(&mut TestManager);
    let signal: Ending = |m| m.end_process("clean", WaitStatus::from_signal(15));
    let code: Ending = |m| done(m, 3);
    let well: Ending = |m| done(m, 0);
    for (endings, text) in [
        ([code, well, code, well], "testhost[0,2] (rank 0,2) ID: nonzero exit code"),
        ([signal, signal, well, well], "testhost[0-1] (rank 0-1) ID: Terminated"),
        ([signal, code, well, well], "testhost[0-1] (rank 0-1) ID: multiple failure modes"),
    ] {
        let mut m = manager(clean());
        let id = ended(&mut m);
        endings.into_iter().for_each(|ending| ending(&mut m));
        let text = format!("housekeeping: {}", text.replace("ID", &id.to_string()));
        assert!(logged(&m).contains(&text), "{text}");
        let next = m.submit(nodes(4)).unwrap();
        m.assert_state(next, State::Run);
    }
}

#[test]
fn a_missing_script_is_logged_and_its_node_is_released() {
    let mut m = manager(clean());
    let id = m.submit(nodes(1)).unwrap();
    m.finish(id, 0);
    m.fail_process("clean", ErrorKind::NotFound);
    let text = format!("housekeeping: testhost0 (rank 0) {id}: clean: entity not found");
    assert!(logged(&m).contains(&text));
    let next = m.submit(nodes(4)).unwrap();
    m.assert_state(next, State::Run);
}

#[test]
fn output_is_logged_with_its_node() {
    let mut m = manager(clean());
    let id = m.submit(nodes(1)).unwrap();
    m.finish(id, 0);
    m.process_prints("clean", Stream::Stderr, "no space");
    let text = format!("housekeeping: testhost0 (rank 0) {id}: no space");
    assert!(logged(&m).contains(&text));
}

#[test]
fn scripts_are_signalled_by_job_by_rank_or_all() {
    let mut m = manager(clean());
    let (first, second) = (m.submit(nodes(2)).unwrap(), m.submit(nodes(2)).unwrap());
    m.finish(first, 0);
    m.finish(second, 0);
    let got = |m: &TestManager| -> Vec<Vec<i32>> {
        m.running_processes().map(|(_, signals)| signals.to_vec()).collect()
    };
    let mut kill = |payload: Value| m.call_service("housekeeping.kill", payload);
    kill(json!({"signum": 1, "jobid": first})).unwrap();
    kill(json!({"signum": 2, "ranks": "1-2"})).unwrap();
    kill(json!({"signum": 3, "ranks": "0-1", "jobid": second})).unwrap();
    kill(json!({"signum": 15})).unwrap();
    assert!(kill(json!({"signum": 15, "ranks": "x"})).is_err());
    assert_eq!(got(&m), [vec![1, 15], vec![1, 2, 15], vec![2, 15], vec![15]]);
    let refused = m.call_service_as(7, "housekeeping.kill", json!({"signum": 9})).unwrap_err();
    assert_eq!(refused, "Request requires owner credentials");
}

#[test]
fn a_query_shows_configuration_and_running_scripts() {
    let mut m = manager(after(json!("0s")));
    let id = ended(&mut m);
    let started = m.now().as_secs();
    done(&mut m, 0);
    let told = query(&mut m);
    let running = json!({"t_start": started, "pending": "1-3", "allocated": "1-3"});
    assert_eq!(told["running"], json!({ id.to_string(): running }));
    assert_eq!(told["config"], json!({"release-after": 0.0, "command": "clean"}));
}

#[test]
fn jobs_that_ran_before_the_configuration_get_housekeeping() {
    let builder = TestManager::new().plugin::<PriorityDefault>().plugin::<Housekeeping>();
    let mut m = builder.hosts(4).cores(1).start();
    m.hold_processes();
    let id = m.submit(nodes(1)).unwrap();
    m.configure(config(clean())).unwrap();
    m.finish(id, 0);
    assert_eq!(running(&m), 1);
    // Jobs that end after the table was removed get no housekeeping.
    let id = m.submit(nodes(1)).unwrap();
    m.configure(json!({})).unwrap();
    m.finish(id, 0);
    assert_eq!(running(&m), 1);
}

#[test]
fn a_job_that_bypassed_the_scheduler_has_no_housekeeping() {
    let builder = TestManager::new().plugin::<PriorityDefault>().plugin::<Housekeeping>();
    let builder = builder.plugin::<AllocBypass>().hosts(4).cores(1);
    let mut table = config(clean());
    table["job-manager"]["plugins"] = json!([{"load": "alloc-bypass"}]);
    let mut m = builder.config(table).start();
    m.hold_processes();
    let r = ResourceSet::single_host("testhost0", Idset::from(0)).unwrap().to_json();
    let r: Value = serde_json::from_str(&r).unwrap();
    let id = m.submit(nodes(1).attribute("alloc-bypass.R", r)).unwrap();
    m.finish(id, 0);
    m.assert_state(id, State::Inactive);
    assert_eq!(running(&m), 0);
}

#[test]
fn a_crash_repeats_the_scripts_before_nodes_are_allocated() {
    let mut m = manager(after(json!("0s")));
    ended(&mut m);
    done(&mut m, 0);
    m.crash_and_restart();
    m.hold_processes();
    let next = m.submit(nodes(4)).unwrap();
    m.assert_state(next, State::Sched);
    assert_eq!(running(&m), 3);
    (0..3).for_each(|_| done(&mut m, 0));
    m.assert_state(next, State::Run);
    // A job that was in CLEANUP gets housekeeping as well.
    m.crash_and_restart();
    m.hold_processes();
    m.finish(next, 0);
    assert_eq!(running(&m), 4);
}

#[test]
fn an_outdated_key_is_reported() {
    let m = manager(json!({"command": ["clean"], "use-systemd-unit": true}));
    let key = "job-manager.housekeeping.use-systemd-unit is deprecated - ignoring";
    assert!(logged(&m).contains(&format!("housekeeping: {key}")));
}
