//! `.dependency-after` while jobs are canceled or purged, the plugin is reloaded and the manager restarted.
//! The unit tests beside the code cover its schemes.

use jobtap_builtins::{DependencyAfter, PriorityDefault};
use jobtap_core::job::Encoding;
use jobtap_core::prelude::*;
use jobtap_core::testing::{Refused, TestJob, TestManager};
use serde_json::{Value, json};

const PLUGIN: &str = ".dependency-after";
const RELEASED: &str =
    "submit dependency-add validate dependency-remove depend priority alloc start";
const AT_ONCE: &str =
    "submit dependency-add dependency-remove validate depend priority alloc start";

fn manager() -> TestManager {
    TestManager::new().plugin::<PriorityDefault>().plugin::<DependencyAfter>().start()
}

fn ask(
    m: &mut TestManager,
    scheme: &str,
    target: impl std::fmt::Display,
) -> Result<JobId, Refused> {
    m.submit(TestJob::new().dependency(&format!("{scheme}:{target}")))
}

fn after(m: &mut TestManager, scheme: &str, target: JobId) -> JobId {
    ask(m, scheme, target).unwrap()
}

fn entries(m: &mut TestManager) -> Value {
    m.query_plugin(PLUGIN).unwrap()["dependencies"].clone()
}

#[test]
fn a_query_shows_dependents_and_their_targets() {
    let mut m = manager();
    let target = m.submit(TestJob::new().urgency(0)).unwrap();
    assert_eq!(m.query_plugin(PLUGIN).unwrap()["path"], "builtin");
    assert_eq!(entries(&mut m), json!([]));
    let kinds = [
        ("afterstart", "after-start"),
        ("afterany", "after-finish"),
        ("afterok", "after-success"),
        ("afternotok", "after-failure"),
        ("afterexcept", "after-except"),
    ];
    let expected: Vec<Value> = kinds
        .iter()
        .map(|(scheme, kind)| {
            let waits = after(&mut m, scheme, target);
            let description = format!("{kind}={target}");
            json!({"id": target, "depid": waits, "type": kind, "description": description})
        })
        .collect();
    assert_eq!(entries(&mut m), Value::from(expected.clone()));
    m.crash_and_restart();
    assert_eq!(entries(&mut m), Value::from(expected));
    m.cancel(target).unwrap();
    assert_eq!(entries(&mut m), json!([]));
}

#[test]
fn the_description_keeps_the_id_as_typed() {
    let mut m = manager();
    let target = m.submit(TestJob::new().urgency(0)).unwrap();
    for encoding in [Encoding::Dec, Encoding::Hex, Encoding::F58, Encoding::Kvs] {
        let typed = target.encode(encoding);
        let waits = ask(&mut m, "afterany", &typed).unwrap();
        let held: Vec<String> = m.job(waits).dependencies().map(str::to_owned).collect();
        assert_eq!(held, [format!("after-finish={typed}")]);
    }
}

#[test]
fn the_id_any_is_refused() {
    let mut m = manager();
    for value in ["", "any", &u64::MAX.to_string()] {
        let refused = ask(&mut m, "afterok", value).unwrap_err();
        assert_eq!(refused, format!("dependency: afterok: \"{value}\" is not a valid jobid"));
    }
}

#[test]
fn a_target_that_was_purged_is_not_found() {
    let mut m = manager();
    let target = m.submit(TestJob::new().run_for(1.0)).unwrap();
    m.advance(2.0);
    m.purge(target).unwrap();
    let refused = ask(&mut m, "afterok", target).unwrap_err();
    assert_eq!(refused, format!("dependency: afterok: id {target}: job not found"));
}

