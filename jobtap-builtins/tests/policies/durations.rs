//! `.update-duration` and `.validate-duration`: which users may change a duration, and up to which limit.

use jobtap_builtins::{LimitDuration, PriorityDefault, UpdateDuration, ValidateDuration};
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager, TestManagerBuilder};
use serde_json::{Value, json};

const KEY: &str = "attributes.system.duration";
const HOUR: f64 = 3600.0;

fn builder() -> TestManagerBuilder {
    TestManager::new()
        .plugin::<PriorityDefault>()
        .plugin::<LimitDuration>()
        .plugin::<ValidateDuration>()
        .plugin::<UpdateDuration>()
}

fn limited() -> TestManagerBuilder {
    builder().config(json!({"policy": {"limits": {"duration": "1h"}}}))
}

fn job(user: u32) -> TestJob {
    TestJob::new().user(user).duration(60.0)
}

fn held(m: &mut TestManager, user: u32) -> JobId {
    m.submit(job(user).urgency(0)).unwrap()
}

fn duration(m: &TestManager, id: JobId) -> f64 {
    m.job(id).jobspec().duration()
}

#[test]
fn a_guest_changes_the_duration_within_the_limit() {
    let mut m = limited().start();
    let id = held(&mut m, 7);
    m.update_as(7, id, KEY, 120.0).unwrap();
    assert_eq!(duration(&m, id), 120.0);
    let text = m.update_as(7, id, KEY, 2.0 * HOUR).unwrap_err();
    assert_eq!(text, "requested duration (2h) exceeds policy limit of 1h");
    let text = m.update_as(7, id, KEY, 0).unwrap_err();
    assert_eq!(text, "requested duration (unlimited) exceeds policy limit of 1h");
}

#[test]
fn a_guest_cannot_change_a_duration_set_by_the_owner() {
    let mut m = limited().start();
    let id = held(&mut m, 7);
    m.update(id, KEY, 2.0 * HOUR).unwrap();
    assert_eq!(duration(&m, id), 2.0 * HOUR);
    m.assert_events(id, "submit validate depend priority set-flags jobspec-update priority");
    assert_eq!(
        m.update_as(7, id, KEY, 60.0).unwrap_err(),
        "job is immutable due to previous instance owner update"
    );
    m.update(id, KEY, 3.0 * HOUR).unwrap();
}

#[test]
fn the_owner_sets_any_duration_for_their_own_job() {
    let mut m = limited().start();
    let id = held(&mut m, 1000);
    m.update(id, KEY, 2.0 * HOUR).unwrap();
    m.assert_events(id, "submit validate depend priority jobspec-update priority");
}

#[test]
fn a_malformed_duration_is_refused() {
    let mut m = builder().start();
    let id = held(&mut m, 7);
    for user in [7, 1000] {
        assert_eq!(m.update_as(user, id, KEY, -1.0).unwrap_err(), "duration must not be negative");
        for value in [json!("1h"), json!([]), Value::Null] {
            assert_eq!(m.update_as(user, id, KEY, value).unwrap_err(), "plugin args unpack failed");
        }
    }
    assert_eq!(duration(&m, id), 60.0);
}

#[test]
fn a_running_jobs_end_moves_with_its_duration() {
    let mut m = builder().start();
    let start = m.now().as_secs();
    let longer = m.submit(job(7)).unwrap();
    let shorter = m.submit(job(7)).unwrap();
    let for_ever = m.submit(job(7)).unwrap();
    m.advance(10.0);
    m.update(longer, KEY, 100.0).unwrap();
    m.update(shorter, KEY, 30.0).unwrap();
    m.update(for_ever, KEY, 0).unwrap();
    let log = m.eventlog(longer);
    let update = log.iter().find(|entry| entry.name == "resource-update").unwrap();
    let context = update.context.clone().unwrap();
    assert_eq!(context["expiration"], start + 100.0);
    m.advance(21.0);
    m.assert_exception(shorter, "timeout", "");
    m.assert_state(longer, State::Run);
    // A restarted manager has the new end, too.
    m.crash_and_restart();
    m.advance(40.0);
    m.assert_state(longer, State::Run);
    m.advance(31.0);
    m.assert_exception(longer, "timeout", "");
    m.advance(1e7);
    m.assert_state(for_ever, State::Run);
}

#[test]
fn the_end_of_a_running_job_cannot_be_in_the_past() {
    let mut m = builder().start();
    let id = m.submit(job(1000)).unwrap();
    m.advance(30.0);
    assert_eq!(
        m.update(id, KEY, 20.0).unwrap_err(),
        "requested duration places job expiration in the past"
    );
}

#[test]
fn a_guest_cannot_change_a_running_job() {
    let mut m = builder().start();
    let id = m.submit(job(7)).unwrap();
    m.assert_state(id, State::Run);
    let text = "duration update of running job requires instance owner privileges";
    assert_eq!(m.update_as(7, id, KEY, 30.0).unwrap_err(), text);
}

