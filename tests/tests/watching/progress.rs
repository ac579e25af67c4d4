//! The progress of long work: shown to a user at a terminal, and nowhere else.

use jobtap_tests::terminal::Terminal;
use jobtap_tests::{Manager, clean, jobtap, run};

#[test]
fn waiting_shows_what_is_left_and_leaves_nothing() {
    let m = Manager::start(jobtap());
    m.submit("--urgency=hold true");
    let Some(mut drain) = Terminal::open(&m, "$JOBTAP queue drain; echo code $?", &[]) else {
        return;
    };
    drain.until(|shown| {
        shown.contains("waiting until no job is active") && shown.contains("(1 job left)")
    });
    m.jobtap("cancel --all").ok();
    assert_eq!(drain.end().trim_end(), "code 0");
}

#[test]
fn output_goes_above_the_progress_of_a_bulk_submission() {
    let m = Manager::start(jobtap());
    let line = "$JOBTAP bulksubmit --wait --urgency=hold {} ::: true true true; echo code $?";
    let Some(mut bulk) = Terminal::open(&m, line, &[]) else { return };
    let shown = bulk.until(|shown| shown.contains("waiting for") && shown.contains("0/3 jobs"));
    // Each id has a line of its own.
    let ids = m.jobtap("jobs -no {id}").ok();
    for id in ids.lines() {
        assert!(shown.lines().any(|line| line.trim_end() == id), "{id}:\n{shown}");
    }
    let first = ids.lines().next().unwrap_or_default();
    m.jobtap(&format!("cancel {first}")).ok();
    bulk.until(|shown| shown.contains("1/3 jobs"));
    m.jobtap("cancel --all").ok();
    let left = bulk.end();
    assert!(left.trim_end().ends_with("code 1") && !left.contains("waiting"), "{left}");
}

#[test]
fn a_pipe_gets_no_progress() {
    let m = Manager::start(jobtap());
    let id = m.submit("--flags=waitable true");
    m.submit("--urgency=hold true");
    // Longer than the delay after which progress is shown at a terminal.
    m.jobtap("queue drain -t 2s").says(1, "jobtap-queue: ERROR: drain: timeout");
    m.jobtap(&format!("job wait {id}")).says(0, "");
    let bulk = m.jobtap("bulksubmit --quiet --wait sleep {} ::: 1 1");
    assert_eq!((bulk.code, bulk.stdout.as_str(), bulk.stderr.as_str()), (0, "", ""));
    let simulated =
        run(clean(jobtap()).args(["simulate", "--generate", "jobs=100,seed=7", "--nodes", "8x32"]));
    assert!(!simulated.stderr.contains(['\x1b', '\r']), "{simulated:?}");
}
