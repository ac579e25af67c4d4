//! `preempt-notice` in virtual time: every running job with an end is notified once, at the configured time.

use jobtap_builtins::{PreemptNotice, PriorityDefault, UpdateDuration};
use jobtap_core::prelude::*;
use jobtap_core::testing::{ManagerStartError, TestJob, TestManager};
use serde_json::{Value, json};

const USR1: i32 = 10;

fn try_manager(notice: Value) -> Result<TestManager, ManagerStartError> {
    let config = json!({
        "job-manager": {"plugins": [{"load": "preempt-notice"}]},
        "plugins": {"preempt-notice": notice},
    });
    let builder = TestManager::new().plugin::<PriorityDefault>().plugin::<UpdateDuration>();
    builder.plugin::<PreemptNotice>().config(config).try_start()
}

fn manager() -> TestManager {
    try_manager(json!({"before": "10m", "signal": "SIGUSR1"})).unwrap()
}

fn hour() -> TestJob {
    TestJob::new().duration(3600.0)
}

/// Returns the number of notices that a job has received.
fn told(m: &TestManager, id: JobId) -> usize {
    let log = m.eventlog(id);
    let is = |entry: &&EventEntry| {
        entry.context.as_ref().is_some_and(|context| context["type"] == "preempt-notice")
    };
    log.iter().filter(|entry| entry.name == "exception").filter(is).count()
}

#[test]
fn a_job_is_notified_before_its_time_limit() {
    let mut m = manager();
    let id = m.submit(hour()).unwrap();
    m.advance(2999.0);
    assert_eq!((told(&m, id), m.signals(id)), (0, &[][..]));
    m.advance(2.0);
    m.assert_exception(id, "preempt-notice", "its time is up in 10m");
    assert_eq!((told(&m, id), m.signals(id)), (1, &[USR1][..]));
    m.assert_state(id, State::Run);
    m.finish(id, 0);
    assert_eq!(m.job(id).result(), Some(JobResult::Completed));
}

#[test]
fn jobs_without_an_end_or_with_little_time_get_no_notice() {
    let mut m = manager();
    let endless = m.submit(TestJob::new()).unwrap();
    let short = m.submit(TestJob::new().duration(600.0)).unwrap();
    let over = m.submit(hour()).unwrap();
    m.finish(over, 0);
    m.advance(4000.0);
    for id in [endless, short, over] {
        assert_eq!(told(&m, id), 0);
    }
}

#[test]
fn users_choose_for_their_own_jobs() {
    let mut m = manager();
    let own = hour().attribute("preempt-notice.before", "30m");
    let own = m.submit(own.attribute("preempt-notice.signal", "TERM")).unwrap();
    let none = m.submit(hour().attribute("preempt-notice.before", 0)).unwrap();
    m.advance(1801.0);
    m.assert_exception(own, "preempt-notice", "its time is up in 30m");
    assert_eq!(m.signals(own), [15]);
    m.advance(1700.0);
    assert_eq!((told(&m, none), told(&m, own)), (0, 1));
    let refused = |m: &mut TestManager, job: TestJob| m.submit(job).unwrap_err().text();
    let text = refused(&mut m, hour().attribute("preempt-notice.before", "2h"));
    assert_eq!(text, "preempt-notice: before is 2h, and the job has 1h in all");
    let text = refused(&mut m, hour().attribute("preempt-notice.signal", "NOSUCH"));
    assert!(
        text.starts_with("attributes.system.preempt-notice: unknown signal `NOSUCH`"),
        "{text}"
    );
    let text = refused(&mut m, hour().attribute("preempt-notice.after", "1m"));
    assert!(text.starts_with("attributes.system.preempt-notice: unknown"), "{text}");
}

#[test]
fn a_job_with_a_longer_duration_is_notified_again() {
    let mut m = manager();
    let id = m.submit(hour()).unwrap();
    m.advance(1000.0);
    m.update(id, "attributes.system.duration", 7200.0).unwrap();
    m.advance(2500.0);
    assert_eq!(told(&m, id), 0);
    m.advance(3200.0);
    assert_eq!(told(&m, id), 1);
    m.update(id, "attributes.system.duration", 14400.0).unwrap();
    m.advance(7200.0);
    assert_eq!(told(&m, id), 2);
}

#[test]
fn impossible_settings_are_refused_at_start() {
    for (conf, says) in [
        (json!({}), "before must be set to how long before its end a job is notified"),
        (json!({"before": "infinity"}), "before must be set to how long"),
        (json!({"before": "1m", "signal": "NOSUCH"}), "unknown signal `NOSUCH`"),
        (json!({"befor": "1m"}), r#"did you mean "before"?"#),
    ] {
        let text = try_manager(conf).err().unwrap().text();
        assert!(text.contains("[plugins.preempt-notice]: ") && text.contains(says), "{text}");
    }
}

#[test]
fn only_a_loaded_plugin_notifies_running_jobs() {
    let mut m = manager();
    let id = m.submit(hour()).unwrap();
    m.remove_plugin("preempt-notice").unwrap();
    m.advance(2000.0);
    m.load_plugin("preempt-notice", json!({})).unwrap();
    m.advance(1001.0);
    assert_eq!(told(&m, id), 1);
    // Reloaded after the notice, it doesn't repeat it.
    m.reload_plugin("preempt-notice", json!({})).unwrap();
    m.advance(100.0);
    assert_eq!(told(&m, id), 1);
}

#[test]
fn a_kill_at_any_moment_causes_no_second_notice() {
    for steps in 0.. {
        let mut m = manager();
        m.hold_scheduling().unwrap();
        let id = m.submit(hour()).unwrap();
        m.crash_in(steps);
        // The submission fails when the manager crashes during it.
        let _ = m.scheduling(true);
        m.advance(3300.0);
        let died = m.is_dead();
        m.crash_and_restart();
        m.scheduling(true).unwrap();
        // The job may have started only after the restart.
        m.advance(if told(&m, id) == 0 { 3300.0 } else { 0.0 });
        assert_eq!(told(&m, id), 1, "{steps} steps");
        if !died {
            break;
        }
    }
}
