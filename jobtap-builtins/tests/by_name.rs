//! `submit-hold`, `alloc-bypass` and `alloc-check`, which are loaded only by name.
#![allow(clippy::unwrap_used, missing_docs)]

use jobtap_builtins::{AllocBypass, AllocCheck, PriorityDefault, SubmitHold};
use jobtap_core::eventlog::Context;
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::{Value, json};

fn manager(load: &[&str]) -> TestManager {
    let loads: Vec<Value> = load.iter().map(|name| json!({ "load": name })).collect();
    TestManager::new()
        .plugin::<PriorityDefault>()
        .linked::<SubmitHold>()
        .linked::<AllocBypass>()
        .linked::<AllocCheck>()
        .config(json!({"job-manager": {"plugins": loads}}))
        .start()
}

/// Returns the R document of a job.
fn resources(m: &TestManager, id: JobId) -> Value {
    serde_json::from_str(&m.job(id).resources().unwrap().to_json()).unwrap()
}

fn with_resources(resources: &Value) -> TestJob {
    TestJob::new().attribute("alloc-bypass.R", resources.clone())
}

const BYPASSED: &str = "submit set-flags validate depend priority alloc start";

#[test]
fn by_name_plugins_are_loaded_only_when_named() {
    let mut m = manager(&[]);
    let id = m.submit(TestJob::new()).unwrap();
    m.assert_state(id, State::Run);
    m.load_plugin("submit-hold.so", json!({})).unwrap();
    assert_eq!(m.query_plugin("submit-hold").unwrap()["name"], "submit-hold.so");
    assert_eq!(m.load_plugin("submit-hold", json!({})).unwrap_err(), "submit-hold already loaded");
    m.remove_plugin("submit-hold.so").unwrap();
    m.load_plugin("/usr/lib/flux/job-manager/plugins/submit-hold.so", json!({})).unwrap();
    m.remove_plugin("submit-*").unwrap();
    assert_eq!(
        m.load_plugin("nosuch.so", json!({})).unwrap_err(),
        "nosuch.so: No such plugin found"
    );
}

#[test]
fn a_builtin_can_be_loaded_over_itself() {
    let mut m = manager(&[]);
    m.load_plugin(".priority-default", Value::Null).unwrap();
    let id = m.submit(TestJob::new()).unwrap();
    m.assert_state(id, State::Run);
    m.remove_plugin(".priority-default").unwrap();
    assert!(m.remove_plugin(".priority-default").is_err(), "it was there once");
}

#[test]
fn every_job_is_held_until_it_is_released() {
    let mut m = manager(&["submit-hold.so"]);
    let id = m.submit(TestJob::new()).unwrap();
    m.assert_events(id, "submit validate urgency depend priority");
    m.assert_state(id, State::Sched);
    m.assert_priority(id, 0);
    let held = m.submit(TestJob::new().urgency(0)).unwrap();
    m.assert_events(held, "submit validate depend priority");
    m.crash_and_restart();
    m.assert_priority(id, 0);
    m.urgency(id, 16).unwrap();
    m.assert_state(id, State::Run);
    m.crash_and_restart();
    m.assert_state(id, State::Run);
}

#[test]
fn a_job_can_bring_resources_past_the_scheduler() {
    let mut m = manager(&["alloc-bypass.so"]);
    let all = m.submit(TestJob::new().ntasks(4)).unwrap();
    let r = resources(&m, all);
    let beside = m.submit(with_resources(&r)).unwrap();
    m.assert_events(beside, BYPASSED);
    assert_eq!(
        m.eventlog(beside)[1].context,
        json!({"flags": ["alloc-bypass"]}).as_object().cloned().map(Context::from)
    );
    let bypass = json!({"bypass": true}).as_object().cloned();
    assert_eq!(m.eventlog(beside)[5].context, bypass.map(Context::from));
    assert_eq!(resources(&m, beside), r);
    m.finish(beside, 0);
    m.assert_state(beside, State::Inactive);
    // Its resources never belonged to the scheduler, so they don't return to it.
    let waits = m.submit(TestJob::new()).unwrap();
    m.assert_state(waits, State::Sched);
    m.finish(all, 0);
    m.assert_state(waits, State::Run);
}

#[test]
fn malformed_resources_are_refused() {
    let mut m = manager(&["alloc-bypass"]);
    let all = m.submit(TestJob::new().ntasks(4)).unwrap();
    let r = resources(&m, all);
    let mut refusal = |job: TestJob| m.submit(job).unwrap_err();
    assert_eq!(refusal(with_resources(&r).user(7)), "Guest user cannot use alloc bypass");
    assert_eq!(
        refusal(with_resources(&json!(5))),
        "alloc-bypass: invalid R: Expected object, got integer"
    );
    assert_eq!(
        refusal(with_resources(&json!({}))),
        "alloc-bypass: invalid R: Object item not found: version"
    );
    assert_eq!(
        refusal(TestJob::new().attribute("alloc-bypass", 1)),
        "invalid system.alloc-bypass.R: Expected object, got integer"
    );
    let other = m.submit(TestJob::new().attribute("alloc-bypass.x", 1)).unwrap();
    m.assert_state(other, State::Sched);
}

