//! A manager with a low limit for open files serves as many connections and runs as many processes at once as
//! the limit allows; the others wait for their turn, and nothing is lost.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;

use jobtap_tests::leftovers::shepherds_of;
use jobtap_tests::{Manager, clean, jobtap, run, spawn, temporary, until};
use serde_json::json;
use tempfile::TempDir;

/// Returns a script that runs jobtap with a soft limit of 64 open files and a hard limit of 128, or 1024. The
/// scripts are written once, before any test starts a process: a process that another thread starts meanwhile
/// would inherit the file while it is open for writing, and then the script can't be executed.
fn limited_to(hard: u32) -> PathBuf {
    static PROGRAMS: OnceLock<()> = OnceLock::new();
    let program =
        |hard: u32| Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("limited-{hard}"));
    PROGRAMS.get_or_init(|| {
        let exe = jobtap().display();
        for hard in [128, 1024] {
            let limits = format!("ulimit -Sn 64 && ulimit -Hn {hard}");
            let script = format!("#!/bin/sh\n{limits} && exec {exe} \"$@\"\n");
            fs::write(program(hard), script).unwrap();
            fs::set_permissions(program(hard), fs::Permissions::from_mode(0o755)).unwrap();
        }
    });
    program(hard)
}

fn limited() -> PathBuf {
    limited_to(128)
}

/// Starts a manager with this many nodes, these cores on each node, and additional configuration.
fn nodes(directory: &TempDir, program: &Path, (nodes, cores): (u32, &str), more: &str) -> Manager {
    let last = nodes - 1;
    let hosts = format!(
        "[resource]\nnoverify = true\nconfig = [{{ hosts = \"n[0-{last}]\", cores = \"{cores}\" }}]\n"
    );
    let file = directory.path().join("config.toml");
    fs::write(&file, format!("{hosts}{more}")).unwrap();
    let size = format!("--test-size={nodes}");
    let options = [size.as_ref(), "--config-path".as_ref(), file.as_os_str()];
    Manager::start_in(program, &directory.path().join("state"), &options)
}

/// Starts a manager with `count` nodes whose housekeeping runs this script.
fn cluster(directory: &TempDir, count: u32, script: &str) -> Manager {
    cluster_with(directory, count, script, "")
}

/// Like [`cluster`], with additional configuration.
fn cluster_with(directory: &TempDir, count: u32, script: &str, more: &str) -> Manager {
    let command = json!(["sh", "-c", script]);
    let table = format!("{more}[job-manager.housekeeping]\ncommand = {command}\n");
    nodes(directory, &limited(), (count, "0"), &table)
}

#[test]
fn excess_connections_wait_until_others_close() {
    let directory = temporary();
    let state = directory.path().join("state");
    let m = Manager::start_in(&limited(), &state, &[]);
    let connect = |_| UnixStream::connect(state.join("local-0")).unwrap();
    let connections: Vec<UnixStream> = (0..60).map(connect).collect();
    let mut late = spawn(m.command(["submit", "true"]).stdout(Stdio::piped()));
    drop(connections);
    assert!(late.wait().unwrap().success());
    let log = m.jobtap("dmesg").ok();
    let text = "48 connections are as many as the limit of 128 open files has room for";
    assert!(log.contains(text), "{log}");
}

#[test]
fn a_client_without_room_is_told_why_and_what_to_do() {
    let directory = temporary();
    let state = directory.path().join("state");
    let m = Manager::start_in(&limited(), &state, &[]);
    let connect = |_| UnixStream::connect(state.join("local-0")).unwrap();
    let connections: Vec<UnixStream> = (0..60).map(connect).collect();
    let late = m.jobtap("submit true");
    assert_eq!(late.code, 1);
    let text = "48 connections are as many as the limit of 128 open files has room for: end some of the commands that wait \
                or watch, run fewer at once, or start the manager with a higher limit (LimitNOFILE, or ulimit -n)";
    assert!(late.stderr.contains(text), "{late:?}");
    drop(connections);
    m.submit("true");
}

#[test]
fn processes_of_plugins_wait_for_free_file_descriptors() {
    let directory = temporary();
    let there = directory.path().display();
    let script = format!(
        "cd {there}; echo > running.$JOBTAP_RANK; ls | grep -c running >> counts; \
         rm running.$JOBTAP_RANK"
    );
    let m = cluster(&directory, 100, &script);
    m.wait(&m.submit("-N100 --input=/dev/null --output=/dev/null true"), "clean");
    until("all scripts have run", || m.jobtap("housekeeping list -no {id}").ok().is_empty());
    let counts = fs::read_to_string(directory.path().join("counts")).unwrap();
    let counts: Vec<u32> = counts.lines().map(|count| count.parse().unwrap()).collect();
    assert_eq!(counts.len(), 100);
    assert!(counts.iter().all(|count| *count <= 8), "{counts:?}");
    let log = m.jobtap("dmesg").ok();
    assert!(!log.contains(".err["), "{log}");
}

#[test]
fn hanging_scripts_leave_room_for_those_of_other_plugins() {
    let directory = temporary();
    let there = directory.path().display();
    let script = format!("while [ -d {there} ]; do sleep 0.05; done");
    let prolog = "[job-manager]\nplugins = [{ load = \"perilog\" }]\n\
                  [job-manager.prolog]\ncommand = [\"true\"]\n";
    let m = cluster_with(&directory, 20, &script, prolog);
    m.wait(&m.submit("-N19 true"), "clean");
    m.wait(&m.submit("-N1 true"), "finish");
    m.jobtap("housekeeping kill --all").ok();
}

