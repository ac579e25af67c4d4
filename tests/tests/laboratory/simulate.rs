//! `simulate` and `policy diff`, from the command line to the files.

use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;

use jobtap_tests::{Manager, clean, jobtap, run, send, spawn, until};
use serde_json::Value;

/// A directory with a trace, and configurations with two schedulers.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let jobs = ["0 -1 100 3", "1 -1 50 4", "2 -1 30 1", "3 -1 200 1", "4 -1 60 1"];
        let line = |(number, job): (usize, &&str)| {
            let run_time = job.split(' ').nth(2).unwrap();
            format!("{number} {job} -1 -1 -1 {run_time} -1 1 {number} 1 -1 -1 -1 -1 -1\n")
        };
        let trace: String = (1..).zip(&jobs).map(line).collect();
        place.write("trace.swf", &format!("; MaxProcs: 4\n{trace}rubbish\n"));
        place.write("easy.toml", "[policy.scheduler]\nqueue-policy = \"easy\"\n");
        place.write("fifo.toml", "[policy.scheduler]\nqueue-policy = \"fifo\"\n");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::File::create(self.path(name)).unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// A FIFO without a writer.
    fn pipe(&self, name: &str) {
        run(std::process::Command::new("mkfifo").arg(self.path(name))).ok();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn run(&self, words: &str) -> jobtap_tests::Output {
        let mut command = clean(jobtap());
        command.current_dir(self.0.path()).args(words.split(' '));
        run(&mut command)
    }
}

#[test]
fn two_schedulers_are_compared_on_one_trace() {
    let place = Place::new();
    let words =
        "simulate --trace trace.swf --config easy.toml --compare fifo.toml -o out --reproducible";
    let shown = place.run(words).ok();
    assert!(
        shown.contains("broken lines or jobs, left out: 1, first:")
            && shown.contains("line 7: 1 instead"),
        "{shown}"
    );
    let summary: Value = serde_json::from_str(&place.read("out/summary.json")).unwrap();
    let waits = |policy: usize| {
        summary.pointer(&format!("/policies/{policy}/metrics/wait/max")).unwrap().clone()
    };
    // As computed by hand in jobtap-core/tests/simulation.rs.
    assert_eq!((waits(0), waits(1)), (147.0.into(), 148.0.into()));
    let report = place.read("out/report.html");
    for wanted in ["<svg", "<canvas", "Gantt chart: easy", "Gantt chart: fifo", "trace.swf"] {
        assert!(report.contains(wanted), "no {wanted:?}");
    }
    for foreign in ["http://", "https://", "src=", "@import"] {
        assert!(!report.contains(foreign), "{foreign:?} in the report");
    }
    let first = (place.read("out/summary.json"), report);
    place.run(words).ok();
    assert!(first == (place.read("out/summary.json"), place.read("out/report.html")));
}

#[test]
fn a_change_that_is_worse_than_allowed_has_exit_code_1() {
    let place = Place::new();
    let diff = |old: &str, new: &str, more: &str| {
        place.run(&format!(
            "policy diff {old} {new} --trace trace.swf --min-jobs 1 --floor 10{more}"
        ))
    };
    diff("fifo.toml", "easy.toml", "").ok();
    let worse = diff("easy.toml", "fifo.toml", "");
    assert_eq!(worse.code, 1, "{worse:?}");
    assert!(
        worse.stdout.contains("worse than allowed: median wait of user 3: 0.0s before"),
        "{worse:?}"
    );
    let json = diff("easy.toml", "fifo.toml", " --json");
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json.get("passed"), Some(&Value::Bool(false)));
    assert_eq!(diff("easy.toml", "missing.toml", "").code, 2);
}

#[test]
fn the_same_seed_gives_the_same_summary() {
    let place = Place::new();
    let words = |seed: u32| format!("simulate --generate jobs=300,seed={seed} --nodes 4x8 --json");
    let first = place.run(&words(1)).ok();
    assert_eq!(first, place.run(&words(1)).ok());
    assert_ne!(first, place.run(&words(2)).ok());
}

