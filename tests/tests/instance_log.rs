//! An administrator can see who changed the instance, when managers ran and how they ended, and the log.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use jobtap_tests::{Manager, jobtap, spawn, temporary};
use serde_json::Value;

/// Returns the events of the audit log: the name and the context.
fn changes(m: &Manager) -> Vec<(String, Value)> {
    let lines = m.jobtap("audit -f json").ok();
    let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let change =
        |event: Value| (event["name"].as_str().unwrap().to_owned(), event["context"].clone());
    events.map(change).collect()
}

#[test]
fn the_audit_log_records_who_asked_and_the_result() {
    let dir = temporary();
    let state = dir.path().join("state");
    let mut m = Manager::start_in(jobtap(), &state, &[]);
    m.jobtap("queue stop -m maintenance").ok();
    assert_eq!(m.jobtap("plugin load nosuch").code, 1);
    m.jobtap("queue status").ok();
    // The audit log doesn't repeat what a job's eventlog records.
    m.submit("true");
    m.stop();
    m.start_again();
    let changes = changes(&m);
    let names: Vec<&str> = changes.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["start", "queue-stop", "plugin-load", "finish", "start"]);
    let stop = &changes.get(1).unwrap().1;
    assert_eq!((&stop["reason"], &stop["result"]), (&"maintenance".into(), &"ok".into()));
    assert!(stop["userid"].is_u64());
    let load = &changes.get(2).unwrap().1;
    assert!(load["result"].as_str().unwrap().contains("nosuch"), "{load}");
    let some = m.jobtap("audit --time-format=offset queue-stop finish").ok();
    assert_eq!(some.lines().count(), 2, "{some}");
}

#[test]
fn a_guest_can_neither_read_nor_write_the_audit_log() {
    let m = Manager::start(jobtap());
    for words in ["audit", "startlog", "dmesg", "dmesg -C", "queue stop"] {
        let refused = m.as_guest(words);
        assert_eq!(refused.code, 1, "{words}");
        assert!(refused.stderr.contains("owner credentials"), "{refused:?}");
    }
    assert_eq!(changes(&m).len(), 1);
}

#[test]
fn the_log_of_runs_distinguishes_a_crash_from_a_shutdown() {
    let dir = temporary();
    let state = dir.path().join("state");
    let mut m = Manager::start_in(jobtap(), &state, &[]);
    assert_eq!(m.jobtap("startlog --check --quiet").code, 0);
    m.stop();
    m.start_again();
    assert_eq!(m.jobtap("startlog --check --quiet").code, 0);
    m.kill();
    m.start_again();
    let checked = m.jobtap("startlog --check -v");
    assert_eq!(checked.code, 1);
    let lines: Vec<&str> = checked.stdout.lines().collect();
    let version = env!("CARGO_PKG_VERSION");
    assert!(
        matches!(lines.as_slice(), [first, second, third]
        if first.ends_with(&format!("s) {version}"))
            && second.contains(" - crashed")
            && third.contains(" - running (")),
        "{lines:?}"
    );
}

#[test]
fn uptime_shows_stopped_and_disabled_queues() {
    let m = Manager::start(jobtap());
    let line = m.jobtap("uptime").ok();
    assert!(line.contains(" run ") && line.ends_with(",  depth 0,  size 1"), "{line}");
    m.jobtap("queue stop").ok();
    assert!(m.jobtap("uptime").ok().ends_with("\n  scheduler stopped"));
}

#[test]
fn dmesg_shows_watches_and_clears_the_log() {
    let m = Manager::start(jobtap());
    let reload = || m.jobtap("config reload").ok();
    let text = m.jobtap("dmesg").ok();
    assert!(text.contains("Z job-manager.info[0]: restart: 0 jobs\n"), "{text}");
    assert!(text.contains("job-manager.info[0]: restart: 0 running jobs"), "{text}");
    assert!(m.jobtap("dmesg -H").ok().starts_with('['));
    let refused = m.jobtap("dmesg -d");
    let expected = "jobtap-dmesg: --delta can only be used with --human\n";
    assert_eq!((refused.code, refused.stderr.as_str()), (1, expected));
    assert_eq!(m.jobtap("dmesg -c").ok(), text);
    assert_eq!(m.jobtap("dmesg").ok(), "");

    let mut follow = m.command(["dmesg", "-f"]);
    reload();
    let mut follow = spawn(follow.stdin(Stdio::null()).stdout(Stdio::piped()));
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines().map(Result::unwrap);
    // First the lines that were there, then new ones.
    assert!(lines.next().unwrap().contains("configuration"));
    reload();
    assert!(lines.next().unwrap().contains("configuration"));
    drop(m);
    assert_eq!(lines.count(), 0);
    follow.wait().unwrap();
}

