//! A manager leaves directories and files that it did not make unchanged, and refuses a state directory that
//! other users could change.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use jobtap_tests::leftovers::shepherds_of;
use jobtap_tests::{Manager, Output, clean, jobtap, run, send, temporary, until};

use super::refused;

/// Returns everything below a directory: path, kind and mode, time of the last change, content.
fn content(path: &Path) -> Vec<(PathBuf, u32, i64, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        let found = fs::symlink_metadata(&path).unwrap();
        let bytes = match (found.is_file(), found.is_symlink()) {
            (true, _) => fs::read(&path).unwrap(),
            (_, true) => fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
            _ => Vec::new(),
        };
        all.push((path.clone(), found.mode(), found.mtime_nsec(), bytes));
        if found.is_dir() {
            all.extend(content(&path));
        }
    }
    all.sort();
    all
}

/// Makes a home directory with files whose names the manager uses, too.
fn home() -> tempfile::TempDir {
    let home = temporary();
    for file in [
        "Documents/thesis.tex",
        "tmp/a",
        "tmp/0000.0000.0000.0001/b",
        "tmp.old/c",
        "tmp.123/d",
        "store/e",
        "output/f",
        "input/g",
        "restore.partial/h",
        "bin/i",
        "lock",
        "shepherd.log",
        ".profile",
    ] {
        let file = home.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "precious").unwrap();
    }
    home
}

/// Runs `start` with these options and with the standard input of a daemon.
fn start(args: &[&OsStr]) -> Output {
    run(clean(jobtap()).arg("start").args(args).arg("true"))
}

#[test]
fn a_home_directory_is_refused_and_left_unchanged() {
    let home = home();
    let archive = temporary();
    let archive = archive.path().join("a.tar");
    run(clean(jobtap()).args(["start", jobtap().to_str().unwrap(), "dump"]).arg(&archive)).ok();
    let before = content(home.path());
    let path = home.path().to_str().unwrap();
    let text = "is a home directory, whose files would lie between those of the manager";
    let (statedir, recovery) = (format!("-Sstatedir={path}"), format!("--recovery={path}"));
    let restore = format!("-Scontent.restore={}", archive.display());
    let bad = "--conf=job-manager.inactive-age-limit=\"x\"";
    for options in [
        vec!["--state-dir", path],
        vec![&statedir],
        vec!["--broker-opts", &statedir],
        vec!["--state-dir", path, bad],
        vec!["--state-dir", path, &restore],
    ] {
        let options: Vec<&OsStr> = options.iter().map(OsStr::new).collect();
        let at_home =
            run(clean(jobtap()).env("HOME", path).arg("start").args(&options).arg("true"));
        refused(at_home, text);
        assert_eq!(content(home.path()), before, "{options:?}");
    }
    let restored = ["kvs", "restore", "--state-dir", path];
    refused(run(clean(jobtap()).env("HOME", path).args(restored).arg(&archive)), text);
    // An inspection makes no files, in a home directory or elsewhere.
    refused(start(&[recovery.as_ref()]), "holds no state of a manager");
    assert_eq!(content(home.path()), before);
}

#[test]
fn other_files_in_a_state_directory_stay_as_they_are() {
    let base = home();
    let before = content(base.path());
    let statedir = format!("-Sstatedir={}", base.path().display());
    let within = |script: &str| {
        run(clean(jobtap()).arg("start").arg(&statedir).args(["sh", "-c", script])).ok()
    };
    let id = within("jobtap submit --wait echo kept");
    // The next manager of this directory takes the jobs over.
    let listed = within("jobtap jobs -ano '{id} {result}'; jobtap job attach $(jobtap job last)");
    assert_eq!(listed, format!("{id} COMPLETED\nkept"));
    let recovery = format!("--recovery={}", base.path().display());
    assert_eq!(start(&[recovery.as_ref()]).code, 0);
    assert_eq!(run(clean(jobtap()).arg("fsck").arg(base.path())).code, 0);
    let own = base.path().join("jobtap");
    assert!(own.join("jobtap-directory").exists());
    fs::remove_dir_all(own).unwrap();
    assert_eq!(content(base.path()), before);
}