#[test]
fn a_site_can_apply_the_limits_to_its_owner() {
    let mut m = limited().start();
    m.reload_plugin(".update-duration", json!({"owner-allow-any": 0})).unwrap();
    let running = m.submit(job(1000)).unwrap();
    let text = "duration update of running job requires instance owner privileges";
    assert_eq!(m.update(running, KEY, 30.0).unwrap_err(), text);
    let id = held(&mut m, 7);
    let text = "requested duration (2h) exceeds policy limit of 1h";
    assert_eq!(m.update(id, KEY, 2.0 * HOUR).unwrap_err(), text);
    m.update(id, KEY, 120.0).unwrap();
    // The owner stayed within the limits, so the guest can still change the duration.
    m.update_as(7, id, KEY, 60.0).unwrap();
    let error =
        m.reload_plugin(".update-duration", json!({"owner-allow-all": 0})).unwrap_err().text();
    assert!(error.contains("owner-allow-any"), "{error}");
}

#[test]
fn a_reload_without_a_setting_keeps_the_last_one() {
    let text = "duration update of running job requires instance owner privileges";
    let mut m = builder().start();
    let id = m.submit(job(1000)).unwrap();
    let again = |m: &mut TestManager, conf: Value| {
        m.remove_plugin(".update-duration").unwrap();
        m.load_plugin(".update-duration", conf).unwrap();
    };
    again(&mut m, json!({"owner-allow-any": 0}));
    again(&mut m, json!({}));
    assert_eq!(m.update(id, KEY, 90.0).unwrap_err(), text);
    m.reload_plugin(".update-duration", json!({})).unwrap();
    assert_eq!(m.update(id, KEY, 90.0).unwrap_err(), text);
    again(&mut m, json!({"owner-allow-any": 1}));
    again(&mut m, json!({}));
    m.update(id, KEY, 90.0).unwrap();
    // A restart uses the configuration.
    again(&mut m, json!({"owner-allow-any": 0}));
    m.crash_and_restart();
    m.update(id, KEY, 100.0).unwrap();
}

#[test]
fn without_the_plugin_no_duration_can_be_changed() {
    let mut m = builder().start();
    let id = held(&mut m, 7);
    m.remove_plugin(".update-duration").unwrap();
    let text = "update of attributes.system.duration not supported";
    assert_eq!(m.update_as(7, id, KEY, 30.0).unwrap_err(), text);
    m.load_plugin(".update-duration", json!({})).unwrap();
    m.update_as(7, id, KEY, 30.0).unwrap();
}

#[test]
fn no_job_outlives_the_instance() {
    let mut m = builder().lifetime(2.0 * HOUR).start();
    m.submit(TestJob::new().duration(2.0 * HOUR)).unwrap();
    assert_eq!(
        m.submit(TestJob::new().duration(3.0 * HOUR)).unwrap_err(),
        "job duration (3h) exceeds remaining instance lifetime (2h)"
    );
    m.submit(TestJob::new()).unwrap();
    m.advance(HOUR);
    let text = m.submit(TestJob::new().duration(2.0 * HOUR)).unwrap_err();
    assert_eq!(text, "job duration (2h) exceeds remaining instance lifetime (1h)");
    m.submit(TestJob::new().duration(60.0)).unwrap();
    m.remove_plugin(".validate-duration").unwrap();
    m.submit(TestJob::new().duration(10.0 * HOUR)).unwrap();
}

/// Returns the end times of the instance that the log mentions.
fn ends_logged(m: &TestManager) -> Vec<String> {
    let log = m.log().filter(|(level, _)| *level == Level::Debug);
    let told = log.filter_map(|(_, text)| text.split_once("duration-validator: "));
    told.map(|(_, text)| text.to_owned()).collect()
}

#[test]
fn a_new_end_of_the_instance_is_logged_once() {
    let mut m = builder().start();
    m.submit(TestJob::new()).unwrap();
    assert!(ends_logged(&m).is_empty());
    let start = m.now().as_secs();
    let end_at = |m: &mut TestManager, end: f64| {
        let mut resources = ResourceSet::single_host("testhost", "0-3".parse().unwrap()).unwrap();
        resources.set_expiration(end).unwrap();
        m.define_resources(resources).unwrap();
    };
    end_at(&mut m, start + HOUR);
    let text = m.submit(TestJob::new().duration(2.0 * HOUR)).unwrap_err();
    assert_eq!(text, "job duration (2h) exceeds remaining instance lifetime (1h)");
    m.submit(TestJob::new()).unwrap();
    end_at(&mut m, 0.0);
    m.submit(TestJob::new().duration(2.0 * HOUR)).unwrap();
    let first = format!("updated expiration to {:.2}", start + HOUR);
    assert_eq!(ends_logged(&m), [first, "updated expiration to 0.00".to_owned()]);

    let m = builder().lifetime(HOUR).start();
    let end = m.now().as_secs() + HOUR;
    assert_eq!(ends_logged(&m), [format!("updated expiration to {end:.2}")]);
}

#[test]
fn an_instance_without_an_end_takes_any_duration() {
    let mut m = builder().start();
    m.submit(TestJob::new().duration(1e9)).unwrap();
}

#[test]
fn an_update_is_checked_against_the_instances_end_too() {
    let mut m = builder().lifetime(HOUR).start();
    let id = held(&mut m, 7);
    let text = m.update_as(7, id, KEY, 2.0 * HOUR).unwrap_err();
    assert_eq!(text, "job duration (2h) exceeds remaining instance lifetime (1h)");
}
