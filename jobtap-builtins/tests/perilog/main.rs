//! `perilog` in virtual time: the order of events and the notes are Flux's, and a crash or a reload leaves no
//! prolog or epilog open.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

mod restart;
mod waiting;

use std::io::ErrorKind;

use jobtap_builtins::{Perilog, PriorityDefault};
use jobtap_core::job::WaitStatus;
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::{Value, json};

const BEFORE: &str = "submit validate depend priority alloc";

fn conf(prolog: Value, epilog: Value) -> Value {
    let mut tables = json!({});
    for (name, table) in [("prolog", prolog), ("epilog", epilog)] {
        if !table.is_null() {
            tables[name] = table;
        }
    }
    json!({ "job-manager": tables })
}

/// Returns a configuration that loads the plugin.
fn loaded(mut config: Value) -> Value {
    config["job-manager"]["plugins"] = json!([{"load": "perilog.so"}]);
    config
}

fn manager_on(hosts: u32, config: Value) -> TestManager {
    let builder = TestManager::new().plugin::<PriorityDefault>().plugin::<Perilog>();
    let mut m = builder.hosts(hosts).config(loaded(config)).start();
    m.hold_processes();
    m
}

fn manager(prolog: Value, epilog: Value) -> TestManager {
    manager_on(1, conf(prolog, epilog))
}

fn both() -> TestManager {
    manager(json!({"command": ["pro"]}), json!({"command": ["epi"]}))
}

fn code(code: u8) -> WaitStatus {
    WaitStatus::from_exit_code(code)
}

fn running(m: &TestManager) -> Vec<String> {
    m.running_processes().map(|(process, _)| process.program.clone()).collect()
}

fn signals(m: &TestManager) -> Vec<i32> {
    m.running_processes().flat_map(|(_, signals)| signals.to_vec()).collect()
}

/// Returns the status in an event of a job, such as `prolog-finish`.
fn status(m: &TestManager, id: JobId, event: &str) -> i64 {
    let log = m.eventlog(id);
    let finish = log.iter().find(|entry| entry.name == event).unwrap();
    finish.context.as_ref().unwrap()["status"].as_i64().unwrap()
}

#[track_caller]
fn after_alloc(m: &TestManager, id: JobId, events: &str) {
    m.assert_events(id, &format!("{BEFORE} {events}"));
}

#[test]
fn prolog_before_start_and_epilog_before_free() {
    let mut m = both();
    let id = m.submit(TestJob::new()).unwrap();
    after_alloc(&m, id, "prolog-start");
    m.end_process("pro", code(0));
    after_alloc(&m, id, "prolog-start prolog-finish start");
    m.finish(id, 0);
    after_alloc(&m, id, "prolog-start prolog-finish start finish epilog-start release");
    m.end_process("epi", code(0));
    after_alloc(
        &m,
        id,
        "prolog-start prolog-finish start finish epilog-start release epilog-finish free clean",
    );
    assert_eq!((status(&m, id, "prolog-finish"), status(&m, id, "epilog-finish")), (0, 0));
}

#[test]
fn the_script_knows_its_job() {
    let mut m = manager(json!({"command": ["pro", "-v", "x"]}), Value::Null);
    let id = m.submit(TestJob::new().user(7)).unwrap();
    let process = &m.started_processes()[0];
    assert_eq!(process.args, ["-v", "x"]);
    for names in ["FLUX_JOB", "JOBTAP_JOB"] {
        assert_eq!(process.env[&format!("{names}_ID")], id.to_string());
        assert_eq!(process.env[&format!("{names}_RANKS")], "0");
        assert_eq!(process.env[&format!("{names}_USERID")], "7");
    }
}

#[test]
fn without_a_table_no_script_is_run() {
    let mut m = manager(Value::Null, Value::Null);
    let id = m.submit(TestJob::new()).unwrap();
    m.finish(id, 0);
    after_alloc(&m, id, "start finish release free clean");
}

