//! Bulk processes, which run on several ranks: their time limit, how they are ended, and what is reported about them.

use std::io::ErrorKind;

use jobtap_core::job::WaitStatus;
use jobtap_core::plugin::{Bulk, BulkControl, BulkEnd, BulkStop};
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::{Value, json};

/// Runs `check` for ranks 0 to 2 when a job is new; the job's name says how.
#[derive(Debug, Default)]
struct Checks {
    running: Option<BulkControl>,
    end: Option<BulkEnd>,
}

#[jobtap_plugin(name = "checks")]
impl Checks {
    #[on("job.new")]
    fn start(&mut self, job: &Job, remote: Remote<Self>) {
        let ranks = if job.jobspec().name() == Some("none") { "" } else { "0-2" };
        let process = Process::new("check").for_job(job);
        let bulk = Bulk::new(&ranks.parse().unwrap_or_default(), process).kill_timeout(5.0);
        let bulk = bulk.timeout(30.0);
        let given_up = job.jobspec().name() == Some("given up");
        let bulk = if given_up { bulk.give_up_when_late() } else { bulk };
        let log = remote.clone();
        let mut child = remote.start_bulk(bulk, move |rank, line| {
            log.run(move |_, cx| cx.log(Level::Info, format!("{rank}: {}", line.text)));
        });
        self.running = Some(child.control());
        if job.jobspec().name() == Some("dropped") {
            return;
        }
        remote.clone().spawn(async move {
            if let Ok(end) = child.wait().await {
                remote.run(move |checks, cx| {
                    cx.log(Level::Info, format!("ended: {}", end.status().as_raw()));
                    checks.end = Some(end);
                });
            }
        });
    }

    #[service("stop")]
    fn stop(&self) -> bool {
        self.running.iter().for_each(BulkControl::stop);
        true
    }

    /// Reports the state of the bulk process.
    #[on("plugin.query")]
    fn query(&self, cx: Cx<'_, PluginQuery>) -> Result<QueryData, HandlerError> {
        let running = self.running.as_ref().map(|running| {
            let left = running.deadline().map(|deadline| deadline - cx.now());
            let why = running.stopped().map(|why| why == BulkStop::TimedOut);
            json!([running.total(), running.active().to_string(), why, left])
        });
        let end = self.end.as_ref().map(|end| {
            let errors: Vec<_> = end.errors().map(|(rank, e)| format!("{rank}: {e}")).collect();
            let [failed, late, killed] =
                [end.failed(), end.late.clone(), end.killed.clone()].map(|set| set.to_string());
            json!({"status": end.status(), "failed": failed, "late": late, "killed": killed,
                   "errors": errors})
        });
        let waiting = self.running.as_ref().map(|running| running.queued().to_string());
        let unbegun = self.end.as_ref().map(|end| end.not_started.to_string());
        QueryData::of(
            &json!({"running": running, "waiting": waiting, "end": end, "unbegun": unbegun}),
        )
    }
}

fn start(name: &str) -> TestManager {
    let mut m = TestManager::new().plugin::<Checks>().start();
    m.hold_processes();
    m.submit(TestJob::new().name(name)).unwrap();
    m
}

fn look(m: &mut TestManager, what: &str) -> Value {
    m.query_plugin("checks").unwrap()[what].clone()
}

fn signals(m: &TestManager) -> Vec<Vec<i32>> {
    m.running_processes().map(|(_, signals)| signals.to_vec()).collect()
}

const TIMED_OUT: bool = true;
const ASKED: bool = false;

#[test]
fn it_is_over_when_the_last_one_is() {
    let mut m = start("check");
    let ranks: Vec<_> =
        m.started_processes().iter().map(|p| p.env["JOBTAP_RANK"].clone()).collect();
    assert_eq!(ranks, ["0", "1", "2"]);
    assert_eq!(look(&mut m, "running"), json!([3, "0-2", null, 30.0]));
    m.process_prints("check", Stream::Stdout, "hello");
    m.assert_logged("0: hello");
    m.end_process("check", WaitStatus::SUCCESS);
    m.end_process("check", WaitStatus::from_exit_code(3));
    m.advance(10.0);
    assert_eq!(look(&mut m, "running"), json!([3, "2", null, 20.0]));
    assert_eq!(look(&mut m, "end"), Value::Null);
    m.end_process("check", WaitStatus::from_exit_code(1));
    let end = json!({"status": 768, "failed": "1-2", "late": "", "killed": "", "errors": []});
    assert_eq!(look(&mut m, "end"), end);
    assert_eq!(look(&mut m, "running"), json!([3, "", null, null]));
    // The time limit no longer applies.
    m.advance(100.0);
    assert_eq!(look(&mut m, "running"), json!([3, "", null, null]));
}

#[test]
fn what_takes_too_long_is_asked_to_end_and_then_killed() {
    let mut m = start("check");
    m.end_process("check", WaitStatus::SUCCESS);
    m.advance(30.0);
    assert_eq!(signals(&m), [[15], [15]]);
    assert_eq!(look(&mut m, "running"), json!([3, "1-2", TIMED_OUT, 5.0]));
    m.end_process("check", WaitStatus::from_signal(15));
    m.advance(5.0);
    assert!(signals(&m).is_empty());
    let end = json!({"status": 15, "failed": "1-2", "late": "1-2", "killed": "2", "errors": []});
    assert_eq!(look(&mut m, "end"), end);
}