#[test]
fn an_inactive_target_that_never_ran_satisfies_only_afterany() {
    let mut m = manager();
    let target = m.submit(TestJob::new().urgency(0)).unwrap();
    m.cancel(target).unwrap();
    for scheme in ["afterstart", "afterok", "afternotok", "afterexcept"] {
        let refused = ask(&mut m, scheme, target).unwrap_err();
        assert_eq!(refused, format!("dependency: after: {target} never started"));
    }
    let free = after(&mut m, "afterany", target);
    m.assert_events(free, AT_ONCE);
}

#[test]
fn afterstart_of_a_running_job_is_satisfied_at_once() {
    let mut m = manager();
    let target = m.submit(TestJob::new()).unwrap();
    let waits = after(&mut m, "afterstart", target);
    m.assert_events(waits, AT_ONCE);
    // The same holds after a restart, and for an inactive job.
    m.crash_and_restart();
    let waits = after(&mut m, "afterstart", target);
    m.assert_events(waits, AT_ONCE);
    m.finish(target, 1);
    let waits = after(&mut m, "afterstart", target);
    m.assert_events(waits, AT_ONCE);
}

#[test]
fn a_cancelled_dependent_gets_no_events_from_its_target() {
    let mut m = manager();
    let target = m.submit(TestJob::new()).unwrap();
    let waits = after(&mut m, "afternotok", target);
    m.cancel(waits).unwrap();
    assert_eq!(entries(&mut m), json!([]));
    m.finish(target, 0);
    m.assert_events(waits, "submit dependency-add validate exception clean");
}

#[test]
fn a_chain_of_afterany_continues_past_a_cancelled_job() {
    let mut m = manager();
    let first = m.submit(TestJob::new()).unwrap();
    let second = after(&mut m, "afterany", first);
    let third = after(&mut m, "afterany", second);
    m.cancel(second).unwrap();
    m.assert_events(third, RELEASED);
}

#[test]
fn a_job_waits_for_all_of_its_dependencies() {
    let mut m = manager();
    let (one, other) = (m.submit(TestJob::new()).unwrap(), m.submit(TestJob::new()).unwrap());
    let job = TestJob::new().dependency(&format!("afterok:{one}"));
    let waits = m.submit(job.dependency(&format!("afterany:{other}"))).unwrap();
    m.finish(other, 1);
    m.assert_state(waits, State::Depend);
    m.crash_and_restart();
    m.assert_state(waits, State::Depend);
    m.finish(one, 0);
    m.assert_state(waits, State::Run);
}

#[test]
fn loading_it_again_considers_what_happened_meanwhile() {
    let mut m = manager();
    m.hold_execution();
    let target = m.submit(TestJob::new()).unwrap();
    let schemes = ["afterstart", "afterany", "afterok", "afternotok"];
    let waits = schemes.map(|scheme| after(&mut m, scheme, target));
    m.remove_plugin(PLUGIN).unwrap();
    assert_eq!(
        ask(&mut m, "afterok", target).unwrap_err(),
        "dependency scheme \"afterok\" not supported"
    );
    m.started(target);
    m.finish(target, 0);
    for id in waits {
        m.assert_state(id, State::Depend);
        assert!(m.why(id)[0].contains("no loaded plugin looks after that"), "{:?}", m.why(id));
    }
    m.load_plugin(PLUGIN, json!({})).unwrap();
    let [started, any, ok, not_ok] = waits;
    for id in [started, any, ok] {
        m.assert_events(
            id,
            "submit dependency-add validate dependency-remove depend priority alloc",
        );
    }
    let note = format!("dependency after-failure={target} can never be satisfied");
    m.assert_exception(not_ok, "dependency", &note);
}

/// A job that has run to its end, and one that waits until 5 minutes after the start of the first.
fn delayed() -> (TestManager, JobId, JobId) {
    let mut m = manager();
    let target = m.submit(TestJob::new().urgency(0).run_for(60.0)).unwrap();
    let waits = ask(&mut m, "afterstart", format!("{target}+5m")).unwrap();
    m.advance(1000.0);
    m.assert_state(waits, State::Depend);
    m.urgency(target, 16).unwrap();
    m.advance(299.0);
    m.assert_state(target, State::Inactive);
    m.assert_state(waits, State::Depend);
    (m, target, waits)
}

