//! After a failed commit the manager says why and stops. It acknowledges nothing more, and the next manager
//! has everything that was acknowledged.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use jobtap_tests::{Manager, jobtap, run, temporary};

#[test]
fn a_failed_commit_stops_the_manager_with_the_cause() {
    let directory = temporary();
    let statedir = directory.path().join("state");
    // With SIGXFSZ ignored, a write beyond the limit is an error instead of a signal.
    let exe = directory.path().join("jobtap");
    let script = format!("#!/bin/sh\ntrap '' XFSZ\nexec {} \"$@\"\n", jobtap().display());
    std::fs::write(&exe, script).unwrap();
    std::fs::set_permissions(&exe, std::fs::Permissions::from_mode(0o755)).unwrap();

    let mut m = Manager::start_in(&exe, &statedir, &[]);
    let kept = m.submit("--urgency=hold true");
    let pid = m.pid().to_string();
    run(Command::new("prlimit").args(["--fsize=1", "--pid", &pid])).ok();
    let lost = m.jobtap("submit true");
    assert_eq!((lost.code, &*lost.stdout), (1, ""), "{lost:?}");
    assert_eq!(m.end().code(), Some(1));
    let (_, words) = m.stop();
    assert!(words.contains("jobtap: the store failed: "), "{words}");
    assert!(words.contains("nothing more is acknowledged"), "{words}");

    let m = Manager::start_in(jobtap(), &statedir, &[]);
    assert_eq!(m.jobtap("jobs -a -no {id}").ok(), kept);
    assert_eq!(m.field(&kept, "state"), "SCHED");
}
