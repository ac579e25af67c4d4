//! After a `kill -9` of the manager every acknowledged job is there again: running jobs run on and finish
//! as usual, and pending jobs stay pending.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use jobtap_tests::{Manager, jobtap, spawn, temporary, until};

#[test]
fn jobs_survive_a_killed_manager() {
    // Enough cores for the three running jobs on any host.
    let mut m = Manager::start(jobtap());
    let done = m.submit("true");
    m.wait(&done, "clean");
    let files = temporary();
    let (go, pids) = (files.path().join("go"), files.path().join("pids"));
    // The jobs finish only after the manager has been killed.
    let waits_for_go = format!(
        "echo $$ >>{}; while [ ! -e {} ]; do sleep 0.02; done",
        pids.display(),
        go.display()
    );
    let ends_meanwhile = m.submit_args(&["sh", "-c", &waits_for_go]);
    let fails_meanwhile = m.submit_args(&["sh", "-c", &format!("{waits_for_go}; exit 3")]);
    let runs_on = m.submit("sleep 600");
    let waits = m.submit(&format!("--dependency=afterok:{ends_meanwhile} echo after"));
    let falls = m.submit(&format!("--dependency=afterok:{fails_meanwhile} true"));
    let held = m.submit("--urgency=hold true");
    for id in [&ends_meanwhile, &fails_meanwhile, &runs_on] {
        m.wait(id, "start");
    }
    let noted = || std::fs::read_to_string(&pids).unwrap_or_default();
    until("both jobs have noted their processes", || noted().lines().count() == 2);
    m.kill();
    std::fs::write(go, "").unwrap();
    let alive = |pid: &str| Path::new("/proc").join(pid).exists();
    until("both jobs end without a manager", || !noted().lines().any(alive));

    m.start_again();
    m.wait(&waits, "clean");
    m.wait(&falls, "clean");
    let whole = "submit validate depend priority alloc start finish release free clean";
    for id in [&done, &ends_meanwhile, &fails_meanwhile] {
        assert_eq!(m.events(id), whole);
    }
    // Nothing that was recorded before is reported again.
    for id in [&ends_meanwhile, &fails_meanwhile] {
        let log = m.jobtap(&format!("job eventlog -f json -p exec {id}")).ok();
        let names = log.lines().map(|line| {
            let entry: serde_json::Value = serde_json::from_str(line).unwrap();
            entry["name"].as_str().unwrap().to_owned()
        });
        let names: Vec<String> = names.collect();
        let whole = "init starting shell.init shell.start shell.task-exit shell-exit complete done";
        assert_eq!(names.join(" "), whole);
    }
    assert_eq!(m.field(&ends_meanwhile, "result"), "COMPLETED");
    assert_eq!(m.field(&fails_meanwhile, "returncode"), "3");
    assert_eq!(m.field(&waits, "result"), "COMPLETED");
    assert_eq!(m.jobtap(&format!("job attach {waits}")).ok(), "after");
    assert_eq!(m.events(&falls), "submit dependency-add validate exception clean");
    assert_eq!(m.field(&runs_on, "state"), "RUN");
    assert_eq!(m.field(&held, "state"), "SCHED");

    m.jobtap(&format!("cancel {runs_on}")).ok();
    m.wait(&runs_on, "clean");
    assert_eq!(m.field(&runs_on, "result"), "CANCELED");
    let next = m.submit("true");
    m.wait(&next, "clean");
}

#[test]
fn repeated_kills_under_load_lose_no_acknowledged_job() {
    let statedir = temporary();
    let mut acknowledged = Vec::new();
    // The manager is killed when the client has seen this many jobs accepted, so at a different moment in each round.
    for seen in [1, 4, 10, 25] {
        let mut m = Manager::start_in(jobtap(), statedir.path(), &[]);
        let mut submit = m.command(["submit", "--cc=1-40", "true"]);
        let mut submit = spawn(submit.stdout(Stdio::piped()).stderr(Stdio::null()));
        let mut ids = BufReader::new(submit.stdout.take().unwrap()).lines().map(Result::unwrap);
        let first: Vec<String> = ids.by_ref().take(seen).collect();
        assert_eq!(first.len(), seen, "the client has ended early");
        m.kill();
        acknowledged.extend(first);
        acknowledged.extend(ids);
        submit.wait().unwrap();
    }
    let m = Manager::start_in(jobtap(), statedir.path(), &[]);
    for id in &acknowledged {
        m.wait(id, "clean");
        assert_eq!(m.field(id, "result"), "COMPLETED", "{id}: {}", m.events(id));
    }
    until("nothing is active", || m.jobtap("jobs -no {id}").ok().is_empty());
}

#[test]
fn a_stopped_queue_stays_stopped() {
    let statedir = temporary();
    let mut m = Manager::start_in(jobtap(), statedir.path(), &[]);
    m.jobtap_args(&["queue", "stop", "-m", "maintenance"]).ok();
    let waits = m.submit("true");
    m.kill();
    let m = Manager::start_in(jobtap(), statedir.path(), &[]);
    let status = m.jobtap("queue status").ok();
    assert!(status.contains("Scheduling is stopped: maintenance"), "{status}");
    assert_eq!(m.field(&waits, "state"), "SCHED");
    m.jobtap("queue start").ok();
    m.wait(&waits, "clean");
}