#[test]
fn a_delay_counts_from_the_start_of_the_other_job() {
    let (mut m, target, waits) = delayed();
    let description = format!("after-start={target}+5m");
    let expected =
        json!([{"id": target, "depid": waits, "type": "after-start", "description": description}]);
    assert_eq!(entries(&mut m), expected);
    m.advance(1.5);
    m.assert_events(waits, RELEASED);
    assert_eq!(entries(&mut m), json!([]));
    // One delay is already over when the job is submitted, the other is not.
    let after = |m: &mut TestManager, delay: &str| {
        ask(m, "afterstart", format!("{target}+{delay}")).unwrap()
    };
    let (over, open) = (after(&mut m, "1m"), after(&mut m, "1h"));
    m.assert_events(over, AT_ONCE);
    m.assert_state(open, State::Depend);
    m.advance(3600.0);
    m.assert_events(open, RELEASED);
}

#[test]
fn a_delay_outlives_a_restart_and_the_other_job() {
    for purged in [false, true] {
        let (mut m, target, waits) = delayed();
        if purged {
            m.purge(target).unwrap();
        }
        m.crash_and_restart();
        m.assert_state(waits, State::Depend);
        m.advance(0.5);
        m.assert_state(waits, State::Depend);
        m.advance(1.0);
        m.assert_events(waits, RELEASED);
    }
    let (mut m, _, waits) = delayed();
    m.reload_plugin(PLUGIN, json!({})).unwrap();
    m.assert_state(waits, State::Depend);
    m.advance(2.0);
    m.assert_events(waits, RELEASED);
}

#[test]
fn a_delay_after_a_purged_job_counts_at_every_submission() {
    let mut m = manager();
    let target = m.submit(TestJob::new().run_for(60.0)).unwrap();
    m.advance(100.0);
    // The target has started when the jobs are submitted; the alternative `afterok` is never satisfied.
    let held = m.submit(TestJob::new().urgency(0)).unwrap();
    let text = format!("any-of:afterstart:{target}+5m|afterok:{held}");
    let [alone, either] = [format!("afterstart:{target}+5m"), text]
        .map(|dependency| m.submit(TestJob::new().dependency(&dependency)).unwrap());
    m.purge(target).unwrap();
    for _ in 0..2 {
        m.crash_and_restart();
        m.advance(99.0);
    }
    for waits in [alone, either] {
        m.assert_state(waits, State::Depend);
    }
    m.advance(5.0);
    for waits in [alone, either] {
        m.assert_events(waits, RELEASED);
    }
}

#[test]
fn a_delayed_job_whose_target_never_starts_fails() {
    let mut m = manager();
    let target = m.submit(TestJob::new().urgency(0)).unwrap();
    let waits = ask(&mut m, "afterstart", format!("{target}+5m")).unwrap();
    m.cancel(target).unwrap();
    m.assert_events(waits, "submit dependency-add validate exception clean");
}

#[test]
fn one_of_several_conditions_is_enough() {
    let mut m = manager();
    let [first, second] = [0, 0].map(|urgency| m.submit(TestJob::new().urgency(urgency)).unwrap());
    let text = format!("any-of:afterok:{first}|afterok:{second}");
    let both = m.submit(TestJob::new().dependency(&text)).unwrap();
    // A second dependency keeps the job in DEPEND when the first is satisfied.
    let third = m.submit(TestJob::new().urgency(0)).unwrap();
    let also = format!("afterany:{third}");
    let held = m.submit(TestJob::new().dependency(&text).dependency(&also)).unwrap();
    // The first can't be satisfied any more, the second still can.
    m.cancel(first).unwrap();
    m.assert_state(both, State::Depend);
    m.crash_and_restart();
    m.assert_state(both, State::Depend);
    m.urgency(second, 16).unwrap();
    m.finish(second, 0);
    m.assert_events(both, RELEASED);
    m.assert_state(held, State::Depend);
    m.cancel(third).unwrap();
    m.assert_state(held, State::Run);
}

