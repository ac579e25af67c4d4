//! What flux-coral2's script t1001 asks of the plugin, in virtual time.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use cray_pmi_bootstrap::CrayPmiBootstrap;
use jobtap_builtins::PriorityDefault;
use jobtap_core::prelude::*;
use jobtap_core::testing::{ManagerStartError, TestJob, TestManager};
use serde_json::{Value, json};

fn start(settings: Value) -> Result<TestManager, ManagerStartError> {
    let config = json!({
        "job-manager": {"plugins": [{"load": "cray-pmi-bootstrap"}]},
        "plugins": {"cray-pmi-bootstrap": settings},
    });
    let builder = TestManager::new().plugin::<PriorityDefault>().plugin::<CrayPmiBootstrap>();
    builder.hosts(4).cores(2).config(config).try_start()
}

fn two_nodes() -> TestJob {
    TestJob::new().nodes(2).ntasks(2)
}

fn ports(m: &TestManager, id: JobId) -> Option<Vec<u64>> {
    let entry = m.eventlog(id).into_iter().find(|entry| entry.name == "cray-pmi-bootstrap")?;
    let context = entry.context.unwrap();
    assert!(context.get("random_integer").is_some_and(Value::is_i64));
    Some(context.get("ports")?.as_array()?.iter().filter_map(Value::as_u64).collect())
}

#[test]
fn ports_that_make_no_sense_are_refused() {
    for (settings, text) in [
        (json!({"port-min": 0, "port-max": 12000}), "invalid port min/max"),
        (json!({"port-min": 11000, "port-max": 120_000}), "invalid port min/max"),
        (json!({"port-min": 11000, "port-max": 11049}), "Not enough ports specified: 49"),
        (json!({"port-min": 12000, "port-max": 11000}), "Not enough ports specified: 0"),
    ] {
        let refused = start(settings.clone()).map(drop).unwrap_err().to_string();
        assert!(refused.contains(text), "{settings}: {refused}");
    }
    assert!(start(json!({"port-min": 11000})).is_ok(), "one alone counts as none");
}

#[test]
fn jobs_on_several_nodes_get_two_ports_and_give_them_back() {
    let mut m = start(json!({})).unwrap();
    let first = m.submit(two_nodes()).unwrap();
    assert_eq!(ports(&m, first).unwrap(), [11999, 11998]);
    let alone = m.submit(TestJob::new()).unwrap();
    assert_eq!(ports(&m, alone), None);
    let second = m.submit(two_nodes()).unwrap();
    assert_eq!(ports(&m, second).unwrap(), [11997, 11996]);
    m.finish(second, 0);
    m.finish(first, 0);
    let third = m.submit(two_nodes()).unwrap();
    assert_eq!(ports(&m, third).unwrap(), [11998, 11999], "those of the first");
}

#[test]
fn no_port_is_given_twice_over_a_restart() {
    let mut m = start(json!({})).unwrap();
    let first = m.submit(two_nodes()).unwrap();
    m.crash_and_restart();
    let second = m.submit(two_nodes()).unwrap();
    assert_eq!(ports(&m, second).unwrap(), [11997, 11996]);
    m.finish(first, 0);
    let third = m.submit(two_nodes()).unwrap();
    assert_eq!(ports(&m, third).unwrap(), [11998, 11999]);
}

#[test]
fn ports_outside_a_new_range_do_not_come_back() {
    let mut m = start(json!({})).unwrap();
    let first = m.submit(two_nodes()).unwrap();
    m.reload_plugin("cray-pmi-bootstrap", json!({"port-min": 20000, "port-max": 20100})).unwrap();
    m.finish(first, 0);
    let second = m.submit(two_nodes()).unwrap();
    assert_eq!(ports(&m, second).unwrap(), [20099, 20098]);
}
