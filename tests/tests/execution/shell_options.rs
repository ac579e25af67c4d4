//! Shell options: terminals, CPUs, a signal before the time limit, and input for several tasks.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use jobtap_tests::leftovers::processes_with;
use jobtap_tests::{Manager, Process, clean, jobtap, run, spawn, temporary};

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn each_task_has_a_terminal_and_a_session() {
    let m = Manager::start(jobtap());
    let show = "for n in 0 1 2; do test -t $n || echo none; done; stty size; \
                test $$ = $(ps -o sid= -p $$ | tr -d ' ') && echo leads; echo error >&2";
    let output = m.jobtap_args(&["run", "-n2", "-o", "pty", "sh", "-c", show]).ok();
    let expected = ["24 80", "24 80", "error", "error", "leads", "leads"];
    assert_eq!(sorted(&output), expected, "{output}");
    // The whole output is there when a task has printed much and exits at once.
    let much = m.jobtap_args(&["run", "-o", "pty", "seq", "20000"]).ok();
    assert_eq!(much.lines().count(), 20000);
    let id = m.submit_args(&["-o", "pty", "sleep", "600"]);
    m.wait(&id, "start");
    m.jobtap(&format!("cancel {id}")).ok();
    m.wait(&id, "clean");
    let refused = m.jobtap_args(&["run", "-o", "pty=foo", "true"]);
    assert!(refused.stderr.contains("pty: \"foo\" is no flag"), "{refused:?}");
}

#[test]
fn an_option_of_another_type_is_refused_before_a_task_starts() {
    let m = Manager::start(jobtap());
    for (option, refusal) in [
        ("output=1", "output: 1 is not an object"),
        ("signal.timeleft=x", "signal.timeleft: \"x\" is not a number of seconds"),
        ("userrc=f.lua", "userrc: there are no files of Lua"),
    ] {
        let refused = m.jobtap_args(&["run", "-o", option, "echo", "started"]);
        assert_eq!((refused.code, refused.stdout.as_str()), (1, ""), "{option}");
        assert!(refused.stderr.contains(refusal), "{refused:?}");
    }
}

#[test]
fn input_of_a_terminal_ends_where_that_of_its_client_does() {
    let m = Manager::start(jobtap());
    for (input, printed) in [("hi\n", "hi\nhi\n"), ("hi", "hihi"), ("", "")] {
        let mut job = m.command(["run", "-o", "pty", "cat"]);
        let mut job = spawn(job.stdin(Stdio::piped()).stdout(Stdio::piped()));
        job.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = job.wait_with_output().unwrap();
        let output = String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n");
        // The terminal echoes what is typed, and echoes the end of file as `^D` and two backspaces.
        assert_eq!(output.replace("^D\u{8}\u{8}", ""), printed, "{input:?}");
    }
    assert_eq!(m.jobtap("run --input=/dev/null -o pty true").code, 1);
    let id = m.submit("-o pty cat");
    m.wait(&id, "clean");
    assert_eq!(m.field(&id, "result"), "COMPLETED", "without input cat ends at once");
}

#[test]
fn output_of_a_terminal_goes_to_a_file() {
    let m = Manager::start(jobtap());
    let directory = temporary();
    let file = directory.path().join("out").display().to_string();
    let script = "echo out; echo err >&2";
    m.jobtap_args(&["run", "-o", "pty", "--output", &file, "sh", "-c", script]).ok();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "out\r\nerr\r\n");
}

/// Runs a command in a terminal that script(1) opens.
fn in_terminal(m: &Manager, words: &str) -> Process {
    let line = format!("stty rows 40 cols 100; exec {} {words}", jobtap().display());
    let mut command = m.command([""; 0]);
    let environment: Vec<_> =
        command.get_envs().map(|(k, v)| (k.to_owned(), v.map(ToOwned::to_owned))).collect();
    command = Command::new("script");
    command.args(["-qefc", &line, "/dev/null"]);
    for (name, value) in environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("SHELL", "/bin/sh").env("PS1", "ready$ ");
    spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()))
}