#[test]
fn a_satisfied_alternative_ends_the_others() {
    let mut m = manager();
    let [first, second, third] = [0; 3].map(|_| m.submit(TestJob::new().urgency(0)).unwrap());
    let text = format!("any-of:afterany:{first}|afterok:{second}|afterstart:{third}+1m");
    let blocked = format!("afterany:{}", m.submit(TestJob::new().urgency(0)).unwrap());
    let waits = m.submit(TestJob::new().dependency(&text).dependency(&blocked)).unwrap();
    m.cancel(first).unwrap();
    assert_eq!(m.job(waits).dependencies().count(), 1);
    // These would make it fail, had the dependency not been satisfied.
    m.cancel(second).unwrap();
    m.cancel(third).unwrap();
    m.assert_state(waits, State::Depend);
}

#[test]
fn a_job_fails_with_the_last_of_its_alternatives() {
    let mut m = manager();
    let [first, second] = [0, 0].map(|urgency| m.submit(TestJob::new().urgency(urgency)).unwrap());
    let value = format!("afterok:{first}|afterstart:{second}+1m");
    let waits = ask(&mut m, "any-of", &value).unwrap();
    m.cancel(first).unwrap();
    m.assert_state(waits, State::Depend);
    m.cancel(second).unwrap();
    m.assert_events(waits, "submit dependency-add validate exception clean");
    let refusal = ask(&mut m, "any-of", &value).unwrap_err();
    assert_eq!(refusal, format!("dependency: any-of: {value} can never be satisfied"));
}

#[test]
fn conditions_without_a_meaning_are_refused() {
    let mut m = manager();
    let id = m.submit(TestJob::new().urgency(0)).unwrap();
    let mut refusal = |text: String| {
        let text = text.replace("ID", &id.to_string());
        let refusal = m.submit(TestJob::new().dependency(&text)).unwrap_err().text();
        refusal.replace(&id.to_string(), "ID")
    };
    for (dependency, expected) in [
        ("afterok:ID+5m", "dependency: afterok: \"ID+5m\": only afterstart has a delay"),
        ("afterstart:ID+x", "dependency: afterstart: \"ID+x\": \"x\" is no duration"),
        ("afterstart:ID+", "dependency: afterstart: \"ID+\": \"\" is no duration"),
        (
            "afterstart:ID+infinity",
            "dependency: afterstart: \"ID+infinity\": \"infinity\" is no duration",
        ),
        ("any-of:afterok:ID|x", "dependency: any-of: \"x\" can't be one of several dependencies"),
        (
            "any-of:afterok:ID|singleton:",
            "dependency: any-of: \"singleton:\" can't be one of several dependencies",
        ),
        ("any-of:afterok:ID|afterok:9x", "dependency: afterok: \"9x\" is not a valid jobid"),
        (
            "any-of:afterok:ID,afterok:ID",
            "dependency: any-of: \"afterok:ID,afterok:ID\": a list that has both , and ? has no meaning",
        ),
    ] {
        assert_eq!(refusal(dependency.to_owned()), expected);
    }
}

/// A manager with an array of this many elements, of which two run at a time, each for a second.
fn with_array(elements: &str) -> (TestManager, JobId) {
    let mut m = manager();
    let elements = serde_json::from_value(json!({"indexes": elements, "at-once": 2})).unwrap();
    let array = m.submit(TestJob::new().run_for(1.0).elements(elements)).unwrap();
    (m, array)
}

