//! A manager that is itself a job of another one: what it has, for how long, and what is left of it.
#![allow(clippy::unwrap_used, missing_docs)]

use jobtap_tests::{clean, jobtap, run};

/// `jobtap start` with what a task of a job has in its environment.
fn start_as_job(uri: &str, options: &[&str]) -> jobtap_tests::Output {
    let mut command = clean(jobtap());
    command.envs([("JOBTAP_URI", uri), ("JOBTAP_JOB_ID", "f3"), ("JOBTAP_JOB_SIZE", "1")]);
    run(command.arg("start").args(options).arg("true"))
}

#[test]
fn a_manager_that_cannot_learn_what_its_job_has_does_not_take_the_whole_host() {
    let dead = "local:///nonexistent/jobtap";
    let refused = start_as_job(dead, &[]);
    assert_eq!(refused.code, 1, "{refused:?}");
    let text = "jobtap-start: job ƒ3: its resources can't be learned: no manager listens";
    assert!(refused.stderr.starts_with(text), "{refused:?}");
    // Told what to use, it needs nobody.
    start_as_job(dead, &["--test-size=1"]).ok();
}
