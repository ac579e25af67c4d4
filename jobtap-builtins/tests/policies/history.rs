//! `.history`: users see their own jobs, newest first, also after a restart, a purge and a reload.

use jobtap_builtins::{History, PriorityDefault};
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::{Value, json};

fn manager() -> TestManager {
    TestManager::new().plugin::<PriorityDefault>().plugin::<History>().start()
}

fn slice(m: &mut TestManager, user: u32, slice: &str) -> Vec<JobId> {
    let answer = m.call_service_as(user, "history.get", json!({ "slice": slice })).unwrap();
    let jobs = answer.get("jobs").and_then(Value::as_array).unwrap();
    jobs.iter().map(|id| JobId::new(id.as_u64().unwrap())).collect()
}

fn submit(m: &mut TestManager, user: u32, count: usize) -> Vec<JobId> {
    let job = || TestJob::new().user(user).run_for(1.0);
    let mut ids: Vec<JobId> = (0..count).map(|_| m.submit(job()).unwrap()).collect();
    ids.reverse();
    ids
}

#[test]
fn the_newest_job_is_first_even_with_equal_times() {
    let mut m = manager();
    let ids = submit(&mut m, 7, 4);
    assert_eq!(slice(&mut m, 7, "[:]"), ids);
    assert_eq!(slice(&mut m, 7, "[:1]"), ids[..1]);
    assert_eq!(slice(&mut m, 7, "[0:1]"), ids[..1]);
    assert_eq!(slice(&mut m, 7, "[1:3]"), ids[1..3]);
    assert_eq!(slice(&mut m, 7, "[-1:]"), ids[3..]);
    let oldest: Vec<JobId> = ids.iter().rev().copied().collect();
    assert_eq!(slice(&mut m, 7, "[::-1]"), oldest);
}

#[test]
fn users_see_their_own_jobs_only() {
    let mut m = manager();
    let (sevens, owners) = (submit(&mut m, 7, 2), submit(&mut m, 1000, 1));
    let roots = submit(&mut m, 0, 1);
    assert_eq!(slice(&mut m, 7, "[:]"), sevens);
    assert_eq!(slice(&mut m, 1000, "[:]"), owners);
    assert_eq!(slice(&mut m, 0, "[:]"), roots);
    assert_eq!(slice(&mut m, 8, "[:]"), []);
}

#[test]
fn a_malformed_slice_is_refused() {
    let mut m = manager();
    for bad in ["[a]", "", "1", "[::0]"] {
        let error = m.call_service("history.get", json!({ "slice": bad })).unwrap_err();
        assert_eq!(error, "could not parse python-style slice expression");
    }
}

#[test]
fn a_rejected_job_is_not_in_the_history() {
    let mut m = manager();
    m.submit(TestJob::new().dependency("nonsense:1")).unwrap_err();
    assert_eq!(slice(&mut m, 1000, "[:]"), []);
}

#[test]
fn a_purged_job_leaves_the_history() {
    let mut m = manager();
    let ids = submit(&mut m, 7, 3);
    m.advance(2.0);
    m.purge(ids[1]).unwrap();
    assert_eq!(slice(&mut m, 7, "[:]"), [ids[0], ids[2]]);
}

#[test]
fn a_restart_and_a_reload_change_nothing() {
    let mut m = manager();
    let done = submit(&mut m, 7, 2);
    m.advance(2.0);
    m.assert_state(done[0], State::Inactive);
    let mut ids = submit(&mut m, 7, 2);
    ids.extend(done);
    m.crash_and_restart();
    assert_eq!(slice(&mut m, 7, "[:]"), ids);
    m.reload_plugin(".history", json!({})).unwrap();
    assert_eq!(slice(&mut m, 7, "[:]"), ids);
    m.remove_plugin(".history").unwrap();
    let error = m.call_service("history.get", json!({"slice": "[:]"})).unwrap_err();
    assert_eq!(error, "Unknown service method 'job-manager.history.get'");
    m.load_plugin(".history", json!({})).unwrap();
    assert_eq!(slice(&mut m, 7, "[:]"), ids);
}
