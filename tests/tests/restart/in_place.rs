//! `module reload job-manager` restarts the manager inside its process: the instance goes on, and jobs keep
//! running.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use jobtap_tests::{Manager, jobtap, spawn, temporary};

#[test]
fn jobs_keep_running_through_a_restart_in_place() {
    let statedir = temporary();
    let m = Manager::start_in(jobtap(), statedir.path(), &[]);
    let pid = m.pid();
    let done = m.submit("true");
    m.wait(&done, "clean");
    let runs = m.submit("sleep 600");
    m.wait(&runs, "start");
    let held = m.submit("--urgency=hold true");
    let after = m.submit(&format!("--dependency=afterany:{runs} true"));
    for _ in 0..3 {
        m.jobtap("module reload job-manager").ok();
    }
    assert_eq!(m.pid(), pid);
    assert_eq!(m.field(&done, "result"), "COMPLETED");
    assert_eq!(m.field(&runs, "state"), "RUN");
    assert_eq!(m.field(&held, "state"), "SCHED");
    m.jobtap(&format!("cancel {runs}")).ok();
    m.wait(&runs, "clean");
    m.wait(&after, "clean");
    assert_eq!(m.field(&runs, "result"), "CANCELED");
    m.jobtap(&format!("job urgency {held} 16")).ok();
    m.wait(&held, "clean");
    assert_eq!(
        m.events(&held),
        "submit validate depend priority flux-restart priority flux-restart priority \
         flux-restart priority urgency priority alloc start finish release free clean"
    );
}

#[test]
fn a_restart_in_place_keeps_configuration_and_state() {
    let script = "jobtap config load <<< '[queues.debug]' && jobtap queue stop -a -m away && \
                  id=$(jobtap submit -q debug true) && jobtap module reload job-manager && \
                  jobtap queue status && jobtap jobs -no '{queue} {state}' $id && \
                  jobtap queue start -a && jobtap job wait-event $id clean && \
                  jobtap job status $id && echo done";
    let mut start = jobtap_tests::clean(jobtap());
    start.args(["start", "bash", "-c", script]);
    let out = jobtap_tests::run(&mut start).ok();
    assert!(out.contains("debug: Scheduling is stopped: away"), "{out}");
    assert!(out.contains("debug SCHED"), "{out}");
    assert!(out.ends_with("done"), "{out}");
}

#[test]
fn watchers_and_archives_do_not_delay_a_restart() {
    let statedir = temporary();
    let m = Manager::start_in(jobtap(), statedir.path(), &[]);
    let runs = m.submit("sleep 600");
    m.wait(&runs, "start");
    let started = |words: &[&str]| {
        let mut command = m.command(words);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        spawn(&mut command)
    };
    let mut journal = started(&["job", "journal"]);
    let mut lines = BufReader::new(journal.stdout.take().unwrap());
    lines.read_line(&mut String::new()).unwrap();
    let dump = statedir.path().join("dump.tar");
    let mut dumping = started(&["dump", dump.to_str().unwrap()]);
    m.jobtap("module reload job-manager").ok();
    journal.wait().unwrap();
    dumping.wait().unwrap();
    assert_eq!(m.field(&runs, "state"), "RUN");
}

#[test]
fn unknown_modules_and_guests_are_refused() {
    let m = Manager::start(jobtap());
    let refused = |words: &str, text: &str| {
        let out = m.jobtap(words);
        assert_eq!(out.code, 1, "{words}");
        assert_eq!(out.stderr.trim_end(), text);
    };
    refused("module reload nope", "jobtap-module: reload nope: nope not found");
    refused(
        "module reload sched-simple mode=limited",
        "jobtap-module: reload sched-simple: parts of the manager have no arguments: use the configuration",
    );
    let out = m.as_guest("module reload job-manager");
    assert_eq!(out.stderr.trim_end(), "jobtap-module: Request requires owner credentials");
    // `job-list` is a part of the manager; reloading it restarts nothing.
    m.jobtap("module reload -f job-list").ok();
}
