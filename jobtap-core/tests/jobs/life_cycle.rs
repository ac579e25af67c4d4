//! The life of a job by RFC 21: which events it gets, and how it ends in each state.

use jobtap_core::job::{JobId, JobResult, State};
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::{Value, json};

use crate::common::ByUrgency;

fn manager() -> TestManager {
    TestManager::new().plugin::<ByUrgency>().start()
}

/// Keeps jobs that have ended in CLEANUP for [`EPILOG`] seconds.
#[derive(Default)]
struct Epilog;

const EPILOG: f64 = 10.0;

#[jobtap_plugin(name = "epilog")]
impl Epilog {
    #[on("job.state.cleanup")]
    async fn clear(remote: Remote<Self>) -> Result<(), EpilogFailed> {
        Ok(remote.sleep(EPILOG).await?)
    }
}

fn with_epilog() -> TestManager {
    TestManager::new().plugin::<ByUrgency>().plugin::<Epilog>().start()
}

const WHOLE: &str = "submit validate depend priority alloc start finish release free clean";

fn exception(m: &TestManager, id: JobId) -> (String, i64, String) {
    let log = m.eventlog(id);
    let entry = log.iter().find(|entry| entry.name == "exception").unwrap();
    let context = entry.context.as_ref().unwrap();
    let text = |key: &str| context.get(key).and_then(|v| v.as_str()).unwrap().to_owned();
    (text("type"), context.get("severity").unwrap().as_i64().unwrap(), text("note"))
}

#[test]
fn a_job_runs_to_its_end() {
    let mut m = manager();
    let id = m.submit(TestJob::new()).unwrap();
    m.assert_events(id, "submit validate depend priority alloc start");
    m.finish(id, 0);
    m.assert_events(id, WHOLE);
    assert_eq!(m.job(id).result(), Some(JobResult::Completed));
}

#[test]
fn an_id_tells_the_milliseconds_since_the_start() {
    let mut m = manager();
    let first = m.submit(TestJob::new().urgency(0)).unwrap();
    m.advance(90.5);
    let second = m.submit(TestJob::new().urgency(0)).unwrap();
    assert_eq!(second.timestamp_ms() - first.timestamp_ms(), 90_500);
}

#[test]
fn the_debug_flag_shows_what_is_asked_for() {
    let mut m = manager();
    let id = m.submit(TestJob::new().debug().urgency(0)).unwrap();
    m.assert_events(id, "submit validate depend priority");
    m.urgency(id, 16).unwrap();
    m.finish(id, 0);
    m.assert_events(
        id,
        "submit validate depend priority urgency priority debug.alloc-request alloc \
         debug.start-request start finish release free clean",
    );
}

#[test]
fn a_simulated_job_runs_as_long_as_it_says() {
    let mut m = manager();
    let id = m.submit(TestJob::new().run_for(10.0)).unwrap();
    m.advance(9.9);
    m.assert_state(id, State::Run);
    m.advance(0.2);
    m.assert_events(id, WHOLE);
}

#[test]
fn a_job_that_fails_is_failed() {
    let mut m = manager();
    let id = m.submit(TestJob::new()).unwrap();
    m.finish(id, 3);
    m.assert_events(id, WHOLE);
    assert_eq!(m.job(id).result(), Some(JobResult::Failed));
}

#[test]
fn mock_exceptions_come_before_and_after_the_start() {
    let mut m = manager();
    let mock = |what: &str| TestJob::new().attribute("exec.test.mock_exception", what);
    let id = m.submit(mock("init")).unwrap();
    m.assert_events(id, "submit validate depend priority alloc exception release free clean");
    let note = "mock initialization exception generated".to_owned();
    assert_eq!(exception(&m, id), ("exec".to_owned(), 0, note));
    let id = m.submit(mock("run")).unwrap();
    let events = "submit validate depend priority alloc start exception finish release free clean";
    m.assert_events(id, events);
}

