//! Commands that wait for jobs, or act on many of them, give users and scripts the documented output and exit
//! codes.

use std::process::Stdio;

use jobtap_tests::{Manager, jobtap, spawn, until};

/// The options of a job that ends at once.
const SHORT: &str = "--setattr=system.exec.test.run_duration=0.01s";
/// The options of a job that runs until it is canceled.
const LONG: &str = "--setattr=system.exec.test.run_duration=600s";

#[test]
fn memos_are_listed_and_only_volatile_ones_are_lost() {
    let mut m = Manager::start(jobtap());
    let id = m.submit("--urgency=hold true");
    m.wait(&id, "priority");
    m.jobtap(&format!("job memo {id} a.b=1 text=two")).ok();
    m.jobtap(&format!("job memo --volatile {id} a.c=3")).ok();
    assert_eq!(m.field(&id, "user"), r#"{"a": {"b": 1, "c": 3}, "text": "two"}"#);
    assert_eq!(m.field(&id, "user.text"), "two");
    assert_eq!(m.events(&id), "submit validate depend priority memo");
    m.stop();
    m.start_again();
    assert_eq!(m.field(&id, "user"), r#"{"a": {"b": 1}, "text": "two"}"#);
    m.jobtap(&format!("job memo {id} a")).says(1, "jobtap-job: memo: no value for key=a");
    let text = "jobtap-job: memo: guests can only add a memo to their own jobs";
    m.as_guest(&format!("job memo {id} a=1")).says(1, text);
    m.jobtap("job memo 7 a=1").says(1, "jobtap-job: memo: unknown job id");
}

#[test]
fn purge_only_counts_jobs_without_force() {
    let m = Manager::start(jobtap());
    let ids: Vec<String> = (0..3).map(|_| m.submit(&format!("{SHORT} true"))).collect();
    for id in &ids {
        m.wait(id, "clean");
    }
    let purge = |words: &str| m.jobtap(&format!("job purge {words}")).ok();
    assert_eq!(purge(""), "use --force to purge 0 of 3 inactive jobs");
    assert_eq!(purge("--num-limit=1"), "use --force to purge 2 of 3 inactive jobs");
    assert_eq!(purge("--num-limit=1 --batch=1 -f"), "purged 2 inactive jobs, 1 remaining");
    let last = ids.last().unwrap();
    assert_eq!(m.jobtap("jobs -ano {id.f58}").ok(), *last);
    assert_eq!(purge(last), "use --force to purge 1 of 1 inactive jobs");
    assert_eq!(purge(&format!("-f {last}")), "purged 1 inactive jobs, 0 remaining");
    m.jobtap(&format!("job purge -f {last}")).says(1, "jobtap-job: purge: id not found");
    let text = "jobtap-job: purge: batch must be >= 1 and <= 100";
    m.jobtap("job purge --batch=0").says(1, text);
    let text = "jobtap-job: purge: Request requires owner credentials";
    m.as_guest("job purge").says(1, text);
}

#[test]
fn configured_limits_purge_jobs() {
    let m = Manager::start_with(jobtap(), "[job-manager]\ninactive-num-limit = 0\n");
    let id = m.submit(&format!("{SHORT} true"));
    until("the job is purged", || m.jobtap(&format!("jobs {id}")).code != 0);
    m.configure("[job-manager]\ninactive-age-limit = \"soon\"\n");
    let refused = m.jobtap("config reload");
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("job-manager.inactive-age-limit: invalid FSD"), "{refused:?}");
}

#[test]
fn raiseall_and_killall_act_only_with_force() {
    let m = Manager::start(jobtap());
    let held = m.submit("--urgency=hold true");
    let runs = m.submit_args(&["sh", "-c", "sleep 600"]);
    m.wait(&runs, "start");
    m.jobtap("job raiseall test").says(0, "jobtap-job: Command matched 2 jobs (-f to confirm)");
    let words = "job raiseall -s 0 -S pending -f cancel not needed";
    m.jobtap(words).says(0, "jobtap-job: Raised exception on 1 jobs (0 errors)");
    m.wait(&held, "clean");
    m.jobtap("job killall").says(0, "jobtap-job: Command matched 1 jobs (-f to confirm)");
    m.jobtap("job killall -f -s KILL").says(0, "jobtap-job: Killed 1 jobs (0 errors)");
    assert_eq!(m.jobtap(&format!("job status {runs}")).code, 137);
    m.jobtap("job killall -u all").says(0, "jobtap-job: Command matched 0 jobs");
    m.jobtap("job killall -s NOSUCH").says(1, "jobtap-job: killall: Invalid signal NOSUCH");
    let text = "jobtap-job: killall: guests can only kill their own jobs";
    m.as_guest("job killall -u all").says(1, text);
    let text = "jobtap-job: Exceptions cannot be raised on inactive jobs";
    m.jobtap("job raiseall -S inactive test").says(1, text);
}

#[test]
fn wait_answers_once_for_each_waitable_job() {
    let m = Manager::start(jobtap());
    let good = m.submit(&format!("--flags=waitable {SHORT} true"));
    assert_eq!(m.jobtap(&format!("job wait {good}")).code, 0);
    let gone = "jobtap-job: invalid job id, or job may be inactive and not waitable";
    m.jobtap(&format!("job wait {good}")).says(2, gone);
    m.jobtap("job wait").says(2, "jobtap-job: there are no more waitable jobs");
    let plain = m.submit("--urgency=hold true");
    let text = "jobtap-job: job was not submitted with FLUX_JOB_WAITABLE";
    m.jobtap(&format!("job wait {plain}")).says(2, text);
    let bad = m.submit_args(&["--flags=waitable", "sh", "-c", "exit 3"]);
    let output = m.jobtap("job wait");
    assert_eq!(output.stdout.trim_end(), bad);
    output.says(1, "jobtap-job: task(s) exited with exit code 3");
}

#[test]
fn wait_all_reports_failures_and_with_verbose_successes() {
    let m = Manager::start(jobtap());
    let good = m.submit(&format!("--flags=waitable {SHORT} true"));
    let canceled = m.submit(&format!("--flags=waitable {LONG} true"));
    m.jobtap(&format!("job raise -m enough {canceled}")).ok();
    let output = m.jobtap("job wait --all -v");
    let mut lines: Vec<&str> = output.stderr.lines().collect();
    lines.sort_unstable();
    let mut wanted = [
        format!("{good}: job completed successfully"),
        format!("{canceled}: Fatal exception type=cancel enough"),
    ];
    wanted.sort_unstable();
    assert_eq!((output.code, lines), (1, wanted.iter().map(String::as_str).collect()));
    assert_eq!(m.jobtap("job wait --all").code, 0);
}

#[test]
fn an_abandoned_wait_consumes_no_result() {
    let m = Manager::start(jobtap());
    let id = m.submit(&format!("--flags=waitable {LONG} true"));
    let mut waiter = m.command(["job", "wait", &id]);
    let mut waiter = spawn(waiter.stdin(Stdio::null()).stderr(Stdio::null()));
    // Returns once the first waiter is registered, since no other waitable job is left then.
    assert_eq!(m.jobtap("job wait --all").code, 0);
    let wait = format!("job wait {id}");
    let taken = "jobtap-job: job id already has a waiter\n";
    assert_eq!(m.jobtap(&wait).stderr, taken);
    waiter.kill().unwrap();
    waiter.wait().unwrap();
    m.jobtap(&format!("cancel {id}")).ok();
    until("its end is told", || m.jobtap(&wait).stderr != taken);
}

#[test]
fn drain_and_idle_wait_for_jobs() {
    let m = Manager::start(jobtap());
    assert_eq!(m.jobtap("queue drain").ok(), "");
    let held = m.submit("--urgency=hold true");
    let runs = m.submit(&format!("{LONG} true"));
    m.wait(&runs, "start");
    m.jobtap("queue idle -t 0.1s").says(1, "jobtap-queue: ERROR: idle: timeout");
    m.jobtap(&format!("cancel {runs}")).ok();
    assert_eq!(m.jobtap("queue idle -t 60s").ok(), "1 jobs");
    m.jobtap("queue drain -t 0.1s").says(1, "jobtap-queue: ERROR: drain: timeout");
    m.jobtap(&format!("cancel {held}")).ok();
    m.jobtap("queue drain -t 60s").ok();
    assert_eq!(m.jobtap("queue idle --quiet").ok(), "");
    let text = "jobtap-queue: ERROR: drain: Request requires owner credentials";
    m.as_guest("queue drain").says(1, text);
    m.jobtap("queue drain -t x").says(1, "jobtap-queue: ERROR: invalid Flux standard duration");
}

#[test]
fn the_manager_counts_its_jobs() {
    let m = Manager::start(jobtap());
    let done = m.submit("true");
    m.wait(&done, "clean");
    m.submit("--urgency=hold true");
    assert_eq!(m.jobtap("module stats -p active_jobs job-manager").ok(), "1");
    assert_eq!(m.jobtap("module stats --parse=inactive_jobs job-manager").ok(), "1");
    let refused = m.jobtap("module stats -p nosuch job-manager");
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
}

#[test]
fn private_mode_shows_a_guest_only_their_own_jobs() {
    let m = Manager::start_with(jobtap(), "[exec.testexec]\nallow-guests = true\n");
    let theirs = m.submit(&format!("{LONG} true"));
    let own = m.as_guest(&format!("submit {LONG} true")).ok();
    let listed = || m.as_guest("jobs -Ano {id.f58}").ok();
    assert_eq!(listed().lines().count(), 2);
    let array = m.jobtap("bulksubmit --array true ::: 1").ok();
    m.wait(&format!("{array}[0]"), "clean");
    m.jobtap("config set access.private-mode true").ok();
    assert_eq!(listed(), own);
    let reason = m.as_guest(&format!("job why {own}")).ok();
    assert!(!reason.contains(&theirs), "{reason}");
    m.as_guest(&format!("cancel {own}")).ok();
    let denied = "Operation not permitted";
    for id in [theirs.as_str(), "f2345"] {
        for words in ["job eventlog", "job memo ID a=1", "job urgency ID 7", "job why"] {
            let words = match words.contains("ID") {
                true => words.replace("ID", id),
                false => format!("{words} {id}"),
            };
            let output = m.as_guest(&words);
            assert!(output.code == 1 && output.stderr.contains(denied), "{words}: {output:?}");
        }
    }
    let cancel = |id: &str| m.as_guest(&format!("cancel {id}[0]")).stderr.replace(id, "ID");
    assert!(cancel(&array).contains(denied), "{}", cancel(&array));
    assert_eq!(cancel(&array), cancel("f2345"));
    for words in ["job stats", "housekeeping list"] {
        assert!(m.as_guest(words).stderr.contains(denied), "{words}");
    }
    assert_eq!(m.jobtap("jobs -Ano {id.f58}").ok().lines().count(), 1);
    m.jobtap("config set access.roles.admin.users [77]").ok();
    assert_eq!(listed(), theirs);
}
