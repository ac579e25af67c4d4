//! `replay` reads a dump and a state directory of a real manager, and refuses damaged dumps and other files.

use std::collections::BTreeMap;
use std::path::Path;

use jobtap_tests::{Manager, Output, clean, jobtap, run, temporary};
use serde_json::Value;

const CONFIG: &str = "[job-manager]\n\
     plugins = [{ load = \"limits\", conf = { user = { running = 1 } } }]\n";

/// A manager that has run jobs that depend on each other, are urgent, fail, or are held and canceled.
fn manager() -> Manager {
    let m = Manager::start_with(jobtap(), CONFIG);
    let first = m.submit("-n1 sleep 1");
    let second = m.submit(&format!("-n1 --dependency=afterok:{first} true"));
    let third = m.submit("-n1 --urgency=20 false");
    let held = m.submit("-n1 --urgency=0 true");
    m.jobtap(&format!("cancel {held}")).ok();
    for id in [&first, &second, &third, &held] {
        m.wait(id, "clean");
    }
    m
}

fn replay(words: &str) -> Output {
    let mut command = clean(jobtap());
    command.arg("replay").args(words.split(' '));
    run(&mut command)
}

#[track_caller]
fn refuses(output: &Output, text: &str) {
    assert!(output.code == 2 && output.stderr.contains(text), "{output:?}");
}

/// All files below a directory, with their contents.
fn content(directory: &Path) -> BTreeMap<std::path::PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(content(&path));
        } else if path.is_file() {
            all.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    all
}

#[test]
fn a_dump_and_a_state_directory_give_the_recorded_answers() {
    let place = temporary();
    let mut m = manager();
    let state = m.statedir.clone();
    let dump = place.path().join("jobs.tar.gz");
    m.jobtap(&format!("dump {}", dump.display())).ok();

    let running = replay(&format!("--plugin limits --eventlog {}", state.display()));
    refuses(&running, "a manager runs in ");
    m.stop();
    let before = content(&state);
    let config = |name: &str, text: &str| {
        std::fs::write(place.path().join(name), text).unwrap();
        format!("--config {}", place.path().join(name).display())
    };
    let same = config("same.toml", CONFIG);
    let other = config("other.toml", &CONFIG.replace("running = 1", "running = 9"));
    for path in [&dump, &state] {
        for plugin in ["limits", ".dependency-after", ".priority-default"] {
            let shown = replay(&format!("--plugin {plugin} --eventlog {} {same}", path.display()));
            assert_eq!(shown.code, 0, "{plugin}: {shown:?}");
            assert!(shown.stdout.contains(": 4 jobs, "), "{shown:?}");
            assert!(shown.stdout.contains(" 0 differ, "), "{shown:?}");
        }
    }
    assert_eq!(content(&state), before);
    let mut simulate = clean(jobtap());
    simulate.args("simulate --nodes 1x4 --json --trace".split(' ')).arg(&state);
    let summary: Value = serde_json::from_str(&run(&mut simulate).ok()).unwrap();
    assert_eq!(summary.pointer("/policies/0/metrics/completed"), Some(&Value::from(3)));
    assert_eq!(content(&state), before);

    // Without the limit no job is held.
    let dump = dump.display();
    let missing = replay(&format!("--plugin limits --eventlog {dump} {other}"));
    assert_eq!(missing.code, 1, "{missing:?}");
    assert!(missing.stdout.contains("adds limits"), "{missing:?}");
    assert!(missing.stdout.contains("no loaded plugin asks for"), "{missing:?}");
    let differences = replay(&format!("--plugin limits --eventlog {dump} --differences {other}"));
    assert!(!differences.stdout.contains("accepts"), "{differences:?}");
    let ignored = replay(&format!("--plugin limits --eventlog {dump} --ignore-missing {other}"));
    assert_eq!(ignored.code, 0, "{ignored:?}");
    // Eventlogs hold no requests to change a job, so the command names the topic that it never calls.
    let unasked = replay(&format!("--plugin .update-duration --eventlog {dump} {same}"));
    let line = "eventlogs don't hold what leads to it: job.update.attributes.system.duration\n";
    assert!(unasked.code == 0 && unasked.stdout.contains(line), "{unasked:?}");
    assert!(!missing.stdout.contains("never called"), "{missing:?}");
    let json = replay(&format!("--plugin .priority-default --eventlog {dump} --json {same}"));
    let report: Value = serde_json::from_str(&json.ok()).unwrap();
    let rows = report.get("answers").and_then(Value::as_array).unwrap();
    let priority = rows.iter().find(|row| row.get("answer") == Some(&Value::from("20"))).unwrap();
    assert_eq!(priority.get("recorded"), Some(&Value::from("20")));
    assert_eq!(priority.get("verdict"), Some(&Value::from("same")));
}

#[test]
fn what_is_no_whole_dump_has_exit_code_2() {
    let place = temporary();
    let path = |name: &str| place.path().join(name);
    let m = Manager::start(jobtap());
    let id = m.submit("true");
    m.wait(&id, "clean");
    m.jobtap(&format!("dump {}", path("whole.tar").display())).ok();
    let whole = std::fs::read(path("whole.tar")).unwrap();
    let refused = |name: &str, text: &str| {
        let shown = replay(&format!("--plugin limits --eventlog {}", path(name).display()));
        refuses(&shown, text);
    };
    for part in [1, 2, 3] {
        std::fs::write(path("torn.tar"), &whole[..whole.len() * part / 4]).unwrap();
        refused("torn.tar", "it ends too early");
    }
    let mut simulate = clean(jobtap());
    simulate.args("simulate --nodes 1 --trace".split(' ')).arg(path("torn.tar"));
    let simulated = run(&mut simulate);
    assert!(simulated.code == 1 && simulated.stderr.contains("too early"), "{simulated:?}");
    std::fs::write(path("foreign"), "1 0 -1 5 4 -1\n".repeat(100)).unwrap();
    refused("foreign", "foreign");
    std::fs::write(path("empty"), "").unwrap();
    refused("empty", "empty");
    std::fs::create_dir(path("other")).unwrap();
    refused("other", "holds no state of a manager");
    refused("missing", "No such file or directory");
    let unknown = replay(&format!("--plugin limit --eventlog {}", path("whole.tar").display()));
    refuses(&unknown, "did you mean limits?");
    let bad = replay(&format!(
        "--plugin limits --eventlog {} --conf plugins.limits.nonsense=1",
        path("whole.tar").display()
    ));
    refuses(&bad, "nonsense");
    refuses(&replay("--plugin limits"), "--eventlog");
}