#[test]
fn a_simulation_of_a_wrong_type_fails_its_job() {
    let mut m = manager();
    for (key, value) in [
        ("exec.test", json!(5)),
        ("exec.test", json!([])),
        ("exec.test.run_duration", json!(2)),
        ("exec.test.wait_status", json!(-1)),
        ("exec.test.wait_status", json!("0")),
        ("exec.test.override", json!("yes")),
    ] {
        let id = m.submit(TestJob::new().attribute(key, value.clone())).unwrap();
        m.assert_events(id, "submit validate depend priority alloc exception release free clean");
        let (kind, severity, note) = exception(&m, id);
        assert_eq!((kind.as_str(), severity), ("exec", 0));
        assert!(note.starts_with("failed to initialize testconf: "), "{value}: {note}");
    }
}

#[test]
fn a_job_in_override_mode_begins_and_ends_when_it_is_told() {
    let mut m = manager();
    let waits = TestJob::new().attribute("exec.test.override", 1);
    let id = m.submit(waits.clone()).unwrap();
    m.assert_events(id, "submit validate depend priority alloc");
    assert_eq!(m.override_execution(id, "finish", Some(0)).unwrap_err(), "Job not running");
    m.override_execution(id, "start", None).unwrap();
    assert_eq!(m.override_execution(id, "start", None).unwrap_err(), "Job already running");
    assert_eq!(m.override_execution(id, "pause", None).unwrap_err(), "Invalid event");
    m.advance(1000.0);
    m.override_execution(id, "finish", Some(256)).unwrap();
    m.assert_events(id, WHOLE);
    assert_eq!(m.job(id).result(), Some(JobResult::Failed));
    assert_eq!(m.override_execution(id, "start", None).unwrap_err(), "Job not found");
    // Its own run time counts from the start.
    let id = m.submit(waits.run_for(10.0)).unwrap();
    m.advance(60.0);
    m.override_execution(id, "start", None).unwrap();
    m.advance(10.1);
    m.assert_events(id, WHOLE);
    let other = m.submit(TestJob::new().run_for(10.0)).unwrap();
    let refused = m.override_execution(other, "finish", None).unwrap_err();
    assert_eq!(refused, "Job not in exec override mode");
}

#[test]
fn cancel_works_in_every_state() {
    let mut m = manager();
    // SCHED: held by urgency 0.
    let sched = m.submit(TestJob::new().urgency(0)).unwrap();
    m.cancel(sched).unwrap();
    m.assert_events(sched, "submit validate depend priority exception clean");
    // RUN, started.
    let run = m.submit(TestJob::new()).unwrap();
    m.cancel(run).unwrap();
    m.assert_events(
        run,
        "submit validate depend priority alloc start exception finish release free clean",
    );
    assert_eq!(m.job(run).result(), Some(JobResult::Canceled));
    // RUN, before the start was reported.
    m.hold_execution();
    let early = m.submit(TestJob::new()).unwrap();
    m.cancel(early).unwrap();
    m.assert_state(early, State::Inactive);
    // PRIORITY: no plugin sets one.
    m.remove_plugin("by-urgency").unwrap();
    let priority = m.submit(TestJob::new()).unwrap();
    m.assert_state(priority, State::Priority);
    m.cancel(priority).unwrap();
    m.assert_events(priority, "submit validate depend exception clean");
    // INACTIVE.
    assert_eq!(m.cancel(run).unwrap_err(), "job is inactive");
    assert_eq!(m.cancel(JobId::new(1)).unwrap_err(), "unknown job id");
}

#[test]
fn an_exception_that_is_not_fatal_changes_nothing() {
    let mut m = manager();
    let id = m.submit(TestJob::new()).unwrap();
    m.raise(id, "warning", 1, "something is odd").unwrap();
    m.assert_state(id, State::Run);
    assert_eq!(exception(&m, id).0, "warning");
}

