//! `jobtap bench`: figures of this machine, of one binary or of two.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use jobtap_tests::{Output, PATIENCE, clean, jobtap, run, spawn, temporary, workspace};
use serde_json::Value;

fn bench(words: &str) -> Output {
    run(clean(jobtap()).arg("bench").args(words.split_whitespace()))
}

/// The figures in a report, by name.
fn figures(report: &Value) -> BTreeMap<String, &Value> {
    let figures = report["figures"].as_array().unwrap();
    figures.iter().map(|one| (one["name"].as_str().unwrap().to_owned(), one)).collect()
}

#[test]
fn every_part_gives_figures_with_units() {
    let report: Value = serde_json::from_str(&bench("--jobs=50 --json").ok()).unwrap();
    assert_eq!(report["bench"], 1);
    assert!(report["program"].as_str().unwrap().starts_with("jobtap "));
    assert!(report["machine"]["cpus"].as_u64() >= Some(1));
    let figures = figures(&report);
    for (name, figure) in &figures {
        let value = figure["value"].as_f64().unwrap();
        let unit = figure["unit"].as_str().unwrap();
        let known = ["jobs/s", "1/s", "us", "us/job", "ms", "s", "ns", "B/job", "kB/node", "%", ""];
        assert!(known.contains(&unit), "{figure}");
        assert!(value.is_finite(), "{figure}");
        let rate = unit == "jobs/s" || unit == "1/s";
        assert!(!rate || value > 0.0, "{figure}");
        assert!(!rate || figure["better"] == "more", "{figure}");
        // 64 clients submit one job each, and turns are of the same length.
        assert!((1..=64).contains(&figure["jobs"].as_u64().unwrap()), "{figure}");
        assert!(is_described(name), "docs/src/performance-figures.md doesn't describe {name}");
    }
    for name in [
        "submit.one.rate",
        "submit.clients.p99.9",
        "submit.bulk.rate",
        "submit.fdatasync.p50",
        "throughput.rate",
        "throughput.cpu.engine",
        "throughput.store.share",
        "stages.decode",
        "stages.publish",
        "run.rate",
        "run.bare.share",
        "nodes.rate.share",
        "nodes.job",
        "restart.pending.time",
        "memory.pending.beyond",
        "memory.running",
        "memory.inactive",
        "callbacks.each",
        "callbacks.lua.cpu",
        "reprioritize.changed",
        "schedule.release.p50",
        "list.time",
        "watch.job.time",
        "watch.all.rate",
    ] {
        assert!(figures.contains_key(name), "{name} is missing: {:?}", figures.keys());
    }
    assert_eq!(report["skipped"], serde_json::json!([]));
}

/// Whether the guide describes this figure, by its name or by the end of its name.
fn is_described(name: &str) -> bool {
    let guide = fs::read_to_string(workspace().join("docs/src/performance-figures.md")).unwrap();
    if guide.contains(&format!("`{name}`")) {
        return true;
    }
    // `throughput.cpu.NAME` stands for the names of threads.
    if name.starts_with("throughput.cpu.") {
        return guide.contains("`throughput.cpu.NAME`");
    }
    let parts: Vec<usize> = name.match_indices('.').map(|(index, _)| index).collect();
    parts.iter().any(|index| {
        let (family, end) = name.split_at(*index);
        guide
            .lines()
            .any(|line| line.contains(&format!("`{family}.")) && line.contains(&format!("`{end}`")))
    })
}

#[test]
fn a_table_has_a_line_for_each_figure() {
    let table = bench("memory --jobs=20,40 --rounds=2").ok();
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].contains(" processors, Linux "), "{table}");
    assert_eq!(lines[1], "FIGURE                         JOBS      VALUE UNIT");
    let sizes = |name: &str| -> Vec<&str> {
        let rows = lines.iter().filter(|line| line.starts_with(&format!("{name} ")));
        rows.map(|line| line.split_whitespace().nth(1).unwrap()).collect()
    };
    assert_eq!(sizes("memory.pending"), ["20", "40"]);
    assert_eq!(sizes("memory.inactive"), ["20", "40"]);
}

