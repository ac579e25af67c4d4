//! What `[exec]` configures for jobs that start late and for jobs that are ended, and how the executor reattaches to a
//! job after a restart.

use jobtap_core::engine::ExecEvent;
use jobtap_core::job::{JobId, State};
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager, TestManagerBuilder};
use serde_json::{Value, json};

use crate::common::ByUrgency;

const STARTED: &str = "submit validate depend priority alloc start";

fn manager() -> TestManagerBuilder {
    TestManager::new().plugin::<ByUrgency>()
}

/// A manager whose real jobs start when the test says so.
fn delayed(config: Value) -> TestManager {
    let mut m = manager().config(config).start();
    m.hold_execution();
    m
}

/// A job with a limit of 100 s whose tasks start `delay` seconds after it got its resources.
fn started_after(m: &mut TestManager, delay: f64) -> JobId {
    let id = m.submit(TestJob::new().duration(100.0)).unwrap();
    m.advance(delay);
    m.started(id);
    id
}

/// Asserts that the job's time is up `left` seconds from now.
#[track_caller]
fn assert_ends_in(m: &mut TestManager, id: JobId, left: f64) {
    m.advance(left - 0.1);
    m.assert_state(id, State::Run);
    m.advance(0.2);
    m.assert_exception(id, "timeout", "resource allocation expired");
}

/// The wait status that the job finished with.
fn status(m: &TestManager, id: JobId) -> Option<i64> {
    let log = m.eventlog(id);
    let finish = log.iter().find(|entry| entry.name == "finish")?;
    finish.context.as_ref()?.get("status")?.as_i64()
}

#[test]
fn a_start_that_is_late_by_more_than_a_quarter_of_the_duration_moves_the_end() {
    let mut m = delayed(json!({}));
    let late = started_after(&mut m, 26.0);
    assert_ends_in(&mut m, late, 100.0);
    let events = format!("{STARTED} exception finish release free clean");
    m.assert_events(late, &events);
    let in_time = started_after(&mut m, 24.0);
    assert_ends_in(&mut m, in_time, 76.0);
}

#[test]
fn how_late_a_start_may_be_is_configured_and_reloaded() {
    let mut m = delayed(json!({"exec": {"max-start-delay-percent": 50}}));
    let in_time = started_after(&mut m, 40.0);
    assert_ends_in(&mut m, in_time, 60.0);
    m.configure(json!({"exec": {"max-start-delay-percent": 0}})).unwrap();
    let late = started_after(&mut m, 1.0);
    assert_ends_in(&mut m, late, 100.0);
}

#[test]
fn a_late_start_counts_as_much_after_a_restart() {
    let config = json!({"exec": {"max-start-delay-percent": 10}});
    let mut m = delayed(config);
    let real = started_after(&mut m, 20.0);
    let own = |m: &mut TestManager| {
        let job = TestJob::new().duration(100.0).attribute("system.exec.test.override", 1);
        let job = job.attribute("system.exec.test.run_duration", "0s");
        let id = m.submit(job).unwrap();
        m.advance(20.0);
        m.override_execution(id, "start", None).unwrap();
        id
    };
    let simulated = own(&mut m);
    m.crash_and_restart();
    assert_ends_in(&mut m, real, 80.0);
    assert_ends_in(&mut m, simulated, 19.9);
}

#[test]
fn the_signal_that_ends_a_job_is_configured_and_reloaded() {
    let mut m = manager().start();
    let cancel = |m: &mut TestManager, job: TestJob| {
        let id = m.submit(job).unwrap();
        m.cancel(id).unwrap();
        status(m, id)
    };
    for (config, signal) in [
        (json!({}), 15),
        (json!({"exec": {"term-signal": "SIGINT"}}), 2),
        (json!({"exec": {"term-signal": "USR1"}}), 10),
        (json!({"exec": {"term-signal": 12}}), 12),
    ] {
        m.configure(config).unwrap();
        assert_eq!(cancel(&mut m, TestJob::new()), Some(signal));
        assert_eq!(cancel(&mut m, TestJob::new().run_for(60.0)), Some(signal));
    }
    // A job whose time is up gets a different signal.
    let id = m.submit(TestJob::new().duration(60.0)).unwrap();
    m.advance(61.0);
    assert_eq!(status(&m, id), Some(14));
}

