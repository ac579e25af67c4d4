//! `exec`: commands on the nodes of an instance, outside of jobs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use jobtap_tests::nodes::Nodes;
use jobtap_tests::{Output, Process, jobtap, run, serve, temporary, until};

use crate::sorted;

/// Runs `exec` with what this command line of a shell prints as its input.
fn with_input(nodes: &Nodes, line: &str, words: &[&str]) -> Output {
    let exec = nodes.command(words);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{line} | exec \"$@\""), "sh"]);
    command.arg(exec.get_program()).args(exec.get_args());
    command.envs(exec.get_envs().filter_map(|(name, value)| Some((name, value?))));
    run(&mut command)
}

/// Starts `exec`, and waits for its first line.
fn started(nodes: &Nodes, words: &[&str]) -> (Process, BufReader<std::process::ChildStdout>) {
    let mut command = nodes.command(words);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = serve(&mut command);
    let mut stdout = BufReader::new(process.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    if line != "ready\n" {
        panic!("{line}: {:?}", process.wait_with_output());
    }
    (process, stdout)
}

fn is_running(line: &str) -> bool {
    run(Command::new("pgrep").args(["-fx", line])).code == 0
}

#[test]
fn a_command_runs_on_each_node_as_a_child_of_its_process() {
    let nodes = Nodes::start(3);
    assert_eq!(nodes.jobtap("getattr broker.mapping").ok(), "(vector,(0,3,1))");
    let line = "echo $JOBTAP_RANK on $HOSTNAME by $PPID; echo bad >&2; exit $JOBTAP_RANK";
    let ran = nodes.args(&["exec", "-l", "sh", "-c", line]);
    let by = |rank: u32| format!("{rank}: {rank} on n{} by {}", rank + 1, nodes.pid(rank));
    assert_eq!(sorted(&ran.stdout), [by(0), by(1), by(2)], "{ran:?}");
    assert_eq!(ran.code, 2, "{ran:?}");
    let said = sorted(&ran.stderr);
    assert_eq!(said, ["0: bad", "1: Exit 1", "1: bad", "2: Exit 2", "2: bad"], "{ran:?}");
    // The manager is reached from there, and a task reaches other nodes.
    let exe = jobtap().to_str().unwrap();
    assert_eq!(nodes.args(&["exec", "-r", "2", exe, "getattr", "size"]).ok(), "3");
    let task = ["run", "--requires=rank:1", exe, "exec", "-r", "2", "sh", "-c", "echo $HOSTNAME"];
    assert_eq!(nodes.args(&task).ok(), "n3");
}

#[test]
fn what_cannot_run_is_told_by_rank() {
    let nodes = Nodes::start(2);
    let missing = nodes.args(&["exec", "-r", "1", "no-such-program"]);
    assert_eq!(missing.code, 127, "{missing:?}");
    let text = "rank 1: no-such-program: error launching process: No such file or directory";
    assert!(missing.stderr.contains(text), "{missing:?}");
    let elsewhere = nodes.args(&["exec", "-r", "1", "-d", "/no/such", "pwd"]);
    assert_eq!(elsewhere.stdout, "/tmp\n", "{elsewhere:?}");
    assert!(elsewhere.stderr.contains("Could not change dir to /no/such: "), "{elsewhere:?}");
    assert!(elsewhere.stderr.contains("Going to /tmp instead"), "{elsewhere:?}");
}

#[test]
fn input_and_output_of_any_length_pass() {
    let nodes = Nodes::start(2);
    // More than may wait for a command.
    let counted = with_input(&nodes, "head -c 5000000 /dev/zero", &["exec", "-l", "wc", "-c"]);
    assert_eq!(sorted(&counted.stdout), ["0: 5000000", "1: 5000000"], "{counted:?}");
    // A command that doesn't read all of it holds up neither itself nor the others.
    let words = ["exec", "-l", "sh", "-c", "[ $JOBTAP_RANK = 1 ] && exec head -c 2; exec wc -c"];
    let some = with_input(&nodes, "yes | head -c 5000000", &words);
    assert_eq!(sorted(&some.stdout), ["0: 5000000", "1: y"], "{some:?}");
    let much = nodes.args(&["exec", "-n", "sh", "-c", "yes | head -c 5000000"]);
    assert_eq!((much.code, much.stdout.len()), (0, 10_000_000));
}

#[test]
fn a_command_gets_signals_and_ends_with_its_client() {
    let nodes = Nodes::start(2);
    let script = "trap 'echo got; exit 3' TERM; echo ready; while :; do sleep 0.1; done";
    let (mut exec, _output) = started(&nodes, &["exec", "-n", "-r", "1", "sh", "-c", script]);
    run(Command::new("kill").args(["-s", "TERM", &exec.id().to_string()])).ok();
    assert_eq!(exec.wait().unwrap().code(), Some(3));
    let script = "echo ready; sleep 76543";
    let (mut exec, _output) = started(&nodes, &["exec", "-n", "-r", "1", "sh", "-c", script]);
    until("it sleeps", || is_running("sleep 76543"));
    exec.kill().unwrap();
    exec.wait().unwrap();
    until("nothing is left of it", || !is_running("sleep 76543"));
}

#[test]
fn what_a_command_leaves_behind_gets_signals_and_ends_with_its_client() {
    let nodes = Nodes::start(2);
    let script = "sleep 54321 & echo ready";
    let words = ["exec", "-n", "-r", "1", "sh", "-c", script];
    let (mut exec, _output) = started(&nodes, &words);
    run(Command::new("kill").args(["-s", "TERM", &exec.id().to_string()])).ok();
    assert_eq!(exec.wait().unwrap().code(), Some(0));
    until("the signal has reached it", || !is_running("sleep 54321"));
    let (mut exec, _output) = started(&nodes, &words);
    exec.kill().unwrap();
    exec.wait().unwrap();
    until("nothing is left of it", || !is_running("sleep 54321"));
}

/// An instance of two nodes whose processes are started with a soft limit of 64 open files and a hard one of 128.
fn with_few_open_files() -> Nodes {
    let directory = temporary();
    let wrapper = directory.path().join("wrapper");
    fs::write(&wrapper, "#!/bin/sh\nulimit -Sn 64 && ulimit -Hn 128 && exec \"$@\"\n").unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    Nodes::start_by(2, "5s", &[], |_| Some(PathBuf::from(&wrapper)))
}

#[test]
fn commands_have_the_original_limit_of_open_files() {
    let nodes = with_few_open_files();
    let limits = format!("/proc/{}/limits", nodes.pid(0));
    let is_raised = || {
        let limits = fs::read_to_string(&limits).unwrap();
        let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
        files.split_whitespace().nth(3) == Some("128")
    };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) && is_raised() {
                std::thread::yield_now();
            }
            is_raised()
        });
        for _ in 0..10 {
            let printed = nodes.args(&["exec", "sh", "-c", "ulimit -Sn"]);
            assert_eq!(printed.stdout, "64\n64\n", "{printed:?}");
        }
        assert!(!watching.is_finished(), "the manager's own limit stays raised meanwhile");
        over.store(true, Ordering::Relaxed);
        assert!(watching.join().unwrap());
    });
}