#[test]
fn two_binaries_are_compared_figure_by_figure() {
    let words = format!("run reprioritize --jobs=10 --json --pair {}", jobtap().display());
    let report: Value = serde_json::from_str(&bench(&words).ok()).unwrap();
    assert_eq!(report["programs"].as_array().unwrap().len(), 2);
    let figures = figures(&report);
    for name in ["run.rate", "run.bare.rate", "reprioritize.same"] {
        let figure = figures[name];
        let number = |key: &str| figure[key].as_f64().unwrap();
        let ratio = number("this") / number("other");
        assert!((number("ratio") / ratio - 1.0).abs() < 1e-9, "{figure}");
        assert_eq!(figure["this_values"].as_array().unwrap().len(), 3, "{figure}");
        assert_eq!(figure["other_values"].as_array().unwrap().len(), 3, "{figure}");
    }
    assert_eq!(report["missing"], serde_json::json!([]));
}

#[test]
fn figures_of_a_binary_that_lacks_them_are_missing() {
    let directory = temporary();
    let older = directory.path().join("older");
    fs::write(
        &older,
        "#!/bin/sh\necho 'older-bench: error: unrecognized arguments: --json' >&2\nexit 2\n",
    )
    .unwrap();
    fs::set_permissions(&older, fs::Permissions::from_mode(0o755)).unwrap();
    let table =
        bench(&format!("reprioritize --jobs=10 --rounds=1 --pair {}", older.display())).ok();
    let row = table.lines().find(|line| line.starts_with("reprioritize.same ")).unwrap();
    assert!(row.contains(" missing "), "{table}");
    let reason = "older-bench: error: unrecognized arguments: --json";
    let words = format!("{} doesn't measure reprioritize: {reason}", older.display());
    assert!(table.lines().any(|line| line == words), "{table}");
}

#[test]
fn wrong_input_is_refused_in_words() {
    let refused = |words: &str| {
        let output = bench(words);
        assert_eq!(output.code, 2, "{output:?}");
        output.stderr.trim_end().lines().last().unwrap().to_owned()
    };
    assert!(refused("speed").contains("invalid choice: 'speed' (choose from 'submit', "));
    let value = "jobtap-bench: error: argument --jobs: invalid value";
    assert_eq!(refused("--jobs=0"), format!("{value} '0': not a number such as 500, 10k or 1M"));
    let most = "more than the 10M jobs that can be measured";
    assert_eq!(refused("--jobs=1k,11M"), format!("{value} '11M': {most}"));
    assert!(refused("--rounds=0").contains("argument --rounds: invalid value '0'"));
    assert_eq!(
        refused("--pair=/nowhere/jobtap"),
        "jobtap-bench: ERROR: --pair: /nowhere/jobtap is not a file"
    );
    let output = run(clean(jobtap()).args(["bench", "memory"]).env("TMPDIR", "/nowhere"));
    assert_eq!(output.code, 1);
    assert!(output.stderr.contains("/nowhere, which TMPDIR names: "), "{output:?}");
}

#[test]
fn an_interrupt_leaves_nothing_behind() {
    for signal in ["INT", "TERM"] {
        let directory = temporary();
        let process = measuring(directory.path());
        let id = process.id().to_string();
        run(Command::new("kill").args(["-s", signal, &id])).ok();
        let output = process.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(said.trim_end(), "jobtap-bench: ERROR: interrupted");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        assert_eq!(processes_of(directory.path()), [0u32; 0]);
    }
}

#[test]
fn processes_end_when_the_command_is_killed() {
    let directory = temporary();
    let mut process = measuring(directory.path());
    process.kill().unwrap();
    process.wait().unwrap();
    until("processes are left", || processes_of(directory.path()).is_empty());
}

/// Starts a run that would take long, and waits until its manager runs.
fn measuring(directory: &Path) -> jobtap_tests::Process {
    let mut command = clean(jobtap());
    command.args(["bench", "throughput", "--jobs=100k"]).env("TMPDIR", directory);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let process = spawn(&mut command);
    until("no manager is started", || {
        // The command, the measuring process, the manager, its shepherd and the shepherd's forker.
        processes_of(directory).len() >= 5
    });
    process
}

/// The processes whose `TMPDIR` is this directory or one below it.
fn processes_of(directory: &Path) -> Vec<u32> {
    let wanted = format!("TMPDIR={}", directory.display());
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse() else { continue };
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        if variables.any(|variable| variable.starts_with(wanted.as_bytes())) {
            found.push(pid);
        }
    }
    found
}

#[track_caller]
fn until(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
