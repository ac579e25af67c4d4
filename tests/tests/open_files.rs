//! A manager that may open few files: it serves as many connections and runs as many processes as it has
//! room for, one after the other, and nothing of it is lost.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use jobtap_tests::{Manager, clean, jobtap, run, temporary, until};
use serde_json::json;
use tempfile::TempDir;

/// A program that is jobtap, started as one that may open 64 files and allow itself 128.
fn limited(directory: &TempDir) -> PathBuf {
    limited_to(directory, 128)
}

/// A program that is jobtap, started as one that may open 64 files and allow itself `hard`.
fn limited_to(directory: &TempDir, hard: u32) -> PathBuf {
    let program = directory.path().join("limited");
    let exe = jobtap().display();
    let script = format!("#!/bin/sh\nulimit -Sn 64 && ulimit -Hn {hard} && exec {exe} \"$@\"\n");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// A manager with so many nodes with so many cores each, and more of a configuration.
fn cluster(directory: &TempDir, program: &Path, nodes: u32, cores: &str, more: &str) -> Manager {
    let node = nodes - 1;
    let hosts = format!(
        "[resource]\nnoverify = true\nconfig = [{{ hosts = \"n[0-{node}]\", cores = \"{cores}\" }}]\n"
    );
    let file = directory.path().join("config.toml");
    fs::write(&file, format!("{hosts}{more}")).unwrap();
    let size = format!("--test-size={nodes}");
    let options = [size.as_ref(), "--config-path".as_ref(), file.as_os_str()];
    Manager::start_in(program, &directory.path().join("state"), &options)
}

/// One that may open few files and runs this script on nodes after jobs.
fn housekeeping(directory: &TempDir, nodes: u32, script: &str) -> Manager {
    let command = json!(["sh", "-c", script]);
    let table = format!("[job-manager.housekeeping]\ncommand = {command}\n");
    cluster(directory, &limited(directory), nodes, "0", &table)
}

#[test]
fn who_comes_when_there_is_no_room_waits_until_somebody_goes() {
    let directory = temporary();
    let state = directory.path().join("state");
    let m = Manager::start_in(&limited(&directory), &state, &[]);
    let connect = |_| UnixStream::connect(state.join("local-0")).unwrap();
    let connections: Vec<UnixStream> = (0..60).map(connect).collect();
    let mut late = m.command(["submit", "true"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(connections);
    assert!(late.wait().unwrap().success());
    let log = m.jobtap("dmesg").ok();
    let text = "48 connections are as many as the limit of 128 open files has room for";
    assert!(log.contains(text), "{log}");
}

#[test]
fn processes_of_plugins_wait_for_their_turn() {
    let directory = temporary();
    let there = directory.path().display();
    let script = format!(
        "cd {there}; echo > running.$JOBTAP_RANK; ls | grep -c running >> counts; \
         rm running.$JOBTAP_RANK"
    );
    let m = housekeeping(&directory, 100, &script);
    m.wait(&m.submit("-N100 true"), "clean");
    until("all scripts have run", || m.jobtap("housekeeping list -no {id}").ok().is_empty());
    let counts = fs::read_to_string(directory.path().join("counts")).unwrap();
    let counts: Vec<u32> = counts.lines().map(|count| count.parse().unwrap()).collect();
    assert_eq!(counts.len(), 100);
    assert!(counts.iter().all(|count| *count <= 8), "{counts:?}");
    let log = m.jobtap("dmesg").ok();
    assert!(!log.contains(".err["), "{log}");
}

#[test]
fn a_process_that_has_not_begun_can_be_ended() {
    let directory = temporary();
    let there = directory.path().display();
    let m = housekeeping(&directory, 20, &format!("while [ -d {there} ]; do sleep 0.05; done"));
    m.wait(&m.submit("-N20 true"), "clean");
    let listed = || m.jobtap("housekeeping list -no {pending.nnodes}").ok();
    assert_eq!(listed(), "20");
    m.jobtap("housekeeping kill --all").ok();
    until("nothing is left", || listed().is_empty());
}

#[test]
fn what_the_manager_starts_has_the_limit_that_it_was_started_with() {
    let directory = temporary();
    let script = "jobtap run sh -c 'ulimit -Sn'; ulimit -Sn";
    let mut start = clean(&limited(&directory));
    assert_eq!(run(start.args(["start", "sh", "-c", script])).ok(), "64\n64");
}

#[test]
fn jobs_run_with_more_tasks_than_a_task_may_open_files() {
    let directory = temporary();
    let m = cluster(&directory, &limited_to(&directory, 1024), 1, "0-199", "");
    let there = directory.path().display();
    let files = m.submit(&format!("--cc=1-70 --output={there}/{{{{id}}}}.out sleep 100"));
    files.lines().for_each(|job| m.wait(job, "start"));
    let limits = m.jobtap_args(&["run", "-n100", "sh", "-c", "ulimit -Sn"]).ok();
    assert_eq!(limits.lines().collect::<Vec<_>>(), ["64"; 100]);
}

#[test]
fn a_job_with_more_tasks_than_there_is_room_for_is_refused_with_the_cure() {
    let directory = temporary();
    let m = cluster(&directory, &limited(&directory), 1, "0-199", "");
    let refused = m.jobtap("run -n200 sleep 100");
    let text = "Too many open files: raise the hard limit of open files (ulimit -Hn)";
    assert!(refused.stderr.contains(text), "{}", refused.stderr);
}