#[test]
fn a_manager_with_few_open_files_runs_few_commands_at_once() {
    let nodes = with_few_open_files();
    // On both nodes.
    let holding = || started(&nodes, &["exec", "-n", "sh", "-c", "echo ready; sleep 60"]);
    let mut running: Vec<_> = (0..2).map(|_| holding()).collect();
    let refused = nodes.jobtap("exec -r 1 true");
    assert_eq!(refused.code, 126, "{refused:?}");
    let text = "4 commands are already running on nodes: try again when some have ended";
    assert!(refused.stderr.contains(text), "{refused:?}");
    for (exec, _) in &mut running {
        exec.kill().unwrap();
        exec.wait().unwrap();
    }
    until("there is room again", || nodes.jobtap("exec -r 1 true").code == 0);
}

#[test]
fn a_lost_node_is_told() {
    let mut nodes = Nodes::start(2);
    let script = "echo ready; sleep 65432";
    let (mut exec, _output) = started(&nodes, &["exec", "-n", "-r", "1", "sh", "-c", script]);
    nodes.kill(1);
    let mut said = String::new();
    let mut stderr = exec.stderr.take().unwrap();
    std::io::Read::read_to_string(&mut stderr, &mut said).unwrap();
    assert_eq!(exec.wait().unwrap().code(), Some(68), "{said}");
    assert!(said.contains("rank 1: sh: the connection to its node is lost"), "{said}");
    let away = nodes.jobtap("exec -r 1 true");
    assert_eq!(away.code, 68, "{away:?}");
    assert!(away.stderr.contains("rank 1 (n2) is "), "{away:?}");
    run(Command::new("pkill").args(["-fx", "sleep 65432"]));
}
