//! `.post-event`: only the owner can post events, to active jobs, and none of the manager's own.

use jobtap_builtins::{PostEvent, PriorityDefault};
use jobtap_core::engine::Request;
use jobtap_core::job::JobId;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::{Value, json};

fn manager() -> TestManager {
    TestManager::new().plugin::<PriorityDefault>().plugin::<PostEvent>().start()
}

/// Returns the errno of the response.
fn errno(m: &mut TestManager, user: u32, payload: Value) -> Option<i32> {
    let topic = "job-manager.post-event.post".to_owned();
    let request = Request::Service { topic, payload, streaming: false };
    let stream = m.open_request(user, request);
    m.answered(stream).unwrap().err().map(|error| error.errno)
}

#[test]
fn the_event_is_in_the_eventlog_with_its_context() {
    let mut m = manager();
    let id = m.submit(TestJob::new().urgency(0)).unwrap();
    m.call_service("post-event.post", json!({"id": id, "name": "hello"})).unwrap();
    let context = json!({"who": "world", "deep": {"n": 5}});
    let post = json!({"id": id, "name": "my.event", "context": context});
    m.call_service("post-event.post", post).unwrap();
    m.assert_events(id, "submit validate depend priority hello my.event");
    let log = m.eventlog(id);
    assert_eq!(log[4].context, None);
    assert_eq!(log[5].context.clone().map(Value::from), Some(context));
    m.crash_and_restart();
    m.assert_events(id, "submit validate depend priority hello my.event flux-restart priority");
}

#[test]
fn unknown_and_inactive_jobs_are_refused() {
    let mut m = manager();
    let post = |id: JobId| json!({"id": id, "name": "hello"});
    assert_eq!(errno(&mut m, 1000, post(JobId::new(999))), Some(2));
    let id = m.submit(TestJob::new()).unwrap();
    m.cancel(id).unwrap();
    assert_eq!(errno(&mut m, 1000, post(id)), Some(2));
}

#[test]
fn only_the_owner_can_post_events() {
    let mut m = manager();
    let id = m.submit(TestJob::new().user(7)).unwrap();
    assert_eq!(errno(&mut m, 7, json!({"id": id, "name": "hello"})), Some(1));
}

#[test]
fn a_bad_request_is_a_protocol_error() {
    let mut m = manager();
    assert_eq!(errno(&mut m, 1000, json!({"name": "hello"})), Some(71));
    assert_eq!(errno(&mut m, 1000, json!({"id": "x", "name": "hello"})), Some(71));
}

#[test]
fn the_managers_own_events_cannot_be_forged() {
    let mut m = manager();
    let id = m.submit(TestJob::new().urgency(0)).unwrap();
    for name in ["alloc", "clean", "invalidate", "a b", ""] {
        assert_eq!(errno(&mut m, 1000, json!({"id": id, "name": name})), Some(22), "{name}");
    }
    let text = json!({"id": id, "name": "hello", "context": 5});
    assert_eq!(errno(&mut m, 1000, text), Some(22));
    m.assert_events(id, "submit validate depend priority");
}