#[test]
fn a_failed_prolog_ends_the_job_which_waits_for_its_epilog() {
    let mut m = both();
    let id = m.submit(TestJob::new()).unwrap();
    m.end_process("pro", code(3));
    after_alloc(&m, id, "prolog-start epilog-start exception prolog-finish");
    m.assert_exception(id, "prolog", "prolog exited with code=3 on testhost0 (rank 0)");
    assert_eq!(status(&m, id, "prolog-finish"), 768);
    m.assert_state(id, State::Cleanup);
    m.end_process("epi", code(0));
    after_alloc(
        &m,
        id,
        "prolog-start epilog-start exception prolog-finish epilog-finish free clean",
    );
}

#[test]
fn a_failed_prolog_without_an_epilog() {
    let mut m = manager(json!({"command": ["pro"]}), Value::Null);
    let id = m.submit(TestJob::new()).unwrap();
    m.end_process("pro", WaitStatus::from_signal(9));
    after_alloc(&m, id, "prolog-start exception prolog-finish free clean");
    m.assert_exception(id, "prolog", "prolog killed by signal 9 on testhost0 (rank 0)");
    // A shell reports a signal by its exit code.
    let id = m.submit(TestJob::new()).unwrap();
    m.end_process("pro", code(137));
    m.assert_exception(id, "prolog", "prolog killed by signal 9 on testhost0 (rank 0)");
}

#[test]
fn a_command_that_cannot_be_started_is_reported() {
    let table = |name: &str| json!({"command": [name], "per-rank": true});
    let mut m = manager_on(2, conf(table("pro"), table("epi")));
    let job = || TestJob::new().nodes(2).ntasks(2);
    for (kind, code, reason) in [
        (ErrorKind::NotFound, 127, "entity not found"),
        (ErrorKind::PermissionDenied, 126, "permission denied"),
        (ErrorKind::Other, 126, "other error"),
    ] {
        let id = m.submit(job()).unwrap();
        m.end_process("pro", WaitStatus::SUCCESS);
        m.fail_process("pro", kind);
        let note = format!("prolog exited with code={code} on testhost1 (rank 1)");
        m.assert_exception(id, "prolog", &note);
        m.assert_logged(&format!("{id}: prolog: testhost1 (rank 1): pro: {reason}"));
        assert_eq!(status(&m, id, "prolog-finish"), i64::from(code) << 8);
        assert_eq!(drained(&m)["1"]["reason"], format!("prolog failed for job {id}"));
        m.undrain_nodes("1").unwrap();
        m.end_process("epi", WaitStatus::SUCCESS);
        m.end_process("epi", WaitStatus::SUCCESS);
    }

    let id = m.submit(job()).unwrap();
    m.end_process("pro", WaitStatus::SUCCESS);
    m.end_process("pro", WaitStatus::SUCCESS);
    m.finish(id, 0);
    m.fail_process("epi", ErrorKind::NotFound);
    m.fail_process("epi", ErrorKind::PermissionDenied);
    m.assert_exception(id, "epilog", "epilog exited with code=127 on testhost[0-1] (rank 0-1)");
    m.assert_logged(&format!("{id}: epilog: testhost1 (rank 1): epi: permission denied"));
    assert_eq!(m.job(id).result(), Some(JobResult::Completed));
    m.assert_state(id, State::Inactive);
}

#[test]
fn a_single_script_names_the_host_of_rank_0() {
    let mut m = manager_on(2, conf(json!({"command": ["pro"]}), Value::Null));
    m.drain_nodes("0", "memory").unwrap();
    let id = m.submit(TestJob::new()).unwrap();
    assert_eq!(m.job(id).resources().unwrap().ranks().to_string(), "1");
    m.end_process("pro", code(3));
    m.assert_exception(id, "prolog", "prolog exited with code=3 on testhost0 (rank 0)");
}

#[test]
fn a_failed_epilog_is_recorded_without_effect() {
    let mut m = manager(Value::Null, json!({"command": ["epi"]}));
    let id = m.submit(TestJob::new()).unwrap();
    m.finish(id, 0);
    m.end_process("epi", code(9));
    after_alloc(&m, id, "start finish epilog-start release exception epilog-finish free clean");
    m.assert_exception(id, "epilog", "epilog exited with code=9 on testhost0 (rank 0)");
    assert_eq!(status(&m, id, "epilog-finish"), 2304);
    assert_eq!(m.job(id).result(), Some(JobResult::Completed));
}

