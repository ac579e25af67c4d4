//! `perilog` with real processes: failures, time limits, scripts that ignore SIGTERM, canceled jobs, and a
//! manager that is killed while a script runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use jobtap_tests::{Manager, jobtap, run, temporary, until};
use serde_json::{Value, json};

const LOADED: &str = "[job-manager]\nplugins = [{ load = \"perilog.so\" }]\n";

/// Starts a manager with these scripts; an empty text means no script.
fn manager(prolog: &str, epilog: &str, more: &str) -> Manager {
    Manager::start_with(jobtap(), &config(prolog, epilog, more))
}

fn config(prolog: &str, epilog: &str, more: &str) -> String {
    let mut text = LOADED.to_owned();
    for (name, script) in [("prolog", prolog), ("epilog", epilog)] {
        if !script.is_empty() {
            let command = json!(["sh", "-c", script]);
            text += &format!("[job-manager.{name}]\ncommand = {command}\n");
            text += if name == "prolog" { more } else { "" };
        }
    }
    text
}

fn note(m: &Manager, id: &str) -> String {
    let entry = m.jobtap(&format!("job wait-event -f json {id} exception")).ok();
    let entry: Value = serde_json::from_str(&entry).unwrap();
    entry.pointer("/context/note").and_then(Value::as_str).unwrap().to_owned()
}

fn host() -> String {
    run(Command::new("uname").arg("-n")).ok()
}

fn is_alive(pid: &str) -> bool {
    let state = run(Command::new("ps").args(["-o", "state=", "-p", pid])).stdout;
    !matches!(state.trim(), "" | "Z")
}

/// Returns a script that writes its process id and that of a child to a file, and waits.
fn waits(file: &Path) -> String {
    let file = file.display();
    format!("sleep 600 & echo $! $$ > {file}.new; mv {file}.new {file}; wait; wait")
}

fn pids(file: &PathBuf) -> Vec<String> {
    until("the script runs", || file.exists());
    let pids = fs::read_to_string(file).unwrap();
    fs::remove_file(file).unwrap();
    pids.split_whitespace().map(str::to_owned).collect()
}

fn all_end(pids: &[String]) {
    for pid in pids {
        until("the script's processes have ended", || !is_alive(pid));
    }
}

#[test]
fn prolog_and_epilog_run_around_a_job_with_its_id() {
    let directory = temporary();
    let seen = directory.path().join("seen");
    let script = |word: &str| {
        let seen = seen.display();
        format!(
            "echo {word} $FLUX_JOB_ID $FLUX_JOB_RANKS $FLUX_JOB_USERID >> {seen}; echo {word} out >&2"
        )
    };
    let mut m = manager(&script("before"), &script("after"), "");
    let id = m.submit_args(&["sh", "-c", &format!("echo job >> {}", seen.display())]);
    m.wait(&id, "clean");
    let user = run(Command::new("id").arg("-u")).ok();
    let text = fs::read_to_string(&seen).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let [before, "job", after] = lines[..] else { panic!("{text}") };
    assert!(before.starts_with("before ") && before.ends_with(&format!(" 0 {user}")), "{text}");
    assert_eq!(before.strip_prefix("before"), after.strip_prefix("after"));
    assert_eq!(
        m.events(&id),
        "submit validate depend priority alloc prolog-start prolog-finish start finish \
         epilog-start release epilog-finish free clean"
    );
    let (_, log) = m.stop();
    assert!(log.contains(&format!("prolog: {} (rank 0): stderr: before out", host())), "{log}");
}

#[test]
fn failures_are_reported_with_their_hosts() {
    let m = manager("exit 3", "", "");
    let place = format!("on {} (rank 0)", host());
    let id = m.submit("true");
    m.wait(&id, "clean");
    assert_eq!(note(&m, &id), format!("prolog exited with code=3 {place}"));
    let load = |text: &str| {
        m.configure(text);
        m.jobtap("config reload").ok();
    };
    load(&config("kill -9 $$", "", ""));
    let id = m.submit("true");
    m.wait(&id, "clean");
    assert_eq!(note(&m, &id), format!("prolog killed by signal 9 {place}"));

    load(&config("", "exit 9", ""));
    let id = m.submit("true");
    m.wait(&id, "clean");
    assert_eq!(note(&m, &id), format!("epilog exited with code=9 {place}"));
    assert_eq!(m.field(&id, "result"), "COMPLETED");
}

#[test]
fn a_command_that_cannot_be_started_is_reported() {
    let directory = temporary();
    let plain = directory.path().join("plain");
    fs::write(&plain, "#!/bin/sh\n").unwrap();
    let place = format!("{} (rank 0)", host());
    let table = |name: &str, command: &Path| {
        format!("{LOADED}[job-manager.{name}]\ncommand = [{:?}]\n", command.display().to_string())
    };
    let mut m = manager("", "", "");
    let mut expected = Vec::new();
    for (name, command, code, reason) in [
        ("prolog", Path::new("/no/such/prolog"), 127, "No such file or directory"),
        ("prolog", &plain, 126, "Permission denied"),
        ("epilog", Path::new("no-such-epilog"), 127, "No such file or directory"),
        ("epilog", directory.path(), 126, "Permission denied"),
    ] {
        m.configure(&table(name, command));
        m.jobtap("config reload").ok();
        let id = m.submit("true");
        m.wait(&id, "clean");
        assert_eq!(note(&m, &id), format!("{name} exited with code={code} on {place}"));
        expected.push(format!(": {name}: {place}: {}: {reason}", command.display()));
    }
    let (_, log) = m.stop();
    for line in expected {
        assert!(log.contains(&line), "{line}\n{log}");
    }
}