#[test]
fn a_job_waits_for_all_elements_of_an_array() {
    let (mut m, array) = with_array("0-5");
    let after = |scheme: &str| TestJob::new().dependency(&format!("{scheme}:{array}"));
    let any = m.submit(after("afterany")).unwrap();
    let ok = m.submit(after("afterok")).unwrap();
    let notok = m.submit(after("afternotok")).unwrap();
    m.advance(2.5);
    for id in [any, ok, notok] {
        m.assert_state(id, State::Depend);
    }
    m.crash_and_restart();
    m.advance(1.0);
    assert_ne!(m.job(any).state(), State::Depend);
    assert_ne!(m.job(ok).state(), State::Depend);
    m.assert_exception(notok, "dependency", "can never be satisfied");
    // Once the array is over, it is judged at the submission.
    let late = m.submit(after("afterok")).unwrap();
    assert_ne!(m.job(late).state(), State::Depend);
    assert!(m.submit(after("afternotok")).is_err());
}

#[test]
fn a_failed_element_decides_for_the_array() {
    let (mut m, array) = with_array("0-5");
    let after = |scheme: &str| TestJob::new().dependency(&format!("{scheme}:{array}"));
    let ok = m.submit(after("afterok")).unwrap();
    let notok = m.submit(after("afternotok")).unwrap();
    let first = m.element(array, 0).unwrap();
    m.cancel(first).unwrap();
    m.assert_exception(ok, "dependency", "can never be satisfied");
    m.assert_state(notok, State::Depend);
    m.advance(10.0);
    assert_ne!(m.job(notok).state(), State::Depend);
}

#[test]
fn an_array_that_is_canceled_before_it_ran_is_over() {
    let mut m = manager();
    let elements = serde_json::from_value(json!({"indexes": "0-5", "at-once": 1})).unwrap();
    let array = m.submit(TestJob::new().run_for(1.0).elements(elements)).unwrap();
    let any = m.submit(TestJob::new().dependency(&format!("afterany:{array}"))).unwrap();
    m.urgency(array, 0).unwrap();
    m.advance(5.0);
    m.assert_state(any, State::Depend);
    m.cancel(array).unwrap();
    assert_ne!(m.job(any).state(), State::Depend);
}

#[test]
fn conditions_that_an_array_does_not_have_are_refused() {
    let (mut m, array) = with_array("0-5");
    for scheme in ["afterstart", "afterexcept"] {
        let refused =
            m.submit(TestJob::new().dependency(&format!("{scheme}:{array}"))).unwrap_err();
        let text = format!("{scheme}: {array} is a job array: use afterany, afterok or afternotok");
        assert!(refused.to_string().contains(&text), "{refused}");
    }
    let other = TestJob::new().user(1001).dependency(&format!("afterany:{array}"));
    assert!(m.submit(other).unwrap_err().to_string().contains("Permission denied"));
}

#[test]
fn an_array_waits_for_another_job_as_one() {
    let mut m = manager();
    let elements = || serde_json::from_value(json!({"indexes": "0-2999"})).unwrap();
    let array_after = |id: JobId| {
        TestJob::new().run_for(1.0).elements(elements()).dependency(&format!("afterok:{id}"))
    };
    let first = m.submit(TestJob::new()).unwrap();
    let waits = m.submit(array_after(first)).unwrap();
    assert_eq!(m.array(waits)["pending"], 1, "one element waits for all");
    let failing = m.submit(TestJob::new()).unwrap();
    let hopeless = m.submit(array_after(failing)).unwrap();
    let after = m.submit(TestJob::new().dependency(&format!("afterany:{hopeless}"))).unwrap();
    m.finish(failing, 1);
    assert_eq!(m.array(hopeless)["over"], true, "{}", m.array(hopeless));
    assert_ne!(m.job(after).state(), State::Depend);
    m.cancel(after).unwrap();
    m.finish(first, 0);
    m.advance(5.0);
    // The job that the array has waited for is gone; the elements go on.
    m.purge(first).unwrap();
    m.crash_and_restart();
    m.advance(3000.0);
    assert_eq!(m.array(waits)["completed"], "0-2999", "{}", m.array(waits));
}