#[test]
fn a_cancel_during_the_prolog_asks_it_to_end() {
    let mut m = both();
    let id = m.submit(TestJob::new()).unwrap();
    m.cancel(id).unwrap();
    assert_eq!((running(&m), signals(&m)), (vec!["pro".to_owned()], vec![15]));
    assert_eq!(m.query_plugin("perilog").unwrap()["procs"][id.to_string()]["state"], "canceled");
    // A second exception changes nothing.
    m.cancel(id).unwrap();
    assert_eq!(signals(&m), [15]);
    m.end_process("pro", WaitStatus::from_signal(15));
    m.end_process("epi", code(0));
    after_alloc(
        &m,
        id,
        "prolog-start exception exception epilog-start prolog-finish epilog-finish free clean",
    );
    assert_eq!(status(&m, id, "prolog-finish"), 15);
}

#[test]
fn a_canceled_prolog_that_ignores_sigterm_is_killed() {
    let mut m =
        manager(json!({"command": ["pro"], "kill-timeout": 10}), json!({"command": ["epi"]}));
    let id = m.submit(TestJob::new()).unwrap();
    m.cancel(id).unwrap();
    m.advance(11.0);
    m.assert_logged(&format!("{id}: timed out waiting for SIGTERM to terminate prolog"));
    m.assert_exception(id, "prolog", "prolog canceled then timed out on testhost0 (rank 0)");
    assert_eq!(running(&m), ["epi"]);
    m.end_process("epi", code(0));
    m.assert_state(id, State::Inactive);
    assert_eq!(m.job(id).result(), Some(JobResult::Canceled));
}

#[test]
fn a_prolog_over_its_time_limit_ends_the_job() {
    let mut m = manager(json!({"command": ["pro"], "timeout": "5m"}), Value::Null);
    let ends = m.submit(TestJob::new()).unwrap();
    m.advance(299.0);
    let procs = m.query_plugin("perilog").unwrap()["procs"][ends.to_string()].clone();
    assert_eq!((&procs["state"], &procs["remaining_time"]), (&json!("running"), &json!(1.0)));
    m.advance(2.0);
    assert_eq!(signals(&m), [15]);
    // A prolog that exits with 0 after SIGTERM was still interrupted.
    m.end_process("pro", code(0));
    m.assert_exception(ends, "prolog", "prolog timed out on testhost0 (rank 0)");
    m.assert_state(ends, State::Inactive);

    let hangs = m.submit(TestJob::new()).unwrap();
    m.advance(301.0);
    m.advance(61.0);
    m.assert_exception(hangs, "prolog", "prolog timed out on testhost0 (rank 0)");
    assert_eq!(status(&m, hangs, "prolog-finish"), 9);
    m.assert_state(hangs, State::Inactive);
    assert!(running(&m).is_empty());
}

#[test]
fn an_epilog_has_no_time_limit_unless_said_and_is_not_canceled() {
    let mut m = both();
    let id = m.submit(TestJob::new()).unwrap();
    m.end_process("pro", code(0));
    m.finish(id, 0);
    m.advance(1e6);
    m.raise(id, "site", 0, "no").unwrap();
    assert!(signals(&m).is_empty());
    m.end_process("epi", code(0));
    m.assert_state(id, State::Inactive);
}

#[test]
fn an_epilog_is_canceled_where_the_site_says_so() {
    let epilog = json!({"command": ["epi"], "cancel-on-exception": true});
    let mut m = manager(json!({"command": ["pro"]}), epilog);
    let id = m.submit(TestJob::new()).unwrap();
    m.end_process("pro", code(0));
    m.finish(id, 0);
    m.raise(id, "site", 0, "no").unwrap();
    assert_eq!(signals(&m), [15]);
    m.end_process("epi", WaitStatus::from_signal(15));
    m.assert_state(id, State::Inactive);

    // The exception of a failed prolog doesn't cancel the epilog.
    let id = m.submit(TestJob::new()).unwrap();
    m.end_process("pro", code(1));
    assert_eq!((running(&m), signals(&m)), (vec!["epi".to_owned()], vec![]));
    m.end_process("epi", code(0));
    m.assert_state(id, State::Inactive);
}