#[test]
fn a_listing_shows_the_first_of_the_most_severe_exceptions() {
    let mut m = with_epilog();
    let mut listed_after = |raised: &[(&str, i64)]| {
        let id = m.submit(TestJob::new()).unwrap();
        for (kind, severity) in raised {
            m.raise(id, kind, *severity, "").unwrap();
        }
        m.finish(id, 0);
        m.advance(EPILOG);
        let before = m.listed(id);
        m.crash_and_restart();
        assert_eq!(m.listed(id), before);
        (before["exception_type"].clone(), before["exception_severity"].clone())
    };
    let mild = [("first", 3), ("second", 3), ("worse", 2), ("as-bad", 2), ("mild", 4)];
    assert_eq!(listed_after(&mild), (json!("worse"), json!(2)));
    let fatal = [("odd", 1), ("fatal", 0), ("later", 0)];
    assert_eq!(listed_after(&fatal), (json!("fatal"), json!(0)));
}

#[test]
fn malformed_exceptions_are_refused() {
    let mut m = manager();
    let id = m.submit(TestJob::new()).unwrap();
    assert_eq!(m.raise(id, "x", 8, "").unwrap_err(), "invalid exception severity");
    assert_eq!(m.raise(id, "two words", 0, "").unwrap_err(), "invalid exception type");
    assert_eq!(m.raise(id, "", 0, "").unwrap_err(), "invalid exception type");
}

#[test]
fn a_second_fatal_exception_is_only_logged() {
    let mut m = with_epilog();
    let id = m.submit(TestJob::new()).unwrap();
    m.raise(id, "first", 0, "").unwrap();
    m.raise(id, "second", 0, "").unwrap();
    m.advance(EPILOG);
    m.assert_events(
        id,
        "submit validate depend priority alloc start exception epilog-start finish release exception \
         epilog-finish free clean",
    );
    assert_eq!(exception(&m, id).0, "first");
    assert_eq!(m.job(id).end_event().unwrap().context.as_ref().unwrap()["type"], "first");
}

#[test]
fn what_ends_a_job_during_its_epilog_is_the_result_unless_its_tasks_succeeded() {
    let mut m = with_epilog();
    let (completed, failed) = (JobResult::Completed, JobResult::Failed);
    for (status, kind, severity, result) in [
        (0, "cancel", 0, completed),
        (0, "odd", 0, completed),
        (1, "cancel", 0, JobResult::Canceled),
        (1, "timeout", 0, JobResult::Timeout),
        (1, "odd", 0, failed),
        (1, "cancel", 1, failed),
    ] {
        let id = m.submit(TestJob::new()).unwrap();
        m.finish(id, status);
        m.raise(id, kind, severity, "").unwrap();
        m.advance(EPILOG);
        assert_eq!(m.listed(id)["result"], result.value(), "{status} {kind}");
        assert_eq!(m.listed(id)["success"], result == completed);
        m.crash_and_restart();
        assert_eq!(m.listed(id)["result"], result.value(), "{status} {kind} after a restart");
    }
}

fn warned(option: Value) -> TestJob {
    TestJob::new().duration(600.0).attribute("shell.options.signal", option)
}

#[test]
fn a_job_is_warned_before_its_time_is_up() {
    let mut m = manager();
    let plain = m.submit(warned(json!({"signum": 12, "timeleft": 100}))).unwrap();
    let short = m.submit(warned(json!({"signum": 12, "timeleft": 700.0}))).unwrap();
    assert_eq!(m.signals(short), [12], "it never has more time left");
    m.advance(499.0);
    assert!(m.signals(plain).is_empty());
    m.advance(2.0);
    assert_eq!(m.signals(plain), [12]);
    assert_eq!(m.signals(short), [12], "it was warned at its start");
}

#[test]
fn the_time_limit_ends_a_job() {
    let mut m = manager();
    let id = m.submit(TestJob::new().duration(60.0)).unwrap();
    m.advance(59.0);
    m.assert_state(id, State::Run);
    m.advance(2.0);
    m.assert_state(id, State::Inactive);
    let note = "resource allocation expired".to_owned();
    assert_eq!(exception(&m, id), ("timeout".to_owned(), 0, note));
    assert_eq!(m.job(id).result(), Some(JobResult::Timeout));
}

