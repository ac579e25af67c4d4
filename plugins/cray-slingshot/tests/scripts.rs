//! What flux-coral2's script t3000 asks of the plugin, in virtual time.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use cray_slingshot::CraySlingshot;
use jobtap_builtins::PriorityDefault;
use jobtap_core::job::Encoding;
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::{Value, json};

fn config(table: Value) -> Value {
    json!({
        "job-manager": {"plugins": [{"load": "cray-slingshot"}]},
        "cray-slingshot": table,
    })
}

fn start(table: Value) -> TestManager {
    let builder = TestManager::new().plugin::<PriorityDefault>().plugin::<CraySlingshot>();
    builder.hosts(8).cores(2).config(config(table)).start()
}

fn asking(option: Value) -> TestJob {
    TestJob::new().attribute("shell", json!({"options": {"cray-slingshot": option}}))
}

/// The event's ids, and the reason if there are none.
fn event(m: &TestManager, id: JobId) -> (Value, Value) {
    let entry = m.eventlog(id).into_iter().find(|entry| entry.name == "cray-slingshot").unwrap();
    let context = entry.context.unwrap();
    let get = |key: &str| context.get(key).cloned().unwrap_or_default();
    (get("vnis"), get("empty-reason"))
}

fn submitted(m: &mut TestManager, job: TestJob) -> (JobId, (Value, Value)) {
    let id = m.submit(job).unwrap();
    let event = event(m, id);
    (id, event)
}

/// An id, as the query writes it in this process's locale.
fn shown(id: JobId) -> String {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].map(|name| std::env::var(name).unwrap_or_default());
    let locale = locale.into_iter().find(|value| !value.is_empty()).unwrap_or_default();
    let is_utf8 = locale.to_lowercase().replace('-', "").ends_with("utf8");
    id.encode(if is_utf8 { Encoding::F58 } else { Encoding::F58Plain })
}

fn pool(m: &mut TestManager) -> Value {
    m.query_plugin("cray-slingshot").unwrap()["vnipool"].clone()
}

#[test]
fn ids_are_given_in_turn_and_come_back() {
    let mut m = start(json!({}));
    let all = json!({"universe": "1024-65535", "free": "1024-65535", "jobs": {}});
    assert_eq!(pool(&mut m), all);
    let (first, event) = submitted(&mut m, TestJob::new());
    assert_eq!(event, (json!([1024]), Value::Null));
    m.finish(first, 0);
    let (second, event) = submitted(&mut m, TestJob::new());
    assert_eq!(event.0, json!([1025]));
    let held = pool(&mut m);
    assert_eq!(
        (&held["free"], &held["jobs"]),
        (&json!("1024,1026-65535"), &json!({shown(second): [1025]}))
    );
    m.finish(second, 0);
    assert_eq!(pool(&mut m), all);
    let (_, event) = submitted(&mut m, asking(json!({"vnicount": 4})));
    assert_eq!(event.0, json!([1026, 1027, 1028, 1029]));
    m.configure(config(json!({}))).unwrap();
    assert_eq!(submitted(&mut m, TestJob::new()).1.0, json!([1030]), "nothing has changed");
}

#[test]
fn jobs_say_how_many_they_want() {
    let mut m =
        start(json!({"vni-pool": "1024-1025", "vnis-per-job": 0, "vni-reserve-fatal": false}));
    let none = json!([]);
    let mut asked = |option: Value| submitted(&mut m, asking(option)).1;
    assert_eq!(asked(json!("off")), (none.clone(), json!("disabled by user request")));
    assert_eq!(asked(json!({"vnicount": 0})), (none.clone(), json!("none requested")));
    assert_eq!(asked(json!({"other": 1})), (none.clone(), json!("none requested")));
    let few = json!("failed to reserve 3 VNIs (2 available)");
    assert_eq!(asked(json!({"vnicount": 3})), (none.clone(), few));
    assert_eq!(asked(json!({"vnicount": 5})), (none, json!("VNI count must be within 1-4")));
    let error = "error parsing cray-slingshot shell options: ";
    for (option, text) in [
        (json!({"vnicount": "bad"}), "Expected integer, got string"),
        (json!(42), "Expected object, got integer"),
    ] {
        let id = m.submit(asking(option)).unwrap();
        m.assert_exception(id, "cray-slingshot", &format!("{error}{text}"));
    }
}

#[test]
fn a_job_without_free_ids_fails_by_default() {
    let mut m = start(json!({"vni-pool": "1024-1025"}));
    submitted(&mut m, asking(json!({"vnicount": 2})));
    let id = m.submit(asking(json!({"vnicount": 4}))).unwrap();
    m.assert_exception(id, "cray-slingshot", "failed to reserve 4 VNIs (0 available)");
}

#[test]
fn another_pool_leaves_jobs_their_ids() {
    let mut m = start(json!({}));
    let (id, event) = submitted(&mut m, asking(json!({"vnicount": 2})));
    assert_eq!(event.0, json!([1024, 1025]));
    m.configure(config(json!({"vni-pool": "1025-1026"}))).unwrap();
    let now = json!({"universe": "1025-1026", "free": "1026", "jobs": {shown(id): [1024, 1025]}});
    assert_eq!(pool(&mut m), now);
    m.crash_and_restart();
    assert_eq!(pool(&mut m), now, "they are stored with the job");
    m.finish(id, 0);
    assert_eq!(pool(&mut m), json!({"universe": "1025-1026", "free": "1025-1026", "jobs": {}}));
    for (table, text) in [
        (
            json!({"vni-pool": "1-5"}),
            "1-5 contains invalid VNIs, must be a subset of 0,2-9,11-65535",
        ),
        (json!({"vni-pool": "x"}), "decode error: "),
        (json!({"vnis-per-job": 5}), "cray-slingshot.vnis-per-job value out of range (0-4)"),
        (json!({"vnis-per-job": "x"}), "error unpacking conf.update arguments: "),
    ] {
        let refused = m.configure(config(table)).unwrap_err().text();
        assert!(refused.contains(text), "{refused}");
    }
}