#[test]
fn an_uncanceled_prolog_ends_before_the_epilog_starts() {
    let prolog = json!({"command": ["pro"], "cancel-on-exception": false});
    let mut m = manager(prolog, json!({"command": ["epi"]}));
    let id = m.submit(TestJob::new()).unwrap();
    m.cancel(id).unwrap();
    assert_eq!((running(&m), signals(&m)), (vec!["pro".to_owned()], vec![]));
    m.end_process("pro", code(0));
    assert_eq!(running(&m), ["epi"]);
    m.end_process("epi", code(0));
    after_alloc(
        &m,
        id,
        "prolog-start exception epilog-start prolog-finish epilog-finish free clean",
    );
}

#[test]
fn an_exception_that_is_not_fatal_is_ignored() {
    let mut m = both();
    let id = m.submit(TestJob::new()).unwrap();
    m.raise(id, "site", 1, "look").unwrap();
    assert!(signals(&m).is_empty());
    m.end_process("pro", code(0));
    m.assert_state(id, State::Run);
}

#[test]
fn per_rank_names_the_ranks_that_failed() {
    let prolog = json!({"command": ["pro"], "per-rank": true});
    let mut m = manager_on(4, conf(prolog, Value::Null));
    let id = m.submit(TestJob::new().nodes(4).ntasks(4)).unwrap();
    let query =
        |m: &mut TestManager| m.query_plugin("perilog").unwrap()["procs"][id.to_string()].clone();
    let told = query(&mut m);
    assert_eq!(
        (&told["total"], &told["active"], &told["active_ranks"]),
        (&json!(4), &json!(4), &json!("0-3"))
    );
    let ranks: Vec<&str> = m.started_processes().iter().map(|p| &*p.env["JOBTAP_RANK"]).collect();
    assert_eq!(ranks, ["0", "1", "2", "3"]);
    m.end_process("pro", code(0));
    m.end_process("pro", code(1));
    m.end_process("pro", code(0));
    assert_eq!(query(&mut m)["active_ranks"], "3");
    m.assert_state(id, State::Run);
    m.end_process("pro", code(2));
    m.assert_exception(id, "prolog", "prolog exited with code=2 on testhost[1,3] (rank 1,3)");
}

#[test]
fn per_rank_timeouts_name_only_the_late_ranks() {
    let prolog = json!({"command": ["pro"], "per-rank": true, "timeout": "60s"});
    let mut m = manager_on(2, conf(prolog, Value::Null));
    let id = m.submit(TestJob::new().nodes(2).ntasks(2)).unwrap();
    m.end_process("pro", code(0));
    m.advance(61.0);
    m.end_process("pro", WaitStatus::from_signal(15));
    m.assert_exception(id, "prolog", "prolog timed out on testhost1 (rank 1)");
}

#[test]
fn output_is_logged_except_ignored_lines() {
    use jobtap_core::plugin::Stream;
    let tables =
        json!({"prolog": {"command": ["pro"]}, "perilog": {"log-ignore": ["^debug:", "^$"]}});
    let mut m = manager_on(1, json!({ "job-manager": tables }));
    let id = m.submit(TestJob::new()).unwrap();
    for text in ["hello", "debug: x", ""] {
        m.process_prints("pro", Stream::Stdout, text);
    }
    m.process_prints("pro", Stream::Stderr, "no space");
    let log: Vec<_> = m.log().map(|(level, text)| (level.name(), text.to_owned())).collect();
    let place = format!("{id}: prolog: testhost0 (rank 0)");
    let [.., out, err] = &log[..] else { panic!("{log:?}") };
    assert_eq!(*out, ("info", format!("{place}: stdout: hello")));
    assert_eq!(*err, ("err", format!("{place}: stderr: no space")));
    assert!(!log.iter().any(|(_, text)| text.contains("debug: x")));
}

#[test]
fn a_query_shows_the_configuration() {
    let mut m = manager(json!({"command": ["pro", "a"], "timeout": "90s"}), Value::Null);
    assert_eq!(
        m.query_plugin("perilog.so").unwrap()["conf"],
        json!({
            "prolog": {"command": ["pro", "a"], "per_rank": false, "cancel_on_exception": true,
                       "timeout": 90.0, "kill-timeout": 60.0},
            "epilog": {},
        })
    );
}

