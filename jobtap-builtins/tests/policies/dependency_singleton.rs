//! `.dependency-singleton`: jobs of one user and name run one after the other, also across a restart, a
//! removal and a crash.

use jobtap_builtins::{DependencySingleton, PriorityDefault};
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::json;

fn manager() -> TestManager {
    TestManager::new().plugin::<PriorityDefault>().plugin::<DependencySingleton>().start()
}

fn plain(m: &mut TestManager, name: &str) -> JobId {
    m.submit(TestJob::new().name(name)).unwrap()
}

fn single(m: &mut TestManager, name: &str) -> JobId {
    m.submit(TestJob::new().name(name).dependency("singleton")).unwrap()
}

const AT_ONCE: &str = "submit validate depend priority alloc start";
const RELEASED: &str =
    "submit dependency-add validate dependency-remove depend priority alloc start";

#[test]
fn five_of_one_name_run_one_after_the_other() {
    let mut m = manager();
    let ids: Vec<JobId> = (0..5).map(|_| single(&mut m, "one")).collect();
    for (i, id) in ids.iter().enumerate() {
        m.assert_events(*id, if i == 0 { AT_ONCE } else { RELEASED });
        for later in &ids[i + 1..] {
            m.assert_state(*later, State::Depend);
        }
        m.finish(*id, 0);
    }
}

#[test]
fn jobs_of_other_names_and_users_are_not_delayed() {
    let mut m = manager();
    single(&mut m, "one");
    let other = single(&mut m, "two");
    m.assert_state(other, State::Run);
    let job = TestJob::new().name("one").dependency("singleton").user(7);
    let others = m.submit(job).unwrap();
    m.assert_state(others, State::Run);
}

#[test]
fn a_job_without_the_dependency_counts_and_is_not_held() {
    let mut m = manager();
    let first = plain(&mut m, "one");
    let waits = single(&mut m, "one");
    let second = plain(&mut m, "one");
    m.assert_state(second, State::Run);
    m.finish(first, 0);
    m.assert_state(waits, State::Depend);
    m.finish(second, 3);
    m.assert_state(waits, State::Run);
}

#[test]
fn a_job_needs_a_name() {
    let mut m = manager();
    let text = m.submit(TestJob::new().dependency("singleton")).unwrap_err();
    assert_eq!(text, "singleton jobs require a job name");
}

#[test]
fn a_cancelled_job_gives_up_its_place() {
    let mut m = manager();
    let first = single(&mut m, "one");
    let (second, third) = (single(&mut m, "one"), single(&mut m, "one"));
    m.cancel(second).unwrap();
    m.assert_state(third, State::Depend);
    m.finish(first, 0);
    m.assert_events(second, "submit dependency-add validate exception clean");
    m.assert_state(third, State::Run);
}

#[test]
fn a_rejected_job_delays_no_other() {
    let mut m = manager();
    let job = TestJob::new().name("one").dependency("singleton").dependency("nonsense:1");
    m.submit(job).unwrap_err();
    let id = single(&mut m, "one");
    m.assert_events(id, AT_ONCE);
}

#[test]
fn a_query_shows_each_key() {
    let mut m = manager();
    let first = single(&mut m, "foo");
    let waits = single(&mut m, "foo");
    let query = m.query_plugin(".dependency-singleton").unwrap();
    assert_eq!(query["1000:foo"], json!({"count": 2, "singletons": [waits]}));
    m.finish(first, 0);
    m.finish(waits, 0);
    let query = m.query_plugin(".dependency-singleton").unwrap();
    assert_eq!(query, json!({"name": ".dependency-singleton", "path": "builtin"}));
}

#[test]
fn a_restart_releases_no_job_before_all_are_known() {
    let mut m = manager();
    let first = single(&mut m, "one");
    let waits = single(&mut m, "one");
    let later = plain(&mut m, "one");
    m.crash_and_restart();
    m.assert_state(waits, State::Depend);
    m.finish(first, 0);
    m.assert_state(waits, State::Depend);
    m.finish(later, 0);
    m.assert_state(waits, State::Run);
}

#[test]
fn loading_it_again_releases_jobs_freed_meanwhile() {
    let mut m = manager();
    let first = single(&mut m, "one");
    let (second, third) = (single(&mut m, "one"), single(&mut m, "one"));
    m.remove_plugin(".dependency-singleton").unwrap();
    m.finish(first, 0);
    m.assert_state(second, State::Depend);
    assert!(m.why(second)[0].contains("no loaded plugin looks after that"), "{:?}", m.why(second));
    assert_eq!(
        m.submit(TestJob::new().name("one").dependency("singleton")).unwrap_err(),
        "dependency scheme \"singleton\" not supported"
    );
    m.load_plugin(".dependency-singleton", json!({})).unwrap();
    m.assert_state(second, State::Run);
    m.assert_state(third, State::Depend);
    m.finish(second, 0);
    m.assert_state(third, State::Run);
}

#[test]
fn a_reload_keeps_the_order_of_waiting_jobs() {
    let mut m = manager();
    let first = single(&mut m, "one");
    let waits = single(&mut m, "one");
    m.reload_plugin(".dependency-singleton", json!({})).unwrap();
    m.assert_state(waits, State::Depend);
    m.finish(first, 0);
    m.assert_state(waits, State::Run);
}