#[test]
fn it_is_stopped_once() {
    let mut m = start("check");
    for _ in 0..2 {
        m.call_service("checks.stop", Value::Null).unwrap();
    }
    assert_eq!(signals(&m), [[15], [15], [15]]);
    assert_eq!(look(&mut m, "running"), json!([3, "0-2", ASKED, 5.0]));
    for _ in 0..3 {
        m.end_process("check", WaitStatus::SUCCESS);
    }
    let end = json!({"status": 0, "failed": "", "late": "0-2", "killed": "", "errors": []});
    assert_eq!(look(&mut m, "end"), end);
    m.call_service("checks.stop", Value::Null).unwrap();
    assert_eq!(look(&mut m, "running"), json!([3, "", ASKED, null]));
}

#[test]
fn what_could_not_be_started_has_failed_with_its_reason() {
    let mut m = start("check");
    m.fail_process("check", ErrorKind::NotFound);
    m.fail_process("check", ErrorKind::PermissionDenied);
    m.end_process("check", WaitStatus::SUCCESS);
    let errors = ["0: check: entity not found", "1: check: permission denied"];
    let end =
        json!({"status": 127 << 8, "failed": "0-1", "late": "", "killed": "", "errors": errors});
    assert_eq!(look(&mut m, "end"), end);
}

/// Starts the bulk process where only one process may run at a time.
fn one_by_one(name: &str) -> TestManager {
    let mut m = TestManager::new().plugin::<Checks>().start();
    m.hold_processes();
    m.limit_processes(1);
    m.submit(TestJob::new().name(name)).unwrap();
    m
}

#[test]
fn the_time_of_each_counts_from_its_own_beginning() {
    let mut m = one_by_one("check");
    for waiting in ["1-2", "2", ""] {
        assert_eq!(look(&mut m, "waiting"), waiting);
        m.advance(29.0);
        assert_eq!(signals(&m).concat(), Vec::<i32>::new());
        m.end_process("check", WaitStatus::SUCCESS);
    }
    let end = json!({"status": 0, "failed": "", "late": "", "killed": "", "errors": []});
    assert_eq!(look(&mut m, "end"), end);
}

#[test]
fn while_none_has_begun_no_time_runs_out() {
    let mut m = TestManager::new().plugin::<Checks>().start();
    m.limit_processes(0);
    m.submit(TestJob::new().name("check")).unwrap();
    m.advance(1000.0);
    assert_eq!(look(&mut m, "running"), json!([3, "0-2", null, null]));
    assert_eq!(look(&mut m, "waiting"), "0-2");
}

#[test]
fn one_that_is_late_ends_no_other() {
    let mut m = one_by_one("check");
    m.advance(30.0);
    assert_eq!(look(&mut m, "running"), json!([3, "0-2", TIMED_OUT, 5.0]));
    m.advance(5.0);
    assert_eq!(look(&mut m, "running"), json!([3, "1-2", TIMED_OUT, 30.0]));
    for _ in 0..2 {
        m.end_process("check", WaitStatus::SUCCESS);
    }
    let end = json!({"status": 9, "failed": "0", "late": "0", "killed": "0", "errors": []});
    assert_eq!(look(&mut m, "end"), end);
    assert_eq!(look(&mut m, "unbegun"), "");
}

#[test]
fn one_that_is_late_ends_the_waiting_of_others_where_that_is_asked_for() {
    let mut m = one_by_one("given up");
    m.end_process("check", WaitStatus::SUCCESS);
    m.advance(30.0);
    m.end_process("check", WaitStatus::from_signal(15));
    let end = json!({"status": 15, "failed": "1", "late": "1", "killed": "", "errors": []});
    assert_eq!(look(&mut m, "end"), end);
    assert_eq!(look(&mut m, "unbegun"), "2");
    assert_eq!(m.started_processes().len(), 2);
}

#[test]
fn what_is_stopped_before_it_began_has_neither_failed_nor_hung() {
    let mut m = one_by_one("check");
    m.call_service("checks.stop", Value::Null).unwrap();
    assert_eq!(look(&mut m, "running"), json!([3, "0", ASKED, 5.0]));
    m.advance(5.0);
    let end = json!({"status": 15, "failed": "0", "late": "0", "killed": "0", "errors": []});
    assert_eq!(look(&mut m, "end"), end);
    assert_eq!(look(&mut m, "unbegun"), "1-2");
    assert_eq!(m.started_processes().len(), 1);
}

#[test]
fn what_is_left_when_one_was_late_can_be_stopped() {
    let mut m = one_by_one("check");
    m.advance(30.0);
    m.call_service("checks.stop", Value::Null).unwrap();
    m.end_process("check", WaitStatus::SUCCESS);
    let end = json!({"status": 15, "failed": "", "late": "0", "killed": "", "errors": []});
    assert_eq!(look(&mut m, "end"), end);
    assert_eq!(look(&mut m, "running"), json!([3, "", TIMED_OUT, null]));
}

#[test]
fn for_no_ranks_it_is_over_at_once() {
    let mut m = start("none");
    assert!(m.started_processes().is_empty());
    let end = json!({"status": 0, "failed": "", "late": "", "killed": "", "errors": []});
    assert_eq!(look(&mut m, "end"), end);
}

#[test]
fn no_process_is_left_when_the_plugin_or_its_future_goes() {
    let mut m = start("dropped");
    assert_eq!(m.started_processes().len(), 3);
    assert!(signals(&m).is_empty());
    assert_eq!(look(&mut m, "running"), json!([3, "", null, null]));

    let mut m = start("check");
    m.remove_plugin("checks").unwrap();
    assert!(signals(&m).is_empty());
    m.advance(100.0);
    assert!(!m.log().any(|(_, text)| text.contains("ended")));
}