#[test]
fn bad_values_are_refused_at_the_start_and_later() {
    for (key, value) in [("term-signal", json!("SIGNONE")), ("max-start-delay-percent", json!(-1))]
    {
        let config = json!({"exec": {key: value}});
        let named = format!("exec.{key}: ");
        let refusal = manager().config(config.clone()).try_start().err().unwrap();
        assert!(refusal.text().starts_with(&named), "{refusal}");
        let mut m = manager().config(json!({"exec": {"term-signal": "INT"}})).start();
        let refusal = m.configure(config).unwrap_err().text();
        assert!(refusal.starts_with(&named), "{refusal}");
        let id = m.submit(TestJob::new()).unwrap();
        m.cancel(id).unwrap();
        assert_eq!(status(&m, id), Some(2), "the old one is in force");
    }
}

#[test]
fn the_debug_flag_shows_that_a_running_job_is_found_again() {
    let mut m = manager().start();
    let debugged = m.submit(TestJob::new().debug()).unwrap();
    let simulated = m.submit(TestJob::new().debug().run_for(60.0)).unwrap();
    let plain = m.submit(TestJob::new()).unwrap();
    m.crash_and_restart();
    let begun =
        "submit validate depend priority debug.alloc-request alloc debug.start-request start";
    let found = format!("{begun} debug.exec-reattach-start debug.exec-reattach-finish");
    m.assert_events(debugged, &found);
    m.assert_events(simulated, &found);
    m.assert_events(plain, STARTED);
    // A repeated report changes nothing.
    m.report(ExecEvent::Reattached { id: debugged });
    m.assert_events(debugged, &found);
    m.finish(debugged, 0);
    m.report(ExecEvent::Reattached { id: debugged });
    m.assert_events(debugged, &format!("{found} finish release free clean"));
}

#[test]
fn the_nodes_of_an_unkillable_job_are_drained_and_stay_its_own() {
    let mut m = manager().hosts(3).start();
    let id = m.submit(TestJob::new().nodes(2).ntasks(2)).unwrap();
    let unkillable = |id, ranks: &str| {
        let reason = "cannot be killed".to_owned();
        ExecEvent::Unkillable { id, ranks: ranks.parse().unwrap(), reason }
    };
    // Rank 2 isn't the job's.
    m.report(unkillable(id, "1-2"));
    let drained = |m: &TestManager| m.resource_status()["drain"].clone();
    assert_eq!(drained(&m)["1"]["reason"], "cannot be killed");
    assert_eq!(drained(&m).as_object().unwrap().len(), 1);
    m.assert_events(id, STARTED);
    m.undrain_nodes("1").unwrap();
    m.finish(id, 0);
    m.report(unkillable(id, "1"));
    assert_eq!(drained(&m), json!({}), "a job that has ended has nothing left");
}

/// Crashes the manager and restarts it after `seconds`. What the jobs did meanwhile is not reported yet.
fn down_for(m: &mut TestManager, seconds: f64, meanwhile: impl FnOnce(&mut TestManager)) {
    m.hold_missed();
    m.crash_in(0);
    meanwhile(m);
    m.advance(seconds);
    m.crash_and_restart();
}

#[test]
fn a_job_that_ended_in_time_while_the_manager_was_down_has_not_timed_out() {
    let mut m = manager().start();
    let id = m.submit(TestJob::new().duration(6.0)).unwrap();
    down_for(&mut m, 7.0, |m| m.finish(id, 0));
    m.advance(0.5);
    m.assert_events(id, STARTED);
    m.report_missed();
    m.assert_events(id, &format!("{STARTED} finish release free clean"));
    assert_eq!(status(&m, id), Some(0));
}

