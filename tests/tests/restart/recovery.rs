//! `start --recovery` opens, for inspection, the state that another manager left, and changes none of it.

use jobtap_tests::{Manager, Output, clean, jobtap, run};

/// Starts a manager that ends with this shell script.
fn start(option: &str, script: &str) -> Output {
    run(clean(jobtap()).args(["start", option, "sh", "-c", script]))
}

#[test]
fn recovery_mode_starts_no_job_and_changes_no_queue() {
    let mut m = Manager::start(jobtap());
    m.jobtap("queue stop --nocheckpoint").ok();
    m.jobtap("submit true").ok();
    let state = m.statedir.display().to_string();
    m.stop();
    let option = format!("--recovery={state}");
    let shown = start(&option, "jobtap queue status; jobtap jobs -no {state}").ok();
    let wanted = "Job submission is enabled\n\
                  Scheduling is stopped: the manager was started for recovery\nSCHED";
    assert_eq!(shown, wanted);
    let option = format!("-Sstatedir={state}");
    assert!(start(&option, "jobtap queue status").ok().ends_with("Scheduling is started"));
    let none = start("-r", "true");
    assert_eq!(none.code, 1);
    assert!(none.stderr.contains("name a state directory or an archive"), "{none:?}");
}
