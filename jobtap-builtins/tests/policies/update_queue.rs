//! `.update-queue` with the limits of queues, with a new configuration, and when it isn't loaded. The unit
//! tests beside the code cover its refusals.

use jobtap_builtins::{LimitDuration, PriorityDefault, UpdateDuration, UpdateQueue};
use jobtap_core::engine::Request;
use jobtap_core::prelude::*;
use jobtap_core::testing::{Refused, TestJob, TestManager};
use serde_json::{Value, json};

const QUEUE: &str = "attributes.system.queue";
const DURATION: &str = "attributes.system.duration";

fn config(requires: Value) -> Value {
    let limit = |duration: &str| json!({"limits": {"duration": duration}});
    json!({"queues": {
        "short": {"policy": limit("10m")},
        "long": {"requires": requires, "policy": limit("2h")},
    }})
}

fn manager() -> TestManager {
    let builder = TestManager::new().plugin::<PriorityDefault>().plugin::<LimitDuration>();
    let builder = builder.plugin::<UpdateDuration>().plugin::<UpdateQueue>();
    builder.config(config(json!([]))).start()
}

fn update(m: &mut TestManager, id: JobId, updates: Value) -> Result<(), Refused> {
    let updates = updates.as_object().cloned().unwrap();
    let request = m.open_request(7, Request::Update { id, updates });
    m.answered(request).unwrap().map(drop).map_err(Refused::from)
}

#[test]
fn queue_and_duration_can_be_changed_together() {
    let mut m = manager();
    let id = m.submit(TestJob::new().user(7).queue("long").duration(7200.0)).unwrap();
    assert_eq!(
        update(&mut m, id, json!({QUEUE: "short"})).unwrap_err(),
        "requested duration (2h) exceeds policy limit of 10m for queue short"
    );
    assert_eq!(m.job(id).jobspec().queue(), Some("long"));
    update(&mut m, id, json!({QUEUE: "short", DURATION: 600.0})).unwrap();
    assert_eq!(
        (m.job(id).jobspec().queue(), m.job(id).jobspec().duration()),
        (Some("short"), 600.0)
    );
    let both = json!({QUEUE: "long", DURATION: 7200.0});
    assert!(update(&mut m, id, json!({DURATION: 7200.0})).is_err());
    update(&mut m, id, both).unwrap();
}

#[test]
fn a_new_constraint_of_a_queue_applies_at_once() {
    let mut m = manager();
    let id = m.submit(TestJob::new().user(7).queue("short").duration(60.0)).unwrap();
    m.configure(config(json!(["^gpu"]))).unwrap();
    update(&mut m, id, json!({QUEUE: "long"})).unwrap();
    let constraints = m.job(id).jobspec().constraints().cloned();
    assert_eq!(constraints, Some(json!({"properties": ["^gpu"]})));
}

#[test]
fn without_the_plugin_no_queue_can_be_changed() {
    let mut m = manager();
    let id = m.submit(TestJob::new().user(7).queue("short").duration(60.0)).unwrap();
    m.remove_plugin(".update-queue").unwrap();
    let text = "update of attributes.system.queue not supported";
    assert_eq!(update(&mut m, id, json!({QUEUE: "long"})).unwrap_err(), text);
    m.load_plugin(".update-queue", json!({})).unwrap();
    update(&mut m, id, json!({QUEUE: "long"})).unwrap();
}

#[test]
fn a_job_of_a_removed_queue_cannot_be_moved() {
    let mut m = manager();
    let id = m.submit(TestJob::new().user(7).queue("long").duration(60.0)).unwrap();
    m.configure(json!({"queues": {"short": {}}})).unwrap();
    let text = update(&mut m, id, json!({QUEUE: "short"})).unwrap_err();
    assert_eq!(text, "'long' is not a valid queue");
    // A job without a queue can't be moved either when queues were configured later.
    let builder = TestManager::new().plugin::<PriorityDefault>().plugin::<UpdateQueue>();
    let mut m = builder.start();
    let id = m.submit(TestJob::new().user(7).urgency(0)).unwrap();
    m.configure(json!({"queues": {"short": {}}})).unwrap();
    let text = update(&mut m, id, json!({QUEUE: "short"})).unwrap_err();
    assert_eq!(text, "a named queue is required");
}
