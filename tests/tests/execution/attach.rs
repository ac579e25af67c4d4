//! `job attach` and the other commands that show output: input and signals reach the job, and output of any length is
//! shown at the pace of its reader.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use jobtap_tests::{Manager, Process, jobtap, run, send, spawn, until};

/// The number of lines that a job with long output prints.
const LINES: usize = 3_000_000;

/// Submits a job that prints much, and waits for its end.
fn long_output(m: &Manager) -> String {
    let id = m.submit_args(&["sh", "-c", &format!("seq 1 {LINES}")]);
    m.wait(&id, "clean");
    id
}

/// Returns a value of `/proc/PID/status`, such as `VmRSS`, in MiB.
fn memory(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// Whether a thread of the process waits until the pipe to which it writes has room.
fn is_blocked(process: &Process) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", process.id())).unwrap();
    tasks.map(|task| task.unwrap().path()).any(|task| {
        let place = std::fs::read_to_string(task.join("wchan")).unwrap_or_default();
        place.contains("pipe_write")
    })
}

/// Starts a command whose output nobody reads.
fn unread(m: &Manager, words: &[&str]) -> Process {
    let mut command = m.command(words);
    spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()))
}

fn attach_with(m: &Manager, words: &[&str], input: &str) -> String {
    let mut command = m.command([&["job", "attach"], words].concat());
    let mut attach = spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
    attach.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = attach.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn input_of_attach_reaches_a_submitted_job() {
    let m = Manager::start(jobtap());
    let id = m.submit("cat");
    assert_eq!(attach_with(&m, &[&id], "hello\n"), "hello\n");
    let log = m.jobtap(&format!("job eventlog -p input {id}")).ok();
    assert!(log.contains("data=\"aGVsbG8K\""), "{log}");
    // Input may also come before the job has started.
    m.jobtap("queue stop").ok();
    let id = m.submit("cat");
    let mut command = m.command(["job", "attach", &id]);
    let mut attach = spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
    attach.stdin.take().unwrap().write_all(b"early\n").unwrap();
    m.jobtap("queue start").ok();
    assert_eq!(attach.wait_with_output().unwrap().stdout, b"early\n");
}

#[test]
fn input_goes_to_the_tasks_that_are_named() {
    let m = Manager::start(jobtap());
    let id = m.submit_args(&["-n2", "sh", "-c", "cat; echo end"]);
    let output = attach_with(&m, &["-l", "-i", "1", &id], "one\n");
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0: end", "1: end", "1: one"]);
}

#[test]
fn a_reader_that_does_not_read_input_leaves_it_to_others() {
    let m = Manager::start(jobtap());
    let id = m.submit("cat");
    m.wait(&id, "start");
    let mut watching = m.command(["job", "attach", "--read-only", &id]);
    let watching = spawn(watching.stdin(Stdio::null()).stdout(Stdio::piped()));
    assert_eq!(attach_with(&m, &[&id], "later\n"), "later\n");
    assert_eq!(watching.wait_with_output().unwrap().stdout, b"later\n");
}

#[test]
fn long_output_is_shown_whole_in_little_memory() {
    let m = Manager::start(jobtap());
    let id = long_output(&m);
    let before = memory(m.pid(), "VmRSS");
    for words in [&["job", "attach", &id][..], &["watch", &id]] {
        let mut command = unread(&m, words);
        let mut lines = BufReader::new(command.stdout.take().unwrap()).lines();
        for at in 1..=LINES {
            assert_eq!(lines.next().unwrap().unwrap(), at.to_string());
            // The rest of the output is more than the pipe holds, so the command still runs here.
            if at == LINES - 200_000 {
                let most = memory(command.id(), "VmHWM");
                assert!(most < 128, "{words:?} took {most} MiB");
            }
        }
        assert!(lines.next().is_none());
        assert!(command.wait().unwrap().success());
    }
    let grown = memory(m.pid(), "VmRSS").saturating_sub(before);
    assert!(grown < 64, "the manager took {grown} MiB");
}

#[test]
fn readers_that_do_not_read_take_little_of_the_managers_memory() {
    let m = Manager::start(jobtap());
    let id = long_output(&m);
    let before = memory(m.pid(), "VmRSS");
    let words: [&[&str]; 4] = [
        &["job", "attach", &id],
        &["job", "eventlog", "-p", "output", &id],
        &["job", "wait-event", "-v", "-p", "output", &id, "never"],
        &["watch", &id],
    ];
    let commands: Vec<Process> =
        (0..4).flat_map(|_| words).map(|words| unread(&m, words)).collect();
    for command in &commands {
        until("the output is not taken", || is_blocked(command));
        let most = memory(command.id(), "VmHWM");
        assert!(most < 128, "{most} MiB");
    }
    let grown = memory(m.pid(), "VmRSS").saturating_sub(before);
    assert!(grown < 64, "the manager took {grown} MiB more than {before} MiB");
}

#[test]
fn the_last_lines_are_those_before_the_end() {
    let m = Manager::start(jobtap());
    let id = long_output(&m);
    let expected = format!("{}\n{}\n{LINES}", LINES - 2, LINES - 1);
    assert_eq!(m.jobtap(&format!("job attach --tail=3 {id}")).ok(), expected);
    assert_eq!(m.jobtap(&format!("job attach --tail=0 {id}")).ok(), "");
    // For a running job, the last lines so far and all that follow.
    let id = m.submit_args(&["sh", "-c", "seq 1 20; read x; echo $x"]);
    until("it has printed", || {
        m.jobtap(&format!("job eventlog -p output {id}")).stdout.contains(r#"data="20\n""#)
    });
    let mut command = m.command(["job", "attach", "--tail=2", &id]);
    let mut attach = spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
    let mut shown = BufReader::new(attach.stdout.take().unwrap());
    let mut text = String::new();
    // The job prints what it reads: before the lines so far are shown, that would be one of them.
    while !text.ends_with("20\n") {
        assert_ne!(shown.read_line(&mut text).unwrap(), 0, "{text}");
    }
    attach.stdin.take().unwrap().write_all(b"more\n").unwrap();
    shown.read_to_string(&mut text).unwrap();
    assert_eq!((attach.wait().unwrap().success(), &*text), (true, "19\n20\nmore\n"));
    m.jobtap("queue stop").ok();
    let id = m.submit("true");
    let refused = m.jobtap(&format!("job attach --tail {id}"));
    assert_eq!((refused.code, refused.stderr.trim()), (1, "jobtap-job: No job output found"));
}

#[test]
fn a_signal_ends_attach_when_the_job_has_ended() {
    let m = Manager::start(jobtap());
    let id = long_output(&m);
    for (signal, code) in [("TERM", 143), ("INT", 130), ("HUP", 129)] {
        let mut attach = unread(&m, &["job", "attach", &id]);
        until("the output is not taken", || is_blocked(&attach));
        send(signal, attach.id());
        assert_eq!(attach.wait().unwrap().code(), Some(code), "{signal}");
    }
}

#[test]
fn a_signal_ends_a_wait_for_a_job_that_has_not_begun() {
    let m = Manager::start(jobtap());
    m.jobtap("queue stop").ok();
    let id = m.submit("true");
    for words in [&["job", "attach", &id][..], &["run", "true"]] {
        let mut command = m.command(words);
        let command = command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut waits = spawn(command);
        // The command catches signals once it watches the job.
        until("the signals are caught", || catches_terminate(waits.id()));
        send("TERM", waits.id());
        assert_eq!(waits.wait().unwrap().code(), Some(143), "{words:?}");
        let mut text = String::new();
        waits.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(text.contains("job is not running"), "{text}");
    }
}

/// Whether the process has a handler for SIGTERM.
fn catches_terminate(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() & (1 << 14) != 0
}

#[test]
fn two_interrupts_cancel_and_a_signal_is_passed_on() {
    let m = Manager::start(jobtap());
    for signals in [&["INT", "INT"][..], &["TERM"]] {
        let id = m.submit("sleep 1000");
        m.wait(&id, "start");
        let mut attach = m.command(["job", "attach", &id]);
        let mut attach = spawn(attach.stdin(Stdio::null()).stderr(Stdio::piped()));
        until("the signals are caught", || catches_terminate(attach.id()));
        let mut messages = BufReader::new(attach.stderr.take().unwrap()).lines();
        for (at, signal) in signals.iter().enumerate() {
            if at > 0 {
                let asked = messages.next().unwrap().unwrap();
                assert!(asked.ends_with("one more ctrl-C within 2s to cancel or ctrl-Z to detach"));
            }
            send(signal, attach.id());
        }
        assert_eq!(attach.wait().unwrap().code(), Some(143));
        m.wait(&id, "clean");
    }
}

#[test]
fn the_status_line_names_a_stopped_queue() {
    let m = Manager::start(jobtap());
    m.jobtap("queue stop").ok();
    let id = m.submit("true");
    let mut attach = m.command(["job", "attach", "--show-status", &id]);
    let mut attach = spawn(attach.stdin(Stdio::null()).stderr(Stdio::piped()));
    let mut shown = BufReader::new(attach.stderr.take().unwrap()).split(b'\r');
    until("the queue is named", || {
        let line = String::from_utf8(shown.next().unwrap().unwrap()).unwrap();
        line.contains("waiting for resources (default queue stopped)")
    });
    std::thread::spawn(move || shown.for_each(drop));
    m.jobtap("queue start").ok();
    assert!(attach.wait().unwrap().success());
}

#[test]
fn watched_ids_are_the_only_jobs_that_are_watched() {
    let m = Manager::start(jobtap());
    let ids = ["one", "two"].map(|word| m.submit(&format!("echo {word}")));
    let shown = |words: &str| m.jobtap(&format!("watch {words}")).ok();
    assert_eq!(shown(&format!("--all {}", ids[0])), "one");
    assert_eq!(shown(&format!("--filter=inactive {}", ids[1])), "two");
    let mut all: Vec<String> = shown("--all").lines().map(str::to_owned).collect();
    all.sort_unstable();
    assert_eq!(all, ["one", "two"]);
}

#[test]
fn fast_output_keeps_its_lines_labels_and_limit() {
    let m = Manager::start(jobtap());
    let labelled = m.jobtap_args(&["run", "-l", "seq", "1", "20000"]).ok();
    let expected: Vec<String> = (1..=20000).map(|at| format!("0: {at}")).collect();
    assert!(labelled == expected.join("\n"));
    let here = jobtap_tests::temporary();
    let words = ["run", "-l", "--output=out", "seq", "1", "20000"];
    run(m.command(words).current_dir(here.path())).ok();
    assert!(
        std::fs::read_to_string(here.path().join("out")).unwrap() == expected.join("\n") + "\n"
    );
    let kept = m.jobtap_args(&["run", "-o", "output.limit=100", "seq", "1", "20000"]);
    let lines: Vec<String> = (1..=36).map(|at| at.to_string()).collect();
    assert_eq!(kept.stdout.trim(), lines.join("\n"));
    assert!(kept.stderr.contains("stdout will be truncated, 100 limit exceeded"), "{kept:?}");
}
