//! Control characters in text that users write are escaped before they reach a terminal; JSON output keeps
//! the text unchanged.

use jobtap_tests::{Manager, jobtap};
use serde_json::Value;

/// Sets the window's title, clears the screen and forges a line; U+009B is ESC [ as one character.
const HOSTILE: &str = "a\u{1b}]0;x\u{7}\u{1b}[2Jb\nforged\u{9b}8m";
/// How it is shown within a line.
const SHOWN: &str = r"a\u001b]0;x\u0007\u001b[2Jb\u000aforged\u009b8m";

#[track_caller]
fn is_clean(what: &str, text: &str) {
    let harmful = |c: char| c.is_control() && c != '\n' && c != '\t';
    assert!(!text.contains(harmful), "{what}: {text:?}");
}

#[test]
fn control_characters_are_escaped_for_terminals() {
    let m = Manager::start(jobtap());
    let name = format!("--job-name={HOSTILE}");
    let id = m.submit_args(&["--urgency=hold", &name, "true"]);
    m.wait(&id, "priority");
    m.jobtap_args(&["job", "memo", &id, &format!("note={HOSTILE}")]).ok();
    m.jobtap_args(&["job", "raise", "--severity=5", "-m", HOSTILE, &id]).ok();
    m.jobtap_args(&["queue", "stop", "-m", HOSTILE]).ok();
    m.jobtap_args(&["resource", "drain", "0", HOSTILE]).ok();
    assert_eq!(m.field(&id, "name"), SHOWN);
    assert_eq!(m.field(&id, "user.note"), SHOWN);
    let fatal = m.jobtap_args(&["job", "raise", "-t", "x", "-m", HOSTILE, &id]);
    assert_eq!(fatal.code, 0, "{fatal:?}");
    m.wait(&id, "clean");
    for words in [
        "jobs -a",
        "jobs -a --json",
        "jobs -a -o {name}|{user}|{exception.note}|{status_abbrev}",
        "pgrep -a -f a",
        "job list -a",
        "job list-ids ID",
        "job why ID",
        "job eventlog ID",
        "job eventlog -H ID",
        "job eventlog -f json ID",
        "job info ID jobspec",
        "job info ID eventlog",
        "job status -vv ID",
        "job attach -v ID",
        "job wait-event -v ID exception",
        "queue status -v",
        "queue list",
        "resource drain",
        "resource status",
        "resource list -v",
        "audit",
        "dmesg",
        "dmesg -H",
        "uptime",
        "kvs get resource.eventlog",
    ] {
        let output = m.jobtap(&words.replace("ID", &id));
        is_clean(words, &output.stdout);
        is_clean(words, &output.stderr);
        assert!(!output.stdout.lines().any(|line| line.starts_with("forged")), "{words}");
    }
    // With colors, the only escape sequences are those of the colors.
    for words in ["job eventlog -L ID", "jobs -a --color=always", "dmesg -L"] {
        let output = m.jobtap(&words.replace("ID", &id));
        let mut rest = String::new();
        for part in output.stdout.split("\u{1b}[") {
            let end = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
            rest.push_str(end);
        }
        is_clean(words, &rest);
        assert!(!rest.starts_with('J') && !rest.contains("\u{1b}"), "{words}: {rest:?}");
    }
}

#[test]
fn json_output_has_the_unchanged_text() {
    let m = Manager::start(jobtap());
    let id = m.submit_args(&["--urgency=hold", &format!("--job-name={HOSTILE}"), "true"]);
    m.wait(&id, "priority");
    let listed: Value = serde_json::from_str(&m.jobtap("jobs --json").ok()).unwrap();
    assert_eq!(listed.pointer("/jobs/0/name").unwrap(), HOSTILE);
    let spec: Value =
        serde_json::from_str(&m.jobtap(&format!("job info {id} jobspec")).ok()).unwrap();
    assert_eq!(spec.pointer("/attributes/system/job/name").unwrap(), HOSTILE);
}
