//! The system's clock jumps while jobs run: what counts seconds goes on counting them. A preloaded library (Debian's
//! package `faketime`) shows the manager and its shepherds the clock that the test sets.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use jobtap_tests::{Manager, jobtap, temporary, until};

/// The library, if it is installed.
#[allow(clippy::print_stdout)]
fn library() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.flatten();
    let files = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    let found = files.into_iter().find(|file| file.exists());
    if found.is_none() {
        println!("skipped: the package faketime is not installed");
    }
    found
}

/// A program that starts managers with the clock that `clock` is set to, and runs all other commands as they are.
fn with_clock(folder: &Path, library: &Path, clock: &Path) -> PathBuf {
    let program = folder.join("jobtap");
    let text = format!(
        "#!/bin/sh\n\
         if [ \"$1\" = start ]; then\n\
         export LD_PRELOAD={} FAKETIME_TIMESTAMP_FILE={} FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1\n\
         fi\n\
         exec {} \"$@\"\n",
        library.display(),
        clock.display(),
        jobtap().display(),
    );
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// Sets the clock to so much before or after the system's.
fn set(clock: &Path, offset: &str) {
    // Replaced as a whole: the library must not read half an offset.
    let new = clock.with_extension("new");
    fs::write(&new, format!("{offset}\n")).unwrap();
    fs::rename(&new, clock).unwrap();
}

#[test]
fn jobs_keep_their_time_limits_while_the_clock_jumps() {
    let Some(library) = library() else { return };
    let folder = temporary();
    let clock = folder.path().join("clock");
    let set = |offset: &str| set(&clock, offset);
    set("+0");
    let program = with_clock(folder.path(), &library, &clock);
    let mut m = Manager::start_in(&program, &folder.path().join("state"), &[]);
    let go = folder.path().join("go");
    let limited = m.submit_args(&[
        "-t",
        "10m",
        "sh",
        "-c",
        "while [ ! -e \"$0\" ]; do sleep 0.1; done",
        &go.display().to_string(),
    ]);
    let ends = m.submit("-t 5s sleep 600");
    let tomorrow = m.submit("--begin-time=+20h true");
    m.wait(&limited, "start");
    m.wait(&ends, "start");

    set("+1d");
    // A job that was to begin by then begins.
    m.wait(&tomorrow, "clean");
    m.wait(&ends, "clean");
    assert_eq!(m.field(&ends, "result"), "TIMEOUT");
    let expired = m.events(&ends);
    assert!(expired.contains("start resource-update exception"), "{expired}");
    assert_eq!(m.field(&limited, "state"), "RUN");

    // Set back beyond where it was: jobs start, run and end as before.
    set("-1d");
    let later = m.submit("-t 10m true");
    m.wait(&later, "clean");
    assert_eq!(m.field(&later, "result"), "COMPLETED");
    assert_eq!(m.field(&limited, "state"), "RUN");

    fs::write(&go, "").unwrap();
    m.wait(&limited, "clean");
    assert_eq!(m.field(&limited, "result"), "COMPLETED");
    let (_, said) = m.stop();
    assert!(said.contains("the clock went forward by 86"), "{said}");
    assert!(said.contains("the system's clock was set back by 172"), "{said}");
}

/// Jumps in both directions, one after the other, while jobs come and go.
#[test]
fn a_clock_that_jumps_about_loses_no_job_and_runs_none_twice() {
    let Some(library) = library() else { return };
    let folder = temporary();
    let (clock, ran) = (folder.path().join("clock"), folder.path().join("ran"));
    let set = |offset: &str| set(&clock, offset);
    set("+0");
    let program = with_clock(folder.path(), &library, &clock);
    let mut m = Manager::start_in(&program, &folder.path().join("state"), &[]);
    let mut submitted = Vec::new();
    let script = "echo $FLUX_JOB_ID >>\"$0\"";
    for offset in ["+2", "-2", "+1h", "-1h", "+30d", "+29d", "+0", "+400d", "-1d", "+10"] {
        set(offset);
        for _ in 0..5 {
            let ran = ran.display().to_string();
            submitted.push(m.submit_args(&["-t", "1m", "sh", "-c", script, &ran]));
        }
        // Killed in the middle of it: the next manager starts with the clock as it is then.
        if offset == "+30d" || offset == "-1d" {
            m.kill();
            m.start_again();
        }
    }
    for id in &submitted {
        m.wait(id, "clean");
    }
    until("all jobs have run", || {
        fs::read_to_string(&ran).is_ok_and(|ran| ran.lines().count() >= submitted.len())
    });
    let mut ran: Vec<String> =
        fs::read_to_string(&ran).unwrap().lines().map(str::to_owned).collect();
    ran.sort();
    submitted.sort();
    assert_eq!(ran, submitted);
}
