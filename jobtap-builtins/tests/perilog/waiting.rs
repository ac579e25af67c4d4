//! The time limit of a script that waits for its turn doesn't run, and its node is not drained.

use jobtap_core::job::WaitStatus;
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::{Value, json};

use super::{after_alloc, code, conf, drained, manager_on};

/// Starts a manager with a job on four nodes, whose scripts run one after the other.
fn one_by_one(config: Value) -> (TestManager, JobId) {
    let mut m = manager_on(4, config);
    m.limit_processes(1);
    let id = m.submit(TestJob::new().nodes(4).ntasks(4)).unwrap();
    (m, id)
}

fn told(m: &mut TestManager, id: JobId) -> Value {
    m.query_plugin("perilog.so").unwrap()["procs"][id.to_string()].clone()
}

#[test]
fn waiting_for_a_turn_uses_up_no_time() {
    let prolog = json!({"command": ["pro"], "per-rank": true, "timeout": "60s"});
    let (mut m, id) = one_by_one(conf(prolog, Value::Null));
    let procs = told(&mut m, id);
    assert_eq!((&procs["active_ranks"], &procs["waiting_ranks"]), (&json!("0"), &json!("1-3")));
    assert_eq!((&procs["active"], &procs["waiting"]), (&json!(1), &json!(3)));
    for _ in 0..4 {
        m.advance(50.0);
        m.end_process("pro", code(0));
    }
    after_alloc(&m, id, "prolog-start prolog-finish start");
}

#[test]
fn a_query_shows_a_job_whose_script_waits() {
    let mut m = manager_on(2, conf(json!({"command": ["pro"], "timeout": "60s"}), Value::Null));
    m.limit_processes(1);
    let [first, second] = [(); 2].map(|()| m.submit(TestJob::new()).unwrap());
    m.advance(50.0);
    assert_eq!(told(&mut m, first)["state"], "running");
    let procs = told(&mut m, second);
    assert_eq!((&procs["state"], &procs["remaining_time"]), (&json!("waiting"), &Value::Null));
    m.end_process("pro", code(0));
    let procs = told(&mut m, second);
    assert_eq!((&procs["state"], &procs["remaining_time"]), (&json!("running"), &json!(60.0)));
}

#[test]
fn a_node_whose_script_never_began_is_not_drained() {
    let prolog = json!({"command": ["pro"], "per-rank": true, "timeout": "60s"});
    let (mut m, id) = one_by_one(conf(prolog, Value::Null));
    m.end_process("pro", code(0));
    m.advance(61.0);
    m.end_process("pro", WaitStatus::from_signal(15));
    m.assert_exception(id, "prolog", "prolog timed out on testhost1 (rank 1)");
    assert_eq!(m.started_processes().len(), 2);
    let nodes: Vec<_> = drained(&m).as_object().unwrap().keys().cloned().collect();
    assert_eq!(nodes, ["1"]);
}

#[test]
fn an_epilog_cleans_every_node_though_one_is_late() {
    let epilog = json!({"command": ["epi"], "per-rank": true, "timeout": "60s"});
    let (mut m, id) = one_by_one(conf(Value::Null, epilog));
    m.finish(id, 0);
    m.advance(61.0);
    m.end_process("epi", WaitStatus::from_signal(15));
    for _ in 0..3 {
        m.end_process("epi", code(0));
    }
    m.assert_exception(id, "epilog", "epilog timed out on testhost0 (rank 0)");
    m.assert_state(id, State::Inactive);
}