#[test]
fn a_process_that_has_not_started_can_be_killed() {
    let directory = temporary();
    let there = directory.path().display();
    let m = cluster(&directory, 20, &format!("while [ -d {there} ]; do sleep 0.05; done"));
    m.wait(&m.submit("-N20 true"), "clean");
    let listed = || m.jobtap("housekeeping list -no {pending.nnodes}").ok();
    assert_eq!(listed(), "20");
    m.jobtap("housekeeping kill --all").ok();
    until("nothing is left", || listed().is_empty());
}

#[test]
fn scripts_of_plugins_get_the_managers_original_limit() {
    let directory = temporary();
    let limits = directory.path().join("limits");
    let m = cluster(&directory, 60, &format!("ulimit -Sn >> {}", limits.display()));
    m.wait(&m.submit("-N60 --output=/dev/null true"), "clean");
    until("all scripts have run", || m.jobtap("housekeeping list -no {id}").ok().is_empty());
    assert_eq!(fs::read_to_string(limits).unwrap(), "64\n".repeat(60));
}

#[test]
fn child_processes_get_the_managers_original_limit() {
    let script = "jobtap run sh -c 'ulimit -Sn'; ulimit -Sn";
    let mut start = clean(&limited());
    assert_eq!(run(start.args(["start", "sh", "-c", script])).ok(), "64\n64");
}

/// The executor has raised its own soft limit to the same number, and tasks are started under the lower one.
#[test]
fn tasks_can_have_the_hard_limit() {
    let script = "jobtap run --rlimit=nofile=1024 sh -c 'ulimit -Sn'";
    let mut start = clean(&limited_to(1024));
    assert_eq!(run(start.args(["start", "sh", "-c", script])).ok(), "1024");
}

#[test]
fn a_job_can_have_more_tasks_than_a_task_may_open_files() {
    let directory = temporary();
    let m = nodes(&directory, &limited_to(1024), (1, "0-199"), "");
    let there = directory.path().display();
    let files = m.submit(&format!("--cc=1-70 --output={there}/{{{{id}}}}.out sleep 100"));
    files.lines().for_each(|job| m.wait(job, "start"));
    let limits = m.jobtap_args(&["run", "-n100", "sh", "-c", "ulimit -Sn"]).ok();
    assert_eq!(limits.lines().collect::<Vec<_>>(), ["64"; 100]);
}

#[test]
fn too_many_tasks_are_refused_with_the_remedy() {
    let directory = temporary();
    let m = nodes(&directory, &limited(), (1, "0-199"), "");
    let refused = m.jobtap("submit -n200 sleep 100");
    let text = "--ntasks: 200 tasks on one host need 3 open files each for their input and output, and \
                there can be 96 (hard limit of open files of the manager, ulimit -Hn)";
    assert!(refused.code == 1 && refused.stderr.contains(text), "{}", refused.stderr);
}

#[test]
fn a_launch_that_runs_out_of_open_files_leaves_no_task() {
    let directory = temporary();
    let m = nodes(&directory, &limited(), (1, "0-199"), "");
    let runs = m.submit("-n20 sleep 100");
    m.wait(&runs, "start");
    let mark = format!("{}", 100_000 + std::process::id());
    let fails = m.submit(&format!("-n28 sleep {mark}"));
    m.wait(&fails, "clean");
    let log = m.jobtap(&format!("job eventlog {fails}")).ok();
    let text = "Too many open files: raise the hard limit of open files (ulimit -Hn)";
    assert!(log.contains(text), "{log}");
    let ours = |entry: fs::DirEntry| {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
    };
    until("its tasks are gone", || !fs::read_dir("/proc").unwrap().flatten().any(ours));
    assert_eq!(m.field(&runs, "state"), "RUN");
}

#[test]
fn inherited_open_files_are_not_passed_on() {
    let directory = temporary();
    let secret = directory.path().join("secret");
    fs::write(&secret, "").unwrap();
    let list = |name: &str| format!("ls -l /proc/self/fd >{}/{name}", directory.path().display());
    let config = directory.path().join("config.toml");
    let prolog = json!(["sh", "-c", list("prolog")]);
    let perilog = "[job-manager]\nplugins = [{ load = \"perilog.so\" }]";
    fs::write(&config, format!("{perilog}\n[job-manager.prolog]\ncommand = {prolog}\n")).unwrap();
    let state = directory.path().join("state");
    let mut command = clean(Path::new("bash"));
    // Two descriptors: a low one, and one above all that the manager opens itself.
    command.args(["-c", "exec 5<$1 200<$1; shift; exec \"$@\"", "bash"]).arg(&secret);
    command.arg(jobtap()).arg("start").arg("-c").arg(&config).arg("--state-dir").arg(&state);
    command.args([
        "sh",
        "-c",
        &format!("{}; jobtap run sh -c '{}'; cat", list("command"), list("job")),
    ]);
    let mut manager = command.stdin(Stdio::piped()).spawn().unwrap();
    until("the job ends", || {
        let job = fs::read_to_string(directory.path().join("job")).unwrap_or_default();
        job.lines().count() > 3
    });
    let files = |pid: u32| {
        let links = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
        links.filter_map(|link| fs::read_link(link.path()).ok()).collect::<Vec<_>>()
    };
    assert!(files(manager.id()).contains(&secret), "the manager itself has it");
    let shepherds = shepherds_of(&state);
    assert_eq!(shepherds.len(), 2, "the shepherd and its forker");
    assert!(!shepherds.iter().any(|pid| files(*pid).contains(&secret)));
    for name in ["command", "prolog", "job"] {
        let listing = fs::read_to_string(directory.path().join(name)).unwrap();
        assert!(listing.contains(" 0 -> ") && !listing.contains("secret"), "{name}: {listing}");
    }
    drop(manager.stdin.take());
    assert!(manager.wait().unwrap().success());
}
