//! `licenses` in virtual time: jobs wait for tokens in order, and no token is lost or given twice after
//! crashes, removals and reloads.

use jobtap_builtins::{DependencyAfter, Licenses, PriorityDefault};
use jobtap_core::prelude::*;
use jobtap_core::testing::{ManagerStartError, TestJob, TestManager};
use serde_json::{Value, json};

fn try_manager(licenses: Value) -> Result<TestManager, ManagerStartError> {
    let config = json!({
        "job-manager": {"plugins": [{"load": "licenses"}]},
        "plugins": {"licenses": licenses},
    });
    let builder = TestManager::new().plugin::<PriorityDefault>().plugin::<DependencyAfter>();
    builder.plugin::<Licenses>().cores(64).config(config).try_start()
}

fn manager(licenses: Value) -> TestManager {
    try_manager(licenses).unwrap()
}

fn wants(uri: &str) -> TestJob {
    TestJob::new().dependency(uri)
}

fn out(m: &mut TestManager, name: &str) -> u64 {
    let told = m.query_plugin("licenses").unwrap();
    told["licenses"][name]["out"].as_u64().unwrap()
}

fn states(m: &TestManager, ids: &[JobId]) -> Vec<State> {
    ids.iter().map(|id| m.job(*id).state()).collect()
}

#[test]
fn a_job_waits_for_a_token_and_gives_it_back() {
    let mut m = manager(json!({"matlab": 1}));
    let first = m.submit(wants("license:matlab")).unwrap();
    let second = m.submit(wants("license:matlab")).unwrap();
    m.assert_events(
        first,
        "submit dependency-add validate dependency-remove depend priority alloc start",
    );
    m.assert_state(second, State::Depend);
    assert_eq!(m.why(second), ["dependency license=matlab holds it, by plugin licenses"]);
    assert_eq!(out(&mut m, "matlab"), 1);
    m.finish(first, 0);
    m.assert_state(second, State::Run);
    m.cancel(second).unwrap();
    assert_eq!(out(&mut m, "matlab"), 0);
}

#[test]
fn all_licences_of_a_job_are_taken_at_once() {
    let mut m = manager(json!({"a": 1, "b": 4}));
    let holds = m.submit(wants("license:a")).unwrap();
    let both = m.submit(wants("license:a").dependency("license:b?count=4")).unwrap();
    let other = m.submit(wants("license:b?count=2")).unwrap();
    assert_eq!(states(&m, &[both, other]), [State::Depend, State::Run]);
    assert_eq!(out(&mut m, "b"), 2);
    m.finish(other, 0);
    m.finish(holds, 0);
    m.assert_state(both, State::Run);
    assert_eq!((out(&mut m, "a"), out(&mut m, "b")), (1, 4));
}

#[test]
fn a_job_with_other_dependencies_holds_no_tokens() {
    let mut m = manager(json!({"matlab": 1}));
    let target = m.submit(TestJob::new()).unwrap();
    let later = m.submit(wants(&format!("afterok:{target}")).dependency("license:matlab")).unwrap();
    let held = m.submit(wants("license:matlab").urgency(0)).unwrap();
    let now = m.submit(wants("license:matlab")).unwrap();
    assert_eq!(states(&m, &[later, held, now]), [State::Depend, State::Depend, State::Run]);
    m.finish(target, 0);
    m.assert_state(later, State::Depend);
    m.finish(now, 0);
    m.assert_state(later, State::Run);
    m.finish(later, 0);
    m.urgency(held, 16).unwrap();
    m.assert_state(held, State::Run);
}

#[test]
fn urgent_jobs_go_first_and_none_overtakes_a_large_one() {
    let mut m = manager(json!({"matlab": 4}));
    let holds = m.submit(wants("license:matlab?count=3")).unwrap();
    let large = m.submit(wants("license:matlab?count=4")).unwrap();
    let small = m.submit(wants("license:matlab")).unwrap();
    let urgent = m.submit(wants("license:matlab").urgency(20)).unwrap();
    assert_eq!(states(&m, &[large, small, urgent]), [State::Depend, State::Depend, State::Run]);
    m.finish(holds, 0);
    m.finish(urgent, 0);
    assert_eq!(states(&m, &[large, small]), [State::Run, State::Depend]);
}