#[test]
fn a_request_that_can_never_be_met_ends_with_the_reason() {
    let mut m = manager();
    let id = m.submit(TestJob::new().ntasks(5)).unwrap();
    m.assert_events(id, "submit validate depend priority exception clean");
    let (kind, severity, note) = exception(&m, id);
    assert_eq!((&*kind, severity), ("alloc", 0));
    assert!(note.starts_with("unsatisfiable request: need 5 slot(s)"), "{note}");
}

#[test]
fn a_blocked_head_blocks() {
    let mut m = manager();
    let running = m.submit(TestJob::new().ntasks(3)).unwrap();
    let head = m.submit(TestJob::new().ntasks(2)).unwrap();
    let small = m.submit(TestJob::new().ntasks(1)).unwrap();
    m.assert_state(head, State::Sched);
    // It would fit, but no job passes the head.
    m.assert_state(small, State::Sched);
    m.finish(running, 0);
    m.assert_state(head, State::Run);
    m.assert_state(small, State::Run);
}

#[test]
fn urgency_reorders_waiting_jobs_and_holds_them() {
    let mut m = manager();
    let running = m.submit(TestJob::new().ntasks(4)).unwrap();
    let a = m.submit(TestJob::new().ntasks(4)).unwrap();
    let b = m.submit(TestJob::new().ntasks(4)).unwrap();
    m.urgency(b, 20).unwrap();
    m.urgency(a, 0).unwrap();
    m.finish(running, 0);
    m.assert_state(b, State::Run);
    m.finish(b, 0);
    m.assert_state(a, State::Sched);
    m.urgency(a, 16).unwrap();
    m.assert_state(a, State::Run);
    m.assert_events(
        a,
        "submit validate depend priority urgency priority urgency priority alloc start",
    );
    let refusal = m.urgency(a, 3).unwrap_err();
    assert_eq!(refusal, "urgency cannot be changed once resources are allocated");
    assert_eq!(m.urgency(b, 32).unwrap_err(), "urgency value is out of range");
    assert_eq!(m.urgency(b, 3).unwrap_err(), "job is inactive");
}

#[test]
fn guests_have_fewer_rights() {
    let mut m = manager();
    let refusal = m.submit(TestJob::new().user(7).urgency(17)).unwrap_err();
    assert_eq!(refusal, "only the instance owner can submit with urgency >16");
    assert_eq!(m.submit(TestJob::new().urgency(32)).unwrap_err(), "urgency range is [0:31]");
    m.submit(TestJob::new().user(7)).unwrap();
}

#[test]
fn ids_increase_and_never_repeat_across_restarts() {
    let mut m = manager();
    let mut last = m.submit(TestJob::new().run_for(1.0)).unwrap();
    for round in 0..20 {
        if round % 5 == 4 {
            m.crash_and_restart();
        }
        let next = m.submit(TestJob::new().run_for(1.0)).unwrap();
        assert!(next > last, "{next} after {last}");
        last = next;
    }
}

#[test]
fn cancelling_everything_reaches_every_active_job() {
    let mut m = manager();
    let ids: Vec<JobId> = (0..10).map(|_| m.submit(TestJob::new()).unwrap()).collect();
    assert_eq!(m.cancel_all().unwrap(), 10);
    for id in ids {
        m.assert_state(id, State::Inactive);
    }
    assert_eq!(m.cancel_all().unwrap(), 0);
}

#[test]
fn events_have_one_order_in_time() {
    let mut m = manager();
    let ids: Vec<JobId> = (0..3).map(|_| m.submit(TestJob::new().run_for(1.0)).unwrap()).collect();
    m.advance(2.0);
    for id in ids {
        let times: Vec<f64> =
            m.eventlog(id).iter().map(|entry| entry.timestamp.as_secs()).collect();
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
    }
}
