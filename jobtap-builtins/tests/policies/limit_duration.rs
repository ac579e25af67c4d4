//! `.limit-duration`: limits of queues override the general one, and refusals name the limit.

use jobtap_builtins::{LimitDuration, PriorityDefault, UpdateDuration};
use jobtap_core::prelude::*;
use jobtap_core::testing::{ManagerStartError, Refused, TestJob, TestManager};
use serde_json::{Value, json};

fn start(config: Value) -> Result<TestManager, ManagerStartError> {
    let m = TestManager::new().plugin::<PriorityDefault>().plugin::<LimitDuration>();
    m.plugin::<UpdateDuration>().config(config).try_start()
}

/// A general limit of 1h, and queues with a lower, a higher, no, an unset and an inherited limit.
fn queues() -> Value {
    let limit = |duration: &str| json!({"policy": {"limits": {"duration": duration}}});
    json!({
        "policy": {"limits": {"duration": "1h"}},
        "queues": {
            "short": limit("10m"), "long": limit("2h"), "free": limit("0"), "plain": {},
            "child": {"parent": "short"},
            "night": {"parent": "short", "policy": {"limits": {"duration": "12h"}}},
        }
    })
}

fn ask(m: &mut TestManager, queue: &str, seconds: f64) -> Result<JobId, Refused> {
    m.submit(TestJob::new().duration(seconds).attribute("queue", queue))
}

#[test]
fn without_limits_everything_is_accepted() {
    let mut m = start(json!({})).unwrap();
    m.submit(TestJob::new()).unwrap();
    m.submit(TestJob::new().duration(1e9)).unwrap();
}

#[test]
fn a_job_may_request_the_limit_and_no_more() {
    let mut m = start(json!({"policy": {"limits": {"duration": "1m"}}})).unwrap();
    m.submit(TestJob::new().duration(30.0)).unwrap();
    m.submit(TestJob::new().duration(60.0)).unwrap();
    assert_eq!(
        m.submit(TestJob::new().duration(3600.0)).unwrap_err(),
        "requested duration (1h) exceeds policy limit of 1m"
    );
}

#[test]
fn an_unlimited_duration_exceeds_any_limit() {
    let mut m = start(queues()).unwrap();
    for job in [TestJob::new(), TestJob::new().duration(0.0)] {
        let text = m.submit(job.attribute("queue", "plain")).unwrap_err();
        let limit = "requested duration (unlimited) exceeds policy limit of 1h for queue plain";
        assert_eq!(text, limit);
    }
}

#[test]
fn a_queues_limit_overrides_the_general_one() {
    let hour = 3600.0;
    // The queue, the longest duration that it accepts (`None` is unlimited), and how messages write it.
    let table = [
        ("short", Some((600.0, "10m"))),
        ("long", Some((2.0 * hour, "2h"))),
        ("free", None),
        ("plain", Some((hour, "1h"))),
        ("child", Some((600.0, "10m"))),
        ("night", Some((12.0 * hour, "12h"))),
    ];
    let mut m = start(queues()).unwrap();
    for (queue, limit) in table {
        let Some((most, written)) = limit else {
            ask(&mut m, queue, 1e9).unwrap();
            ask(&mut m, queue, 0.0).unwrap();
            continue;
        };
        ask(&mut m, queue, most).unwrap();
        let text = ask(&mut m, queue, 86400.0).unwrap_err();
        let expected =
            format!("requested duration (1d) exceeds policy limit of {written} for queue {queue}");
        assert_eq!(text, expected);
    }
}

#[test]
fn messages_show_durations_with_two_digits() {
    let mut m = start(queues()).unwrap();
    let text = ask(&mut m, "plain", 3660.0).unwrap_err();
    assert_eq!(text, "requested duration (1h) exceeds policy limit of 1h for queue plain");
    let text = ask(&mut m, "short", 660.0).unwrap_err();
    assert_eq!(text, "requested duration (11m) exceeds policy limit of 10m for queue short");
}

#[test]
fn a_malformed_limit_is_refused_with_its_place() {
    let refused =
        |limit: Value| start(json!({"policy": {"limits": {"duration": limit}}})).err().unwrap();
    let malformed = "error parsing [policy.limits] config table: 'duration' is not a valid FSD";
    for limit in [json!("xyz123"), json!("-1"), json!("1w"), json!([])] {
        assert_eq!(refused(limit), malformed);
    }
    // An empty duration means no limit, as in Flux.
    assert!(start(json!({"policy": {"limits": {"duration": ""}}})).is_ok());
    let queue = |table: Value| start(json!({"queues": {"q": table}})).err().unwrap();
    for (table, place, text) in [
        (
            json!({"policy": {"limits": {"duration": "x"}}}),
            "queues.q.policy.limits",
            "'duration' is not a valid FSD",
        ),
        (json!({"parent": 5}), "queues.q", "'parent' must be a string"),
        (json!({"parent": "p"}), "queues.q", "parent queue 'p' is not configured"),
    ] {
        assert_eq!(queue(table), format!("error parsing [{place}] config table: {text}"));
    }
}

#[test]
fn a_reload_that_is_refused_leaves_the_old_limit() {
    let mut m = start(queues()).unwrap();
    m.configure(json!({"policy": {"limits": {"duration": "xyz"}}})).unwrap_err();
    assert!(ask(&mut m, "plain", 7200.0).is_err());
}

#[test]
fn a_new_limit_does_not_affect_accepted_jobs() {
    let mut m = start(json!({})).unwrap();
    let id = m.submit(TestJob::new().duration(7200.0).urgency(0)).unwrap();
    m.configure(json!({"policy": {"limits": {"duration": "1h"}}})).unwrap();
    assert!(m.submit(TestJob::new().duration(7200.0)).is_err());
    m.urgency(id, 16).unwrap();
    m.assert_state(id, State::Run);
}

#[test]
fn reads_the_configuration_again_when_it_is_loaded() {
    let mut m = start(queues()).unwrap();
    m.remove_plugin(".limit-duration").unwrap();
    ask(&mut m, "plain", 7200.0).unwrap();
    m.load_plugin(".limit-duration", json!({})).unwrap();
    assert!(ask(&mut m, "plain", 7200.0).is_err());
}

#[test]
fn an_update_is_limited_as_a_submission_is() {
    let mut m = start(json!({"policy": {"limits": {"duration": "1h"}}})).unwrap();
    let id = m.submit(TestJob::new().duration(60.0).urgency(0).user(7)).unwrap();
    let key = "attributes.system.duration";
    m.update_as(7, id, key, 120.0).unwrap();
    assert_eq!(
        m.update_as(7, id, key, 7200.0).unwrap_err(),
        "requested duration (2h) exceeds policy limit of 1h"
    );
    assert_eq!(m.job(id).jobspec().duration(), 120.0);
}