/// The number of lines in a manager's configuration file before those of the test.
const BEFORE: usize = 5;

#[test]
fn what_a_configuration_says_in_vain_is_told_once() {
    let first = "[exec]\njob-shell = \"/bin/sh\"\n\n[log]\nring-size = 100\n";
    let mut m = Manager::start_with(jobtap(), first);
    let count = |m: &Manager, text: &str| m.jobtap("dmesg").ok().matches(text).count();
    let shell = "exec.job-shell: has no effect here: tasks are started without job shells";
    assert_eq!(count(&m, shell), 1);
    assert!(m.jobtap("dmesg").ok().contains(&format!("config.toml, line {})", BEFORE + 2)));
    let reloaded = m.jobtap("config reload");
    assert_eq!((reloaded.code, reloaded.stderr.as_str()), (0, ""));
    assert_eq!(count(&m, shell), 1, "it was said at the start");

    m.configure(&format!("{first}\n[tbon]\ntopo = \"kary:2\"\n"));
    let reloaded = m.jobtap("config reload");
    let said = "jobtap-config: WARNING: reload: [tbon]: has no effect here: ";
    assert!(reloaded.stderr.starts_with(said), "{reloaded:?}");
    let place = format!("config.toml, line {})", BEFORE + 7);
    assert!(reloaded.stderr.contains(&place), "{reloaded:?}");

    m.configure(&first.replace("100", "200"));
    let reloaded = m.jobtap("config reload");
    let said = "jobtap-config: WARNING: reload: log.ring-size has changed, and takes effect when the manager \
                restarts, as by `jobtap module reload job-manager`\n";
    assert_eq!((reloaded.code, reloaded.stderr.as_str()), (0, said));
    m.configure(first);
    assert_eq!(m.jobtap("config reload").stderr, "", "it is as at the start again");
    drop(m.stop());
}

#[test]
fn a_mistake_is_refused_with_its_file_and_line() {
    let m = Manager::start_with(jobtap(), "");
    for (text, said, line) in [
        ("[exec]\nkill-timeout = \"x\"\n", "exec.kill-timeout: ", 2),
        ("[exec]\n\nkil-timeout = \"5s\"\n", "did you mean exec.kill-timeout?", 3),
        ("[policy.limits]\nduration = 5\n", "'duration' is not a valid FSD", 2),
        ("[http]\nlisten = 5\n", "http.listen: invalid type: integer `5`, expected a string", 2),
        ("[fake-resources]\nnnodes = 0\n", "nnodes: 0 is not from 1 to 1000000", 2),
        (
            "\n[[resource.maintenance]]\nnodes = \"0\"\nfrom = \"2026-02-31T08:00:00Z\"\n",
            "\"2026-02-31T08:00:00Z\" is no time",
            2,
        ),
        ("[quees.debug]\n", "did you mean queues?", 1),
    ] {
        m.configure(text);
        let refused = m.jobtap("config reload");
        assert_eq!(refused.code, 1, "{text}");
        assert!(refused.stderr.contains(said), "{refused:?}");
        let place = format!("config.toml, line {})", BEFORE + line);
        assert!(refused.stderr.contains(&place), "{refused:?}");
    }
    let dir = temporary();
    let file = dir.path().join("wrong.toml");
    std::fs::write(&file, "[exec]\nkill-timeout = \"x\"\n").unwrap();
    let mut start = jobtap_tests::clean(jobtap());
    start.args(["start", "--config-path"]).arg(&file).arg("true");
    let refused = jobtap_tests::run(&mut start);
    assert_ne!(refused.code, 0);
    let place = format!("({}, line 2)", file.display());
    assert!(refused.stderr.contains("exec.kill-timeout: ") && refused.stderr.contains(&place));
}