#[test]
fn a_new_configuration_affects_later_starts_only() {
    let mut m = both();
    let id = m.submit(TestJob::new()).unwrap();
    m.configure(conf(json!({"command": ["other"]}), Value::Null)).unwrap();
    m.end_process("pro", code(0));
    m.assert_state(id, State::Run);
    m.submit(TestJob::new()).unwrap();
    assert_eq!(running(&m), ["other"]);
    let refusal = m.configure(conf(json!({"command": "x"}), Value::Null)).unwrap_err();
    assert_eq!(refusal, "[job-manager.prolog]: command must be an array");
}

fn drained(m: &TestManager) -> Value {
    m.resource_status()["drain"].clone()
}

#[test]
fn nodes_where_it_failed_are_drained_when_it_is_run_per_rank() {
    let script = |name: &str| json!({"command": [name], "per-rank": true});
    let mut m = manager_on(2, conf(script("pro"), script("epi")));
    let job = || TestJob::new().nodes(2).ntasks(2);
    let id = m.submit(job()).unwrap();
    m.end_process("pro", code(0));
    m.end_process("pro", code(1));
    m.end_process("epi", code(0));
    m.end_process("epi", code(0));
    assert_eq!(drained(&m)["1"]["reason"], format!("prolog failed for job {id}"));
    m.undrain_nodes("1").unwrap();

    let id = m.submit(job()).unwrap();
    m.end_process("pro", code(0));
    m.end_process("pro", code(0));
    m.finish(id, 0);
    m.end_process("epi", code(1));
    m.end_process("epi", code(0));
    assert_eq!(drained(&m)["0"]["reason"], format!("epilog failed for job {id}"));
}

#[test]
fn a_single_script_drains_only_the_node_where_it_hangs() {
    let mut m = manager(json!({"command": ["pro"], "timeout": "60s"}), Value::Null);
    m.submit(TestJob::new()).unwrap();
    m.end_process("pro", code(1));
    let canceled = m.submit(TestJob::new()).unwrap();
    m.cancel(canceled).unwrap();
    m.end_process("pro", WaitStatus::from_signal(15));
    let late = m.submit(TestJob::new()).unwrap();
    m.advance(61.0);
    m.end_process("pro", WaitStatus::from_signal(15));
    m.assert_state(late, State::Inactive);
    assert_eq!(drained(&m), json!({}));
    let hangs = m.submit(TestJob::new()).unwrap();
    m.cancel(hangs).unwrap();
    m.advance(61.0);
    assert_eq!(
        drained(&m)["0"]["reason"],
        format!("prolog canceled then timed out for job {hangs}")
    );
}

#[test]
fn a_node_that_is_drained_already_keeps_its_reason() {
    let prolog = json!({"command": ["pro"], "per-rank": true});
    let mut m = manager_on(1, conf(prolog, Value::Null));
    m.submit(TestJob::new()).unwrap();
    m.drain_nodes("0", "memory").unwrap();
    m.end_process("pro", code(1));
    assert_eq!(drained(&m)["0"]["reason"], "memory");
}

#[test]
fn a_failed_epilog_raises_an_exception_naming_its_ranks() {
    let epilog = json!({"command": ["epi"], "per-rank": true});
    let mut m = manager_on(2, conf(Value::Null, epilog));
    let id = m.submit(TestJob::new().nodes(2).ntasks(2)).unwrap();
    m.finish(id, 0);
    m.end_process("epi", WaitStatus::from_signal(9));
    m.end_process("epi", code(0));
    after_alloc(&m, id, "start finish epilog-start release exception epilog-finish free clean");
    let log = m.eventlog(id);
    let raised = log.iter().find_map(EventEntry::exception).unwrap();
    assert_eq!((raised.kind, raised.severity), ("epilog", 2));
    assert_eq!(raised.note, "epilog killed by signal 9 on testhost0 (rank 0)");
    assert_eq!(m.job(id).result(), Some(JobResult::Completed));
}