/// The process id of the client that is attached to an allocation of this manager.
fn client_of(m: &Manager) -> String {
    let uri = m.command([""; 0]);
    let uri = uri.get_envs().find(|(name, _)| *name == "JOBTAP_URI").and_then(|(_, value)| value);
    let uri = format!("JOBTAP_URI={}", uri.unwrap().to_str().unwrap());
    let of = |pid: u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).nth(1) == Some(b"alloc")
    };
    let pid = processes_with(&uri).into_iter().find(|pid| of(*pid));
    pid.unwrap().to_string()
}

#[test]
#[allow(clippy::print_stdout)]
fn an_allocation_in_a_terminal_is_an_interactive_shell() {
    if run(clean("script".as_ref()).arg("--version")).code != 0 {
        println!("skipped: script(1) is missing");
        return;
    }
    let m = Manager::start(jobtap());
    let mut alloc = in_terminal(&m, "alloc -n1");
    let mut keys = alloc.stdin.take().unwrap();
    let mut screen = BufReader::new(alloc.stdout.take().unwrap());
    // Keys are passed on once the job has started.
    let mut until = |text: &str| {
        let mut seen = Vec::new();
        let mut byte = [0];
        while !String::from_utf8_lossy(&seen).contains(text) {
            assert!(screen.read(&mut byte).unwrap() == 1, "{}", String::from_utf8_lossy(&seen));
            seen.push(byte[0]);
        }
        String::from_utf8_lossy(&seen).into_owned()
    };
    until("ready$ ");
    keys.write_all(b"stty size; jobtap resource info\r").unwrap();
    let seen = until("1 Nodes, 1 Core");
    assert!(seen.contains("40 100"), "{seen}");
    // The job's terminal follows the size of this one: stty(1) in the client's terminal changes it.
    let client = format!("/proc/{}/fd/0", client_of(&m));
    run(Command::new("stty").args(["-F", &client, "rows", "33"]));
    keys.write_all(b"until stty size | grep '^33 '; do sleep 0.1; done\r").unwrap();
    until("33 100");
    // Ctrl-C goes to the command in the shell, and not to the client.
    keys.write_all(b"sleep 600\r").unwrap();
    until("sleep 600");
    std::thread::sleep(std::time::Duration::from_millis(500));
    keys.write_all(b"\x03").unwrap();
    until("ready$ ");
    keys.write_all(b"exit 7\r").unwrap();
    until("task(s) exited with exit code 7");
    drop(keys);
    assert_eq!(alloc.wait().unwrap().code(), Some(7));
    let _ = screen.lines().count();
}

#[test]
fn tasks_are_bound_to_cpus_on_request() {
    let m = Manager::start(jobtap());
    let all = "grep Cpus_allowed_list /proc/self/status | cut -f2";
    let free = run(Command::new("sh").args(["-c", all])).ok();
    let of = |options: &[&str]| {
        let words = [&["run"], options, &["sh", "-c", all]].concat();
        sorted(&m.jobtap_args(&words).ok()).join(" ")
    };
    assert_eq!(of(&[]), free, "not unless it is asked for");
    assert_eq!(of(&["-o", "cpu-affinity=off"]), free);
    assert_eq!(of(&["-n2", "-o", "cpu-affinity=map:0"]), "0 0");
    // Every host has a core 0, as the test's nodes do.
    assert_eq!(of(&["-o", "cpu-affinity=per-task"]), "0");
    assert_eq!(of(&["-o", "cpu-affinity"]), "0");
    for (option, text) in [
        (
            "cpu-affinity=foo",
            "cpu-affinity: unknown value 'foo': use on, per-task, map:LIST or off",
        ),
        ("cpu-affinity=map:999", "cpu-affinity: CPU 999 can't be used on this host"),
    ] {
        let refused = m.jobtap_args(&["run", "-o", option, "true"]);
        assert!(refused.code == 1 && refused.stderr.contains(text), "{refused:?}");
    }
}

