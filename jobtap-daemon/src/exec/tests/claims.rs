//! No job runs twice, whichever process dies at whichever time.

use super::*;

/// The file that a shepherd writes its claims to before it replaces the old one.
const NEXT: &str = "state/shepherd.claims.next";

#[test]
fn a_job_that_was_started_once_is_never_started_again() {
    let site = Site::new();
    let first = site.manager();
    let (shepherd, task) = site.sleeper(&first, 1);
    // Manager, shepherd and forker die, and nothing of the start was recorded.
    drop(first);
    kill_both(shepherd, task);
    let second = site.manager();
    wait_gone(&task.to_string());
    assert_eq!(second.executor.held(), [HeldJob::new(JobId::new(1), true)]);
    second.executor.start(site.job(1, 1, "echo again >>runs"));
    let note = "EXCEPTION 0 job is lost: a shepherd that is gone began to start it; as it may have run, \
                it is not started again";
    assert_eq!(second.to_end(1), [note, "RELEASE"]);
    // The acknowledgement of the job's end drops its claim.
    second.ack(1);
    assert_eq!(second.status(site.job(2, 1, "echo other >>runs")), 0);
    drop(second);
    let third = site.manager();
    assert_eq!(third.executor.held(), []);
    assert_eq!(site.text("runs"), "run\nother\n");
    third.end();
}

#[test]
fn a_job_that_cannot_be_claimed_is_not_started() {
    let site = Site::new();
    let manager = site.manager();
    fs::create_dir(site.path(NEXT)).unwrap();
    let events = manager.run(site.job(1, 1, "echo run >>runs"));
    let note = "EXCEPTION 0 nothing was started: cannot note in ";
    assert_eq!(events[..2], ["init", "starting"]);
    assert!(events[2].starts_with(note), "{events:?}");
    assert!(events[2].ends_with("shepherd.claims that the job starts: Is a directory"));
    assert_eq!(events[3..], ["done", "RELEASE"]);
    assert!(!site.path("runs").exists());
    fs::remove_dir(site.path(NEXT)).unwrap();
    assert_eq!(manager.status(site.job(2, 1, "echo run >>runs")), 0);
    assert_eq!(site.text("runs"), "run\n");
    manager.end();
}

#[test]
fn a_damaged_file_of_claims_keeps_the_shepherd_from_starting() {
    let site = Site::new();
    fs::write(site.path("state/shepherd.claims"), "0 damaged\n").unwrap();
    let error = site.connect().err().unwrap().to_string();
    assert!(error.starts_with("the shepherd in /"), "{error}");
    assert!(error.contains(" ends before it answers: shepherd: /"), "{error}");
    assert!(error.contains("shepherd.claims: line 1 is damaged. "), "{error}");
    fs::remove_file(site.path("state/shepherd.claims")).unwrap();
    assert_eq!(site.manager().status(site.job(1, 1, "true")), 0);
    site.manager().end();
}