#[test]
fn a_job_that_ended_while_the_manager_was_down_has_its_own_end() {
    let mut m = manager().start();
    let id = m.submit(TestJob::new()).unwrap();
    m.advance(10.0);
    down_for(&mut m, 100.0, |m| m.finish(id, 0));
    m.report_missed();
    m.assert_events(id, &format!("{STARTED} finish release free clean"));
    let job = m.job(id);
    let ran = job.t_cleanup().unwrap() - job.t_start().unwrap();
    assert!((ran - 10.0).abs() < 0.001, "{ran}");
    assert!(job.t_inactive().unwrap() - job.t_cleanup().unwrap() >= 99.0);
}

#[test]
fn the_end_of_a_job_is_not_later_than_now_where_the_clock_is_ahead() {
    let mut m = manager().start();
    let id = m.submit(TestJob::new()).unwrap();
    down_for(&mut m, 10.0, |_| ());
    let entry = EventEntry::new(m.now() + 3600.0, "complete", None);
    m.report(ExecEvent::Log { id, entry });
    m.report(ExecEvent::Finished { id, status: 0 });
    m.report(ExecEvent::Released { id });
    let job = m.job(id);
    assert!(job.t_cleanup().unwrap() < m.now() + 0.001);
}

#[test]
fn a_job_that_ran_on_past_its_end_while_the_manager_was_down_has_timed_out() {
    let mut m = manager().start();
    let id = m.submit(TestJob::new().duration(6.0)).unwrap();
    down_for(&mut m, 7.0, |_| ());
    m.advance(0.5);
    m.assert_state(id, State::Run);
    m.report_missed();
    m.assert_exception(id, "timeout", "resource allocation expired");
}

#[test]
fn a_shepherd_that_does_not_say_when_all_is_told_is_waited_for_only_so_long() {
    let mut m = manager().start();
    let id = m.submit(TestJob::new().duration(6.0)).unwrap();
    down_for(&mut m, 7.0, |_| ());
    assert_ends_in(&mut m, id, 10.0);
}

/// Fails jobs that already have their nodes, with an epilog that undoes something.
#[derive(Default)]
struct Refuses;

#[jobtap_plugin(name = "refuses")]
impl Refuses {
    #[on("job.state.run")]
    fn run(
        &self,
        job: &Job,
        remote: Remote<Self>,
        cx: Cx<'_, JobStateRun>,
    ) -> Result<(), HandlerError> {
        let undo = cx.fail_job_with_epilog(cx.active_job(job.id())?, "undo", "site", "no")?;
        remote.at(cx.now() + 1000.0, |_, _| undo.finish(0));
        Ok(())
    }
}

#[test]
fn a_job_that_was_never_started_is_not_lost_by_a_restart() {
    let mut m = manager().plugin::<Refuses>().start();
    let id = m.submit(TestJob::new()).unwrap();
    m.assert_state(id, State::Cleanup);
    m.crash_and_restart();
    m.assert_state(id, State::Inactive);
    assert_eq!(m.resource_status()["drain"], json!({}));
}

#[test]
fn a_job_whose_time_is_up_hears_so_after_a_restart_too() {
    let mut m = manager().start();
    let timed_out = m.submit(TestJob::new().duration(60.0)).unwrap();
    let canceled = m.submit(TestJob::new()).unwrap();
    let mut ended_by = |id, signal, end: &dyn Fn(&mut TestManager)| {
        // The exception is committed, and the manager crashes before it acts on it.
        m.crash_in(1);
        end(&mut m);
        m.crash_and_restart();
        assert_eq!(status(&m, id), Some(signal));
    };
    ended_by(canceled, 15, &|m| drop(m.raise(canceled, "cancel", 0, "")));
    ended_by(timed_out, 14, &|m| m.advance(61.0));
}

#[test]
fn a_timeout_before_its_time_ends_a_job_as_other_exceptions_do() {
    let mut m = manager().start();
    let id = m.submit(TestJob::new().duration(60.0)).unwrap();
    m.raise(id, "timeout", 0, "").unwrap();
    assert_eq!(status(&m, id), Some(15));
    assert_eq!(m.job(id).result(), Some(JobResult::Timeout));
}

