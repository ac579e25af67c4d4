//! One command submits, finds or cancels many jobs.

use std::io::Write;
use std::process::Stdio;

use jobtap_tests::{Manager, jobtap, spawn, temporary};

#[test]
fn each_combination_of_inputs_is_a_job() {
    let m = Manager::start(jobtap());
    let words = "bulksubmit --job-name={1}-{seq1} --watch --quiet echo {0}:{1} ::: a b ::: 1 2";
    let output = m.jobtap(words).ok();
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["a:1", "a:2", "b:1", "b:2"]);
    let names = m.jobtap("jobs -a --sort=name -no {name}").ok();
    assert_eq!(names, "1-1\n1-3\n2-2\n2-4");
}

#[test]
fn lines_of_standard_input_are_commands() {
    let m = Manager::start(jobtap());
    let mut command = m.command(["bulksubmit", "--wait"]);
    let mut command = spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
    command.stdin.take().unwrap().write_all(b"sh -c 'exit 3'\n\ntrue\n").unwrap();
    let ended = command.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(3));
    assert_eq!(String::from_utf8_lossy(&ended.stdout).lines().count(), 2);
    let listed = m.jobtap("jobs -a --sort=id -no {name}:{returncode}").ok();
    assert_eq!(listed, "sh:3\ntrue:0");
}

#[test]
fn a_dry_run_shows_what_would_be_submitted() {
    let m = Manager::start(jobtap());
    let dir = temporary();
    let file = dir.path().join("inputs");
    std::fs::write(&file, "data/x.tar.gz,data/y z.gz").unwrap();
    let file = file.to_str().unwrap();
    let dry = ["bulksubmit", "--dry-run", "--sep=,", "-n{seq1}", "--output={{id}}.{./%}"];
    let shown = m.jobtap_args(&[&dry[..], &["--cc=0-1", "cat", "{}", "::::", file]].concat()).ok();
    assert_eq!(
        shown,
        "bulksubmit: submit -n1 --output={{id}}.x.tar --cc=0-1 cat data/x.tar.gz\n\
         bulksubmit: submit -n2 --output={{id}}.y z --cc=0-1 cat data/y z.gz"
    );
    assert_eq!(m.jobtap("jobs -ano {id}").ok(), "");
}

#[test]
fn submissions_that_are_refused_name_the_reason() {
    let m = Manager::start(jobtap());
    let refused = |words: &str| {
        let output = m.jobtap(words);
        assert_eq!(output.code, 1, "{output:?}");
        output.stderr
    };
    assert_eq!(
        refused("bulksubmit echo :::"),
        "jobtap-bulksubmit: ERROR: no jobs provided for bulk submission\n"
    );
    let unknown = refused("bulksubmit echo {2} ::: a ::: b");
    assert!(unknown.contains("Invalid replacement {2} in '{2}'"), "{unknown}");
    // The other jobs are submitted all the same.
    let some = m.jobtap("bulksubmit --urgency={} true ::: 1 99 2");
    assert_eq!((some.code, some.stdout.lines().count()), (1, 2), "{some:?}");
    assert!(some.stderr.starts_with("[Errno 22] "), "{some:?}");
}

#[test]
fn ids_output_and_errors_go_to_files() {
    let m = Manager::start(jobtap());
    let dir = temporary();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let log = format!("--log={}", at("log{cc}"));
    let script = "echo out{cc}; echo err >&2";
    let submit = ["submit", "--watch", "--cc=1-2", &log, "sh", "-c", script];
    let shown = m.jobtap_args(&submit);
    assert_eq!((shown.code, shown.stdout.as_str(), shown.stderr.as_str()), (0, "", ""));
    let ids = m.jobtap("jobs -a --sort=id -no {id.f58}").ok();
    for (cc, id) in [1, 2].into_iter().zip(ids.lines()) {
        let text = std::fs::read_to_string(at(&format!("log{cc}"))).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.remove(0), id);
        lines.sort_unstable();
        assert_eq!(lines, ["err".to_owned(), format!("out{cc}")]);
    }
    let errors = format!("--log-stderr={}", at("errors"));
    let bulk = ["bulksubmit", &errors, "--urgency={}", "true", ":::", "16", "99"];
    let shown = m.jobtap_args(&bulk);
    assert_eq!((shown.code, shown.stdout.lines().count(), shown.stderr.as_str()), (1, 1, ""));
    assert!(std::fs::read_to_string(at("errors")).unwrap().starts_with("[Errno 22] "));
}

#[test]
fn jobs_are_found_by_name_and_range_and_canceled() {
    let m = Manager::start(jobtap());
    let held = |name: &str| m.submit(&format!("--urgency=hold --job-name={name} true"));
    let [red, green, blue] = ["red", "green", "blue"].map(held);
    assert_eq!(m.jobtap("pgrep re").ok(), format!("{red}\n{green}"));
    assert_eq!(m.jobtap("pgrep name:^re").ok(), red);
    assert_eq!(m.jobtap(&format!("pgrep {green}..{blue} e$")).ok(), blue);
    assert_eq!(m.jobtap("pgrep -c 1 .").ok().lines().count(), 1);
    assert!(m.jobtap("pgrep -o full red").ok().starts_with("       JOBID USER "));
    assert_eq!(m.jobtap("pgrep nosuch").code, 1);
    let wrong = m.jobtap("pgrep a b");
    let expected = "jobtap-pgrep: ERROR: expression error: Only one pattern can be provided\n";
    assert_eq!((wrong.code, wrong.stderr.as_str()), (2, expected));

    let killed = m.jobtap("pkill --wait re");
    assert_eq!((killed.code, killed.stdout.as_str()), (0, ""));
    assert_eq!(killed.stderr, "jobtap-pkill: INFO: Canceled 2 jobs\n");
    assert_eq!(m.field(&red, "result"), "CANCELED");
    assert_eq!(m.jobtap("jobs -no {id.f58}").ok(), blue);
    assert_eq!(m.jobtap("pkill re").code, 1);
    let over = m.jobtap("pkill -a red");
    assert!(
        over.stderr.contains(&format!("ERROR: {red}: cancel: [Errno 2] job is inactive")),
        "{over:?}"
    );
}

#[test]
fn waiting_for_an_event_that_never_comes_ends_with_the_job() {
    let m = Manager::start(jobtap());
    for event in ["nosuch", "exec.nosuch"] {
        for (command, code) in [("true", 0), ("false", 1)] {
            let output = m.jobtap(&format!("submit --wait-event={event} {command}"));
            assert_eq!((output.code, output.stderr.as_str()), (code, ""), "{event}");
        }
    }
    let output = m.jobtap("submit --wait-event=finish true");
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    let output = m.jobtap("submit --wait-event=exec.shell.start false");
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
}

#[test]
fn the_events_of_an_execution_are_shown_before_the_one_that_is_waited_for() {
    let m = Manager::start(jobtap());
    let shown = |options: &str| {
        let output = m.jobtap(&format!("submit -vv {options} true"));
        let names = output.stderr.lines().filter_map(|line| line.split(' ').nth(2));
        names.map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    let started = "submit validate depend priority alloc start";
    let starting = format!("{started} exec.init exec.starting exec.shell.init");
    assert_eq!(shown("--wait-event=exec.shell.start"), format!("{starting} exec.shell.start"));
    assert_eq!(shown("--wait-event=start"), started);
    let end = "finish complete: release free clean";
    assert_eq!(shown("--watch"), format!("{starting} {end}"));
    assert_eq!(shown("--wait"), format!("{started} {end}"));
}
