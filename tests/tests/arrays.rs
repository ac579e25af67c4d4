//! Job arrays: many jobs by one request.
#![allow(clippy::unwrap_used)]

use std::fs;

use jobtap_core::resource::Idset;
use jobtap_tests::{Manager, jobtap, temporary, until};

/// The elements by what has become of them, by `job eventlog`.
fn ended(m: &Manager, array: &str) -> usize {
    let log = m.jobtap(&format!("job eventlog {array}")).ok();
    let sets = log.split("completed=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let count = |set: &str| set.parse::<Idset>().map_or(0, |set| set.len());
    sets.map(count).sum()
}

#[test]
fn an_array_is_one_request_for_many_jobs() {
    let m = Manager::start(jobtap());
    let dir = temporary();
    let path = |name: &str| dir.path().join(name).display().to_string();
    fs::write(path("in"), "a\nb b\nc\n").unwrap();
    let output = format!("--output={}", path("out-{{array.index}}-{./}"));
    let input = path("in");
    let words =
        ["bulksubmit", "--array", "--wait", &output, "echo", "{}", "{seq1}", "::::", &input];
    let array = m.jobtap_args(&words).ok();
    for (name, text) in [("out-0-a", "a 1\n"), ("out-1-b b", "b b 2\n"), ("out-2-c", "c 3\n")] {
        assert_eq!(fs::read_to_string(path(name)).unwrap(), text);
    }
    let listed = m.jobtap(&format!("jobs -no {{id}}:{{status}} {array}")).ok();
    assert_eq!(listed, format!("{array}[0-2]:COMPLETED"));
    let attached = m.jobtap(&format!("job attach {array}"));
    assert!(attached.stderr.contains("is a job array: name an element"), "{attached:?}");
    for words in ["job wait-event ID clean", "job eventlog --follow ID"] {
        let refused = m.jobtap(&words.replace("ID", &array));
        assert!(refused.code == 1 && refused.stderr.contains("use job status"), "{refused:?}");
    }
    let missing = m.jobtap(&format!("job info {array}[7] jobspec"));
    assert!(missing.stderr.contains("there is no job"), "{missing:?}");
    let jobspec = m.jobtap(&format!("job info {array}[1] jobspec")).ok();
    assert!(jobspec.contains("\"command\": [\"echo\", \"b b\", \"2\"]"), "{jobspec}");
}

#[test]
fn what_has_failed_is_submitted_again() {
    let m = Manager::start(jobtap());
    let dir = temporary();
    let flag = dir.path().join("mended").display().to_string();
    let script = format!("test {{}} -lt 3 || test -e {flag}");
    let words = ["bulksubmit", "--array", "--wait", "sh", "-c", &script, ":::", "1", "3", "2", "4"];
    let first = m.jobtap_args(&words);
    assert_eq!(
        (first.code, first.stderr.contains("2 elements failed: 1,3")),
        (1, true),
        "{first:?}"
    );
    let array = first.stdout.trim();
    assert_eq!(m.jobtap(&format!("job status {array}")).code, 1);
    fs::write(&flag, "").unwrap();
    let again = m.jobtap(&format!("resubmit --failed {array}")).ok();
    assert_eq!(m.jobtap(&format!("job status {again}")).code, 0);
    let listed = m.jobtap(&format!("jobs -no {{id}}:{{status}} {again}")).ok();
    assert_eq!(listed, format!("{again}[1,3]:COMPLETED"));
    let nothing = m.jobtap(&format!("resubmit --failed {again}"));
    assert!(nothing.stdout.is_empty() && nothing.stderr.contains("nothing has failed"));
    // A single element, as a job of its own.
    let one = m.jobtap_args(&["resubmit", "-t", "5m", &format!("{array}[3]")]).ok();
    assert_eq!(m.jobtap(&format!("job status {one}")).code, 0);
}

#[test]
fn all_output_of_an_array_is_in_one_file() {
    let m = Manager::start(jobtap());
    let dir = temporary();
    let pack = dir.path().join("pack").display().to_string();
    let option = format!("--output-pack={pack}");
    let script = "echo out {}; echo err {} >&2";
    let words =
        ["bulksubmit", "--array", "--wait", &option, "sh", "-c", script, ":::", "x", "y", "z"];
    let array = m.jobtap_args(&words).ok();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    let attached = m.jobtap(&format!("job attach {array}[1]"));
    assert_eq!((&*attached.stdout, &*attached.stderr), ("out y\n", "err y\n"));
    let unpacked = m.jobtap(&format!("job unpack {pack} {array}[2]"));
    assert_eq!((&*unpacked.stdout, &*unpacked.stderr), ("out z\n", "err z\n"));
    let listed = m.jobtap(&format!("job unpack -L {pack}")).ok();
    assert_eq!(listed.lines().count(), 3, "{listed}");
    // What is cut off is told, and the rest is read.
    let whole = fs::read(&pack).unwrap();
    fs::write(&pack, &whole[..whole.len() - 3]).unwrap();
    let cut = m.jobtap(&format!("job unpack -L {pack}"));
    assert!(cut.stderr.contains("are in no whole block") && cut.stdout.lines().count() == 2);
    let no_file = m.jobtap_args(&["run", "--output-pack=/dev/null", "true"]);
    assert!(no_file.stderr.contains("an output pack must be a regular file"), "{no_file:?}");
}

#[test]
fn an_array_goes_on_after_kills_and_each_element_runs_once() {
    let mut m = Manager::start(jobtap());
    let dir = temporary();
    let runs = dir.path().join("runs");
    let script = format!("echo $JOBTAP_ARRAY_INDEX >>{}", runs.display());
    let inputs: Vec<String> = (0..1400).map(|number| number.to_string()).collect();
    fs::write(dir.path().join("in"), inputs.join("\n")).unwrap();
    let input = dir.path().join("in").display().to_string();
    let array = m.jobtap_args(&["bulksubmit", "--array", "sh", "-c", &script, "::::", &input]).ok();
    for part in 1..=4 {
        until("a part has run", || ended(&m, &array) > part * 120);
        m.kill();
        m.start_again();
    }
    until("all have run", || ended(&m, &array) == 1400);
    let ran = fs::read_to_string(&runs).unwrap();
    let mut ran: Vec<u32> = ran.lines().map(|line| line.parse().unwrap()).collect();
    ran.sort_unstable();
    assert!(ran.iter().copied().eq(0..1400), "{} runs", ran.len());
    let stats = m.jobtap("jobs --stats-only").stdout;
    assert!(stats.starts_with("0 running, 1400 completed, 0 failed, 0 pending"), "{stats}");
}

#[test]
fn what_an_array_cannot_have_is_refused_before_anything_is_submitted() {
    let m = Manager::start(jobtap());
    for (words, error) in [
        ("--array -n{} true ::: 1 2", "the elements of an array have the same resources"),
        ("--array --env=X={} true ::: 1 2", "a variable can't differ from element to element"),
        ("--array --cc=1-2 true ::: 1", "--cc can't be used with --array"),
        ("--array --watch true ::: 1", "--watch can't be used with --array"),
        ("--array true :::", "no jobs provided for bulk submission"),
        ("--array echo {1} ::: 1", "Invalid replacement {1}"),
        ("--at-once=2 true ::: 1", "--array"),
    ] {
        let refused = m.jobtap(&format!("bulksubmit {words}"));
        assert!(refused.code != 0 && refused.stderr.contains(error), "{words}: {refused:?}");
    }
    assert_eq!(m.jobtap("jobs -ano {id}").ok(), "");
    let large = m.jobtap("sbatch --array=0-4000000 --wrap=true");
    assert!(large.code != 0 && large.stderr.contains("at most 4000000 elements"), "{large:?}");
}