#[test]
fn a_directory_that_others_can_change_is_refused() {
    let base = temporary();
    let state = base.path().join("state");
    fs::create_dir(&state).unwrap();
    for mode in [0o770, 0o777, 0o1777, 0o702] {
        fs::set_permissions(&state, Permissions::from_mode(mode)).unwrap();
        refused(start(&["--state-dir".as_ref(), state.as_os_str()]), "`chmod go-w`");
        assert_eq!(content(&state), []);
    }
    fs::set_permissions(&state, Permissions::from_mode(0o755)).unwrap();
    assert_eq!(start(&["--state-dir".as_ref(), state.as_os_str()]).code, 0);
    // A directory whose mode was changed after the first start is refused as well.
    fs::set_permissions(&state, Permissions::from_mode(0o775)).unwrap();
    let before = content(&state);
    refused(start(&["--state-dir".as_ref(), state.as_os_str()]), "`chmod go-w`");
    assert_eq!(content(&state), before);
}

#[test]
fn a_directory_of_another_user_is_refused() {
    let base = temporary();
    let state = base.path().join("state");
    fs::create_dir(&state).unwrap();
    if std::os::unix::fs::chown(&state, Some(65534), None).is_err() {
        println!("skipped: only root can give a directory away");
        return;
    }
    refused(start(&["--state-dir".as_ref(), state.as_os_str()]), "belongs to user 65534");
    assert_eq!(content(&state), []);
}

#[test]
fn a_link_and_the_root_are_refused() {
    let base = temporary();
    let (real, link) = (base.path().join("real"), base.path().join("link"));
    fs::create_dir(&real).unwrap();
    symlink("real", &link).unwrap();
    for path in [link.clone(), link.join(""), link.join(".")] {
        refused(start(&["--state-dir".as_ref(), path.as_os_str()]), "is a symbolic link to real");
    }
    assert_eq!(content(&real), []);
    // `/` is tried only by users who could do the machine no harm if it were not refused.
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        println!("skipped: `--state-dir /` is not tried as root; a unit test covers it");
        return;
    }
    refused(start(&["--state-dir", "/"].map(OsStr::new)), "root of the file system");
}

#[test]
fn a_state_directory_whose_path_is_not_utf8_is_refused() {
    let base = temporary();
    let state = base.path().join(OsStr::from_bytes(b"st\xff"));
    refused(start(&["--state-dir".as_ref(), state.as_os_str()]), "not UTF-8");
    assert!(!state.exists());
}

#[test]
fn links_in_a_state_directory_are_not_followed() {
    let base = temporary();
    let elsewhere = base.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("precious"), "precious").unwrap();
    let before = content(&elsewhere);
    let state = base.path().join("state");
    assert_eq!(start(&["--state-dir".as_ref(), state.as_os_str()]).code, 0);
    for name in ["store", "input", "output", "tmp", "lock", "shepherd.log", "local-0"] {
        let path = state.join(name);
        let aside = base.path().join("aside");
        let there = fs::rename(&path, &aside).is_ok();
        symlink(elsewhere.join("precious"), &path).unwrap();
        if ["store", "input", "output", "tmp"].contains(&name) {
            fs::remove_file(&path).unwrap();
            symlink(&elsewhere, &path).unwrap();
        }
        let output = start(&["--state-dir".as_ref(), state.as_os_str()]);
        assert!(output.code == 1 && !output.stderr.contains("panicked"), "{name}: {output:?}");
        assert!(output.stderr.contains("symbolic link"), "{name}: {output:?}");
        assert_eq!(content(&elsewhere), before, "{name}");
        fs::remove_file(&path).unwrap();
        if there {
            fs::rename(&aside, &path).unwrap();
        }
    }
    assert_eq!(start(&["--state-dir".as_ref(), state.as_os_str()]).code, 0);
}