#[test]
fn a_failed_prolog_drains_its_node_and_the_next_job_waits() {
    let directory = temporary();
    let repaired = directory.path().join("repaired");
    let m = manager(&format!("[ -e {} ]", repaired.display()), "", "per-rank = true\n");
    let id = m.submit("true");
    m.wait(&id, "clean");
    let listed = m.jobtap("resource drain").ok();
    assert!(listed.contains("prolog failed for job "), "{listed}");
    let next = m.submit("true");
    m.wait(&next, "priority");
    fs::write(&repaired, "").unwrap();
    m.jobtap("resource undrain 0").ok();
    m.wait(&next, "clean");
    assert_eq!(m.field(&next, "result"), "COMPLETED");
}

#[test]
fn a_prolog_over_its_time_limit_ends_with_its_children() {
    let directory = temporary();
    let file = directory.path().join("pids");
    let m = manager(&waits(&file), "", "timeout = \"0.5s\"\n");
    let id = m.submit("true");
    let polite = pids(&file);
    m.wait(&id, "clean");
    assert_eq!(note(&m, &id), format!("prolog timed out on {} (rank 0)", host()));
    all_end(&polite);

    // A script that ignores SIGTERM, and so does its child.
    let stubborn = format!("trap '' TERM; {}", waits(&file));
    m.configure(&config(&stubborn, "", "timeout = \"0.5s\"\nkill-timeout = 0.5\n"));
    m.jobtap("config reload").ok();
    let id = m.submit("true");
    let stubborn = pids(&file);
    m.wait(&id, "clean");
    assert_eq!(note(&m, &id), format!("prolog timed out on {} (rank 0)", host()));
    all_end(&stubborn);
}

#[test]
fn a_cancel_during_the_prolog_ends_it_and_runs_the_epilog() {
    let directory = temporary();
    let (file, cleaned) = (directory.path().join("pids"), directory.path().join("cleaned"));
    let m = manager(&waits(&file), &format!("touch {}", cleaned.display()), "");
    let id = m.submit("true");
    let script = pids(&file);
    let procs = m.jobtap("plugin query perilog.so").ok();
    let procs: Value = serde_json::from_str(&procs).unwrap();
    let told = procs.pointer("/procs").and_then(Value::as_object).unwrap().values().next().unwrap();
    assert_eq!((&told["name"], &told["state"]), (&json!("prolog"), &json!("running")));
    assert_eq!((&told["total"], &told["active_ranks"]), (&json!(1), &json!("0")));
    m.jobtap(&format!("cancel {id}")).ok();
    m.wait(&id, "clean");
    all_end(&script);
    assert!(cleaned.exists());
    assert!(
        m.events(&id).ends_with(
            "prolog-start exception epilog-start prolog-finish epilog-finish free clean"
        )
    );
    assert_eq!(m.field(&id, "result"), "CANCELED");
}

#[test]
fn a_kill_during_a_prolog_ends_the_job() {
    let directory = temporary();
    let (file, cleaned) = (directory.path().join("pids"), directory.path().join("cleaned"));
    let mut m = manager(&waits(&file), &format!("touch {}", cleaned.display()), "");
    let id = m.submit("true");
    let before = pids(&file);
    m.kill();
    m.start_again();
    m.wait(&id, "clean");
    assert!(note(&m, &id).contains("the manager was restarted while it was open"));
    assert!(cleaned.exists());
    // This test has to kill them, since the manager that started them is dead.
    for pid in &before {
        run(Command::new("kill").args(["-9", pid]));
    }

    let go = directory.path().join("go");
    let again = format!("until [ -e {} ]; do sleep 0.05; done", go.display());
    m.configure(&config(&again, "", "on-restart = \"rerun\"\n"));
    m.jobtap("config reload").ok();
    let id = m.submit("true");
    m.wait(&id, "prolog-start");
    m.kill();
    m.start_again();
    fs::write(&go, "").unwrap();
    m.wait(&id, "clean");
    assert_eq!(m.field(&id, "result"), "COMPLETED");
}

#[test]
fn an_epilog_interrupted_by_a_shutdown_is_repeated() {
    let directory = temporary();
    let (file, go) = (directory.path().join("runs"), directory.path().join("go"));
    let script =
        format!("echo x >> {}; until [ -e {} ]; do sleep 0.05; done", file.display(), go.display());
    let mut m = manager("", &script, "");
    let id = m.submit("true");
    m.wait(&id, "epilog-start");
    until("the epilog runs", || file.exists());
    m.stop();
    m.start_again();
    until("it runs again", || fs::read_to_string(&file).unwrap().lines().count() == 2);
    fs::write(&go, "").unwrap();
    m.wait(&id, "clean");
    assert_eq!(m.field(&id, "result"), "COMPLETED");
    assert!(!m.events(&id).contains("exception"));
}
