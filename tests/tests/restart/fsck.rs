//! When the disk has damaged the store, `jobtap fsck` names the affected jobs, and a start refuses or repairs the
//! store, as configured.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use jobtap_tests::{Manager, Output, clean, jobtap, run, temporary, until};

/// A memory limit so small that a few hundred jobs are written to tables.
const LITTLE_MEMORY: &str = "--conf=store.memory=16M";

fn fsck(options: &[&str], statedir: &Path) -> Output {
    run(clean(jobtap()).arg("fsck").args(options).arg(statedir))
}

/// Returns the table files that hold the submissions of jobs.
fn tables(statedir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(statedir.join("store/db-3/keyspaces/4/tables")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_damaged_store_is_reported_refused_and_repaired() {
    let directory = temporary();
    let statedir = directory.path().join("state");
    let mut m = Manager::start_in(jobtap(), &statedir, &[OsStr::new(LITTLE_MEMORY)]);
    let mut submit = m.command(["submit", "--cc=1-300", "--urgency=hold", "true"]);
    // Text that hardly compresses, so that the tables have several blocks.
    let text: String =
        (0..20_000u32).map(|n| char::from(b'a' + (n * n % 997 % 26) as u8)).collect();
    let ids: Vec<String> = run(submit.env("TEXT", text)).ok().lines().map(str::to_owned).collect();
    assert_eq!(ids.len(), 300);
    until("a table is written", || !tables(&statedir).is_empty());
    m.stop();

    let whole = fsck(&[], &statedir);
    assert_eq!((whole.code, whole.stderr.as_str()), (0, ""), "{whole:?}");
    let table = tables(&statedir).remove(0);
    let mut bytes = fs::read(&table).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&table, bytes).unwrap();

    let found = fsck(&[], &statedir);
    assert_eq!(found.code, 1, "{found:?}");
    assert!(found.stdout.contains(&*table.to_string_lossy()), "{found:?}");
    assert!(found.stdout.contains(" submission up to job "), "{found:?}");
    let state = statedir.display().to_string();
    let start = |options: &[&str]| {
        let mut command = clean(jobtap());
        command.args(["start", "--state-dir", &state]).args(options);
        run(command.args(["jobtap", "jobs", "-no", "{id}"]))
    };
    let refused = start(&[]);
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""), "{refused:?}");
    assert!(refused.stderr.contains("is damaged"), "{refused:?}");
    assert!(refused.stderr.contains("jobtap fsck"), "{refused:?}");

    let repaired = start(&["--conf=store.damage=repair"]);
    assert_eq!(repaired.code, 0, "{repaired:?}");
    let left: Vec<&str> = repaired.stdout.lines().collect();
    let dropped: Vec<&String> = ids.iter().filter(|id| !left.contains(&id.as_str())).collect();
    assert!((1..20).contains(&dropped.len()), "{dropped:?}");
    assert_eq!(left.len() + dropped.len(), ids.len());
    for id in dropped {
        let line = format!("job {id}: dropped");
        assert!(repaired.stderr.replace('ƒ', "f").contains(&line), "{line}: {}", repaired.stderr);
    }
    assert!(statedir.join("store/damaged-1").is_dir());
    assert_eq!(fsck(&[], &statedir).code, 0);
    assert_eq!(fsck(&["--repair"], &statedir).code, 0);
}

#[test]
fn a_directory_without_a_store_is_left_alone() {
    let directory = temporary();
    let none = fsck(&["--repair"], directory.path());
    assert_eq!(none.code, 1, "{none:?}");
    assert!(none.stderr.contains("holds no state of a manager"), "{none:?}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}