#[test]
fn output_is_not_written_through_a_link_made_later() {
    let base = temporary();
    let m = Manager::start(jobtap());
    let first = m.submit("seq 10000");
    m.wait(&first, "clean");
    // The name of the next job's file can't be known, so the link replaces the directory.
    fs::rename(m.statedir.join("output"), base.path().join("output")).unwrap();
    symlink(base.path().join("output"), m.statedir.join("output")).unwrap();
    let before = content(&base.path().join("output"));
    let second = m.submit("seq 10000");
    m.wait(&second, "clean");
    let events = m.jobtap(&format!("job eventlog {second}")).ok();
    assert!(events.contains("task 0: stdout lost: Not a directory"), "{events}");
    assert_eq!(content(&base.path().join("output")), before);
}

#[test]
fn a_start_in_a_removed_directory_is_refused() {
    let base = temporary();
    let script = "mkdir gone && cd gone && rmdir ../gone && exec \"$0\" start \"$@\" true";
    for options in [vec![], vec!["--state-dir".into(), base.path().join("state").into_os_string()]]
    {
        let mut command = clean(Path::new("/bin/sh"));
        command.current_dir(base.path()).arg("-c").arg(script).arg(jobtap()).args(options);
        refused(run(&mut command), "the current directory can't be used");
    }
    assert!(!base.path().join("state").exists());
}

#[test]
fn a_restart_in_place_needs_no_current_directory() {
    let base = temporary();
    let gone = base.path().join("gone");
    fs::create_dir(&gone).unwrap();
    // Jobs run in the directory from which they are submitted, so this needs one that exists.
    let script =
        "rmdir ../gone && jobtap module reload job-manager && cd / && jobtap run echo here";
    let mut command = clean(jobtap());
    command.current_dir(&gone).arg("start").arg("--state-dir").arg(base.path().join("state"));
    let output = run(command.args(["sh", "-c", script]));
    assert_eq!((output.code, &*output.stdout), (0, "here\n"), "{output:?}");
}

#[test]
fn an_unusable_temporary_directory_is_named() {
    let base = temporary();
    for folder in ["/nonexistent", "/dev/null"] {
        for options in [vec![], vec!["--state-dir".into(), base.path().join("s").into_os_string()]]
        {
            let mut command = clean(jobtap());
            command.env("TMPDIR", folder).arg("start").args(options).arg("true");
            let output = run(&mut command);
            let text = format!("can't make a temporary directory in {folder}, which TMPDIR names");
            refused(output, &text);
        }
    }
}

#[test]
fn a_start_removes_what_killed_managers_left() {
    let base = temporary();
    let folder = base.path().join("tmp");
    fs::create_dir(&folder).unwrap();
    let start = |args: &[&OsStr]| {
        let mut command = clean(jobtap());
        command.env("TMPDIR", &folder).arg("start").args(args).stdin(Stdio::null());
        command
    };
    let names = || fs::read_dir(&folder).unwrap().count();
    // One manager with a state directory of its own and one without; neither has a job.
    let state = base.path().join("state");
    let with_state = ["--state-dir".as_ref(), state.as_os_str()];
    let managers = [&[][..], &with_state].map(|options| {
        // An initial program that ends when this test closes its standard input.
        let mut command = start(&[options, &["cat".as_ref()]].concat());
        let mut manager = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut input, mut output) =
            (manager.stdin.take().unwrap(), manager.stdout.take().unwrap());
        input.write_all(b"x").unwrap();
        // The manager is ready when the initial program answers.
        output.read_exact(&mut [0]).unwrap();
        (manager, input)
    });
    // A shepherd that outlives a manager without a state directory would remove that manager's directory itself.
    for made in fs::read_dir(&folder).unwrap() {
        shepherds_of(&made.unwrap().path()).into_iter().for_each(|pid| send("KILL", pid));
    }
    for (mut manager, _input) in managers {
        manager.kill().unwrap();
        manager.wait().unwrap();
    }
    assert_eq!(names(), 2);
    fs::create_dir(folder.join("jobtap-notes")).unwrap();
    fs::write(folder.join("jobtap-notes/precious"), "").unwrap();
    // The directories are removed when their shepherds have exited, and after `start` has returned.
    until("later starts have removed both", || {
        assert_eq!(run(&mut start(&["true".as_ref()])).code, 0);
        names() == 1
    });
    assert!(folder.join("jobtap-notes/precious").exists());
}