#[test]
fn a_warning_that_was_due_while_the_manager_was_down_comes_late() {
    let mut m = manager().start();
    let warned = |timeleft: f64| {
        let option = json!({"signum": 12, "timeleft": timeleft});
        TestJob::new().duration(16.0).attribute("shell.options.signal", option)
    };
    let due = m.submit(warned(10.0)).unwrap();
    let not_yet = m.submit(warned(4.0)).unwrap();
    let at_start = m.submit(warned(20.0)).unwrap();
    assert_eq!(m.signals(at_start), [12]);
    m.advance(2.0);
    down_for(&mut m, 7.0, |_| ());
    assert!(m.signals(due).is_empty());
    m.report_missed();
    assert_eq!(m.signals(due), [12]);
    m.advance(4.0);
    assert_eq!((m.signals(due), m.signals(not_yet)), (&[12][..], &[12][..]));
    assert_eq!(m.signals(at_start), [12], "not again");
}

#[test]
fn the_output_of_a_job_is_stored_while_the_job_is_executed() {
    let mut m = delayed(json!({}));
    let id = m.submit(TestJob::new()).unwrap();
    let output = |text: &str| ExecEvent::Output { id, text: text.to_owned() };
    m.started(id);
    m.report(output("{\"name\":\"header\"}\n"));
    m.crash_and_restart();
    assert_eq!(m.guest_value(id, "output"), Some(json!({"name": "header"})));
    m.report(ExecEvent::Finished { id, status: 0 });
    m.report(ExecEvent::Released { id });
    m.assert_state(id, State::Inactive);
    // The executor repeats a report, as after a restart.
    m.report(output("{}"));
    assert_eq!(m.guest_value(id, "output"), Some(json!({"name": "header"})));
}

#[test]
fn a_job_has_its_time_limit_although_the_clock_is_set_forward() {
    let mut m = manager().cores(2).start();
    let job = m.submit(TestJob::new().duration(100.0)).unwrap();
    let unlimited = m.submit(TestJob::new()).unwrap();
    m.advance(40.0);
    m.set_clock_forward(86_400.0);
    m.assert_logged(
        "the clock went forward by 86400 s; ends of running jobs that moved with it: 1",
    );
    m.assert_state(unlimited, State::Run);
    assert_ends_in(&mut m, job, 60.0);
}

#[test]
fn the_end_that_moved_with_the_clock_holds_after_a_restart_and_for_a_late_start() {
    let mut m = delayed(json!({}));
    let late = started_after(&mut m, 50.0);
    m.advance(30.0);
    m.set_clock_forward(3600.0);
    m.crash_and_restart();
    assert_ends_in(&mut m, late, 70.0);
}

#[test]
fn a_job_whose_start_waits_while_the_clock_is_set_forward_has_its_time_limit() {
    let mut m = delayed(json!({}));
    let id = m.submit(TestJob::new().duration(100.0)).unwrap();
    m.set_clock_forward(3600.0);
    m.started(id);
    assert_ends_in(&mut m, id, 100.0);
}

#[test]
fn a_clock_set_forward_moves_no_job_beyond_the_end_of_the_instance() {
    let mut m = manager().cores(1).lifetime(150.0).start();
    let job = m.submit(TestJob::new().duration(100.0)).unwrap();
    m.set_clock_forward(80.0);
    assert_ends_in(&mut m, job, 70.0);
}

#[test]
fn what_waits_for_seconds_waits_on_when_the_clock_is_set_forward() {
    #[derive(Default)]
    struct Prolog;
    #[jobtap_plugin(name = "prolog")]
    impl Prolog {
        #[on("job.state.run")]
        async fn prolog(remote: Remote<Self>) -> Result<(), PrologFailed> {
            Ok(remote.timeout(60.0, remote.sleep(50.0)).await??)
        }
    }
    let mut m = manager().plugin::<Prolog>().cores(1).start();
    let job = m.submit(TestJob::new()).unwrap();
    m.set_clock_forward(3600.0);
    m.assert_events(job, "submit validate depend priority alloc prolog-start");
    m.advance(51.0);
    m.assert_events(job, "submit validate depend priority alloc prolog-start prolog-finish start");
}