#[test]
fn a_broken_trace_is_refused_when_asked_for() {
    let place = Place::new();
    let strict = place.run("simulate --trace trace.swf --strict");
    assert!(strict.stderr.contains("trace.swf: line 7: 1 instead of 18 fields"), "{strict:?}");
    place.write("empty.swf", "; MaxProcs: 4\n1 0 -1 -1 4 -1 -1 -1 -1 -1 1 1 1 -1 -1 -1 -1 -1\n");
    let empty = place.run("simulate --trace empty.swf");
    assert!(
        empty.stderr.contains("no job can be replayed: jobs without a run time, left out: 1"),
        "{empty:?}"
    );
    place.write("bare.swf", "1 0 -1 5 4 -1 -1 -1 -1 -1 1 1 1 -1 -1 -1 -1 -1\n");
    let unknown = place.run("simulate --trace bare.swf");
    assert!(unknown.stderr.contains("use --nodes"), "{unknown:?}");
}

#[test]
fn a_what_if_file_changes_the_outcome() {
    let place = Place::new();
    place.write("failure.toml", "[[node-failure]]\nnodes = \"0-3\"\nat = \"50s\"\n");
    let text = place.run("simulate --trace trace.swf --what-if failure.toml --json").ok();
    let summary: Value = serde_json::from_str(&text).unwrap();
    let count =
        |name: &str| summary.pointer(&format!("/policies/0/metrics/{name}")).unwrap().clone();
    // The job on three nodes and a short one were running; those that waited never start.
    assert_eq!(
        (count("completed"), count("failed"), count("pending")),
        (1.into(), 2.into(), 2.into())
    );
}

#[test]
fn an_interrupt_gives_the_figures_so_far() {
    let place = Place::new();
    let mut command = clean(jobtap());
    command.args("simulate --json --nodes 4x16 --speed 600 --generate jobs=100000".split(' '));
    command.stdout(Stdio::piped()).stderr(Stdio::null()).current_dir(place.0.path());
    let simulation = spawn(&mut command);
    // A signal that comes before the handler is installed would kill the process.
    until("SIGINT is handled", || handles_interrupts(simulation.id()));
    send("INT", simulation.id());
    let output = simulation.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary.pointer("/policies/0/interrupted"), Some(&Value::Bool(true)));
    let submitted = summary.pointer("/policies/0/metrics/submitted").and_then(Value::as_u64);
    assert!(submitted.is_some_and(|jobs| jobs < 100_000), "{submitted:?}");
}

#[test]
fn a_second_interrupt_ends_a_trace_that_never_comes() {
    let place = Place::new();
    place.pipe("pipe");
    let mut command = clean(jobtap());
    command.args("simulate --trace pipe --nodes 4".split(' ')).current_dir(place.0.path());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut simulation = spawn(&mut command);
    until("SIGINT is handled", || handles_interrupts(simulation.id()));
    // The signal is repeated, since one that comes while another is pending is lost.
    until("the simulation has ended", || {
        send("INT", simulation.id());
        simulation.try_wait().unwrap().is_some()
    });
    let output = simulation.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(130), &b""[..]));
}

#[test]
fn a_pipe_serves_one_policy() {
    let place = Place::new();
    place.pipe("pipe");
    let two = place.run("simulate --trace pipe --config easy.toml --compare fifo.toml");
    assert!(two.stderr.contains("pipe can be read only once"), "{two:?}");
    assert_eq!(two.code, 1);
}

/// Whether a process has a handler for SIGINT.
fn handles_interrupts(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() & 0b10 != 0
}

#[test]
fn the_dump_of_a_manager_is_a_trace() {
    let place = Place::new();
    let manager = Manager::start(jobtap());
    let ids = [1, 2].map(|n| manager.submit(&format!("-n1 -t {n}m true")));
    ids.iter().for_each(|id| manager.wait(id, "clean"));
    let file = place.path("own.tar");
    manager.jobtap(&format!("dump {}", file.display())).ok();
    let text = place.run("simulate --trace own.tar --nodes 1x4 --json --anonymize").ok();
    let summary: Value = serde_json::from_str(&text).unwrap();
    let metrics =
        |name: &str| summary.pointer(&format!("/policies/0/metrics/{name}")).unwrap().clone();
    assert_eq!(metrics("completed"), 2);
    assert_eq!(metrics("users/0/name"), "1");
}