#[test]
fn impossible_demands_are_refused() {
    let mut m = manager(json!({"abaqus": 8, "matlab": 4}));
    let refused = |m: &mut TestManager, job: TestJob| m.submit(job).unwrap_err();
    assert_eq!(
        refused(&mut m, wants("license:mathlab")),
        "dependency: license: \"mathlab\" is unknown: there are abaqus, matlab"
    );
    let text = "dependency: license: 5 of matlab can't be had: there are 4";
    assert_eq!(refused(&mut m, wants("license:matlab?count=5")), text);
    let twice = wants("license:matlab?count=2").dependency("license:matlab?count=3");
    assert_eq!(refused(&mut m, twice), text);
    for count in ["0", "-1", "x", "1.5"] {
        assert_eq!(
            refused(&mut m, wants(&format!("license:matlab?count={count}"))),
            "dependency: license: matlab: count must be a number above 0"
        );
    }
    assert_eq!(out(&mut m, "matlab"), 0);
}

#[test]
fn one_licence_asked_for_twice_is_added_up() {
    let mut m = manager(json!({"matlab": 4}));
    let twice = wants("license:matlab?count=2").dependency("license:matlab?count=1");
    let id = m.submit(twice).unwrap();
    m.assert_state(id, State::Run);
    assert_eq!(out(&mut m, "matlab"), 3);
}

#[test]
fn a_mistake_in_the_configuration_is_named() {
    let text = try_manager(json!({"matlab": "x"})).err().unwrap();
    assert!(text.text().contains("[plugins.licenses]: matlab: invalid type"), "{text}");
}

#[test]
fn every_user_can_list_the_tokens_in_use() {
    let mut m = manager(json!({"matlab": 4}));
    m.submit(wants("license:matlab?count=3")).unwrap();
    let told = m.call_service_as(7, "licenses.list", json!({})).unwrap();
    assert_eq!(told, json!({"matlab": {"total": 4, "out": 3}}));
}

#[test]
fn a_reload_takes_over_the_waiting_jobs() {
    let mut m = manager(json!({"matlab": 1}));
    let first = m.submit(wants("license:matlab")).unwrap();
    let second = m.submit(wants("license:matlab")).unwrap();
    m.remove_plugin("licenses").unwrap();
    assert!(m.why(second)[0].contains("dependency license=matlab holds it, and no loaded plugin"));
    m.load_plugin("licenses", json!({})).unwrap();
    m.assert_state(second, State::Depend);
    assert_eq!(out(&mut m, "matlab"), 1);
    m.reload_plugin("licenses", json!({"matlab": 2})).unwrap();
    m.assert_state(second, State::Run);
    m.finish(first, 0);
    assert_eq!(out(&mut m, "matlab"), 1);
}

/// Three jobs that each need both tokens, on a manager that crashes at every step.
#[test]
fn a_kill_at_any_moment_loses_or_duplicates_no_token() {
    for steps in 0.. {
        let mut m = manager(json!({"matlab": 2}));
        m.crash_in(steps);
        let story = |m: &mut TestManager| {
            for _ in 0..3 {
                let _ = m.submit(wants("license:matlab?count=2").run_for(10.0));
            }
            m.advance(15.0);
        };
        story(&mut m);
        let died = m.is_dead();
        m.crash_and_restart();
        for _ in 0..8 {
            let jobs = m.jobs();
            let busy = jobs.iter().filter(|id| {
                matches!(m.job(**id).state(), State::Run | State::Cleanup | State::Sched)
            });
            assert!(busy.count() <= 1, "after {steps} steps");
            m.advance(10.0);
        }
        for id in m.jobs() {
            m.assert_state(id, State::Inactive);
        }
        assert_eq!(out(&mut m, "matlab"), 0, "after {steps} steps");
        if !died {
            break;
        }
    }
}