#[test]
fn jobs_see_the_gpus_that_they_have() {
    let m = Manager::start_with(jobtap(), "gpus = \"0-3\"\n");
    let shown = "echo ${CUDA_VISIBLE_DEVICES-all} ${CUDA_DEVICE_ORDER-none}";
    let of = |options: &[&str]| {
        let words = [&["run"], options, &["sh", "-c", shown]].concat();
        sorted(&m.jobtap_args(&words).ok()).join("; ")
    };
    // The first job holds GPU 0.
    let first = m.submit("-g1 sleep 600");
    m.wait(&first, "start");
    assert_eq!(of(&["-g1"]), "1 PCI_BUS_ID");
    let two = ["-n2", "-g1", "--env=CUDA_VISIBLE_DEVICES=9", "--env=CUDA_DEVICE_ORDER=MINE"];
    assert_eq!(of(&two), "1,2 MINE; 1,2 MINE");
    assert_eq!(of(&["-n2", "-g1", "-o", "gpu-affinity=per-task"]), "1 PCI_BUS_ID; 2 PCI_BUS_ID");
    assert_eq!(of(&["-g1", "-o", "gpu-affinity=off"]), "all none");
    assert_eq!(
        of(&["-n1"]),
        "all none",
        "the hosts of this manager may have GPUs that it isn't told"
    );
    assert_eq!(of(&["-n1", "-o", "gpu-affinity"]), "-1 PCI_BUS_ID");
}

#[test]
fn a_job_gets_a_signal_before_its_time_is_over() {
    let m = Manager::start(jobtap());
    let script = "trap 'echo caught; exit 3' USR1; while :; do sleep 0.1; done";
    let output = m.jobtap_args(&["run", "-t60s", "--signal=USR1@58s", "sh", "-c", script]);
    assert_eq!((output.code, output.stdout.as_str()), (3, "caught\n"), "{output:?}");
    // An update of the duration that leaves less time than that sends the signal at once.
    let id = m.submit("-t10m --signal=TERM@5m sleep 600");
    m.wait(&id, "start");
    m.jobtap(&format!("update {id} duration=200")).ok();
    m.wait(&id, "finish");
    assert_eq!(m.field(&id, "returncode"), "143");
}

#[test]
fn input_goes_to_all_tasks_or_to_some() {
    let m = Manager::start(jobtap());
    let fed = |options: &[&str]| {
        let mut job = m.command([&["run", "-l"], options, &["cat"]].concat());
        let mut job = spawn(job.stdin(Stdio::piped()).stdout(Stdio::piped()));
        job.stdin.take().unwrap().write_all(b"a\nb\n").unwrap();
        String::from_utf8(job.wait_with_output().unwrap().stdout).unwrap()
    };
    let all = fed(&["-n2"]);
    assert_eq!(sorted(&all), ["0: a", "0: b", "1: a", "1: b"]);
    let some = fed(&["-n3", "--input=1-2"]);
    assert_eq!(sorted(&some), ["1: a", "1: b", "2: a", "2: b"]);
}

#[test]
fn tasks_have_the_resource_limits_that_are_asked_for() {
    let m = Manager::start(jobtap());
    let show = "ulimit -Sn; ulimit -Sc";
    let words = ["run", "--rlimit=nofile=77", "--rlimit=core=0", "sh", "-c", show];
    assert_eq!(m.jobtap_args(&words).ok(), "77\n0");
}

#[test]
fn a_cancellation_ends_tasks_that_hold_out_against_their_time_limit() {
    let m = Manager::start(jobtap());
    let script = "trap '' ALRM; exec sleep 600";
    let id = m.submit_args(&["-t2s", "sh", "-c", script]);
    m.wait(&id, "exception");
    m.jobtap(&format!("cancel {id}")).ok();
    m.wait(&id, "clean");
    // Not 137, as by the SIGKILL that follows the kill timeout.
    assert_eq!(m.field(&id, "returncode"), "143");
}