#[test]
fn a_held_job_gets_no_resources_and_can_be_cancelled() {
    let mut m = manager(&["alloc-bypass"]);
    let all = m.submit(TestJob::new().ntasks(4)).unwrap();
    let r = resources(&m, all);
    let held = m.submit(with_resources(&r).urgency(0)).unwrap();
    let cancelled = m.submit(with_resources(&r).urgency(0)).unwrap();
    m.assert_state(held, State::Sched);
    m.cancel(cancelled).unwrap();
    m.assert_events(cancelled, "submit set-flags validate depend priority exception clean");
    m.urgency(held, 16).unwrap();
    m.assert_state(held, State::Run);
}

#[test]
fn a_restart_does_not_count_assigned_resources() {
    let mut m = manager(&["alloc-bypass"]);
    let all = m.submit(TestJob::new().ntasks(4)).unwrap();
    let r = resources(&m, all);
    let beside = m.submit(with_resources(&r)).unwrap();
    let held = m.submit(with_resources(&r).urgency(0)).unwrap();
    m.crash_and_restart();
    m.assert_state(all, State::Run);
    m.assert_state(beside, State::Run);
    m.urgency(held, 16).unwrap();
    m.assert_state(held, State::Run);
    m.finish(all, 0);
    assert_eq!(m.free_resources().unwrap().ncores(), 4);
}

#[test]
fn without_the_plugin_a_bypass_job_is_scheduled_normally() {
    let mut m = manager(&[]);
    let all = m.submit(TestJob::new().ntasks(4)).unwrap();
    let r = resources(&m, all);
    let id = m.submit(with_resources(&r)).unwrap();
    let guests = m.submit(with_resources(&r).user(7)).unwrap();
    m.load_plugin("alloc-bypass", json!({})).unwrap();
    m.urgency(guests, 20).unwrap();
    m.assert_state(id, State::Sched);
    m.assert_state(guests, State::Sched);
    m.finish(all, 0);
    m.assert_state(id, State::Run);
    m.assert_state(guests, State::Run);
}

#[test]
fn resources_allocated_twice_end_the_second_job() {
    let mut m = manager(&["alloc-bypass", "alloc-check"]);
    let first = m.submit(TestJob::new().ntasks(2)).unwrap();
    let r = resources(&m, first);
    for restart in [false, true] {
        if restart {
            m.crash_and_restart();
        }
        let second = m.submit(with_resources(&r)).unwrap();
        m.assert_exception(second, "alloc-check", "resources already allocated");
        m.assert_state(second, State::Inactive);
        m.assert_state(first, State::Run);
    }
    let apart = m.submit(TestJob::new().ntasks(2)).unwrap();
    m.assert_state(apart, State::Run);
    m.finish(first, 0);
    let after = m.submit(with_resources(&r)).unwrap();
    m.assert_state(after, State::Run);
}

#[test]
fn the_check_knows_jobs_that_started_before_it_was_loaded() {
    let mut m = manager(&["alloc-bypass"]);
    let first = m.submit(TestJob::new()).unwrap();
    let r = resources(&m, first);
    m.load_plugin("alloc-check.so", json!({})).unwrap();
    let second = m.submit(with_resources(&r)).unwrap();
    m.assert_exception(second, "alloc-check", "resources already allocated");
}

/// A plugin that keeps every job in CLEANUP.
#[derive(Default)]
struct Holds(Vec<Token>);

#[jobtap_plugin(name = "holds")]
impl Holds {
    #[on("job.state.cleanup")]
    fn hold(&mut self, cx: Cx<'_, JobStateCleanup>) -> Result<(), HandlerError> {
        self.0.push(cx.epilog_start("hold")?);
        Ok(())
    }
}

#[test]
fn resources_lost_to_a_new_scheduler_are_not_counted() {
    let loads =
        json!({"job-manager": {"plugins": [{"load": "alloc-bypass"}, {"load": "alloc-check"}]}});
    let builder = TestManager::new().plugin::<PriorityDefault>().plugin::<Holds>();
    let builder = builder.linked::<AllocBypass>().linked::<AllocCheck>();
    let mut m = builder.config(loads).start();
    let first = m.submit(TestJob::new()).unwrap();
    let r = resources(&m, first);
    m.raise(first, "scheduler-restart", 0, "lost").unwrap();
    m.assert_state(first, State::Cleanup);
    m.reload_plugin("alloc-check", json!({})).unwrap();
    let second = m.submit(with_resources(&r)).unwrap();
    m.assert_state(second, State::Run);
    // Neither a non-fatal exception nor a cancel takes the resources from the job before its `free` event.
    m.raise(second, "scheduler-restart", 1, "still there").unwrap();
    let third = m.submit(with_resources(&r)).unwrap();
    m.assert_exception(third, "alloc-check", "resources already allocated");
    m.cancel(second).unwrap();
    m.assert_state(second, State::Cleanup);
    let fourth = m.submit(with_resources(&r)).unwrap();
    m.assert_exception(fourth, "alloc-check", "resources already allocated");
}
