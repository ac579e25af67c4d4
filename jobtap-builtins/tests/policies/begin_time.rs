//! `.begin-time` releases jobs at the time that they name, and refuses malformed times.

use jobtap_builtins::{BeginTime, PriorityDefault};
use jobtap_core::engine::{Request, Submission};
use jobtap_core::job::Flags;
use jobtap_core::prelude::{JobId, Jobspec, State};
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::json;

fn manager() -> TestManager {
    TestManager::new().plugin::<PriorityDefault>().plugin::<BeginTime>().start()
}

fn in_seconds(m: &mut TestManager, seconds: f64) -> JobId {
    let at = m.now().as_secs() + seconds;
    m.submit(TestJob::new().dependency(&format!("begin-time:{at}"))).unwrap()
}

const RELEASED: &str =
    "submit dependency-add validate dependency-remove depend priority alloc start";

#[test]
fn a_job_is_released_at_its_time() {
    let mut m = manager();
    let id = in_seconds(&mut m, 60.0);
    let description = m.eventlog(id)[1].context.clone().unwrap();
    assert_eq!(description["description"], format!("begin-time={:.3}", m.now().as_secs() + 60.0));
    m.advance(59.0);
    m.assert_state(id, State::Depend);
    m.advance(1.0);
    m.assert_events(id, RELEASED);
}

#[test]
fn a_time_in_the_past_is_due_at_once() {
    let mut m = manager();
    let id = m.submit(TestJob::new().dependency("begin-time:1")).unwrap();
    m.assert_events(id, RELEASED);
}

#[test]
fn a_malformed_time_is_refused() {
    let mut m = manager();
    for value in ["-1", "nan", "inf", "-inf", "1 hour", "1.5x", "soon", " 1"] {
        let text = m.submit(TestJob::new().dependency(&format!("begin-time:{value}")));
        assert_eq!(text.unwrap_err(), format!("Invalid begin-time={value}"));
    }
}

#[test]
fn a_time_must_be_given() {
    let mut m = manager();
    let text = "error processing begin-time: no time is given";
    assert_eq!(m.submit(TestJob::new().dependency("begin-time:")).unwrap_err(), text);
    let bare = json!([{"scheme": "begin-time"}]);
    let job = TestJob::new().attribute("dependencies", bare.clone());
    assert_eq!(m.submit(job).unwrap_err(), "Missing key (value)");
    // The owner can skip that check.
    let slot = json!({"type": "slot", "count": 1, "label": "task",
                      "with": [{"type": "core", "count": 1}]});
    let jobspec = json!({"version": 1, "resources": [slot], "tasks": [],
                         "attributes": {"system": {"dependencies": bare}}});
    let request = Request::Submit(Box::new(Submission {
        jobspec: Jobspec::unvalidated(jobspec),
        signed: String::new(),
        urgency: 16,
        flags: Flags::NOVALIDATE.bits(),
        elements: None,
    }));
    let stream = m.open_request(TestJob::OWNER.0, request);
    assert_eq!(m.answered(stream).unwrap().map_err(|error| error.text), Err(text.to_owned()));
}

#[test]
fn a_waiting_job_can_be_cancelled() {
    let mut m = manager();
    let id = in_seconds(&mut m, 60.0);
    m.cancel(id).unwrap();
    m.advance(100.0);
    m.assert_events(id, "submit dependency-add validate exception clean");
}

#[test]
fn all_times_of_a_job_must_have_come() {
    let mut m = manager();
    let at = |m: &TestManager, seconds: f64| format!("begin-time:{}", m.now().as_secs() + seconds);
    let job = TestJob::new().dependency(&at(&m, 10.0)).dependency(&at(&m, 20.0));
    let id = m.submit(job).unwrap();
    m.advance(15.0);
    m.assert_state(id, State::Depend);
    m.advance(5.0);
    m.assert_state(id, State::Run);
}

#[test]
fn a_crash_changes_nothing() {
    let mut m = manager();
    let early = in_seconds(&mut m, 10.0);
    let late = in_seconds(&mut m, 60.0);
    m.crash_and_restart();
    m.assert_events(late, "submit dependency-add validate");
    m.advance(10.0);
    m.assert_state(early, State::Run);
    m.crash_and_restart();
    m.assert_state(late, State::Depend);
    m.advance(50.0);
    m.assert_events(late, RELEASED);
}

#[test]
fn timers_end_with_the_plugin_and_return_with_it() {
    let mut m = manager();
    let id = in_seconds(&mut m, 10.0);
    m.remove_plugin(".begin-time").unwrap();
    m.advance(20.0);
    m.assert_state(id, State::Depend);
    assert!(m.why(id)[0].contains("no loaded plugin looks after that"), "{:?}", m.why(id));
    assert_eq!(
        m.submit(TestJob::new().dependency("begin-time:1")).unwrap_err(),
        "dependency scheme \"begin-time\" not supported"
    );
    m.load_plugin(".begin-time", json!({})).unwrap();
    m.assert_state(id, State::Run);
}
