//! Damaged files: a store opens with all that was acknowledged or says what is wrong; it never
//! panics and never opens with less.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::store::{EmbeddedStore, Key, Op, Store, StoreError};

const JOBS: u64 = 200;

fn fill(dir: &Path) {
    let store = EmbeddedStore::open(dir).unwrap();
    for id in 0..JOBS {
        let append =
            Op::Append { key: Key::eventlog(id), seq: 0, value: format!("submit {id}\n").into() };
        store.commit(vec![append]).unwrap();
        if id == JOBS / 2 {
            store.flush_to_table();
        }
    }
}

/// Opens and reads everything; true when all is there.
fn read_all(dir: &Path) -> Result<bool, StoreError> {
    let store = EmbeddedStore::open(dir)?;
    let mut next = 0;
    store.scan_jobs(&|_| true, &mut |job| {
        let log = format!("submit {}\n", job.id);
        if job.id == next && job.get(Key::EVENTLOG) == Some(log.as_bytes()) {
            next += 1;
        }
        ControlFlow::Continue(())
    })?;
    store.commit(vec![Op::Put { key: Key::checkpoint(), value: Vec::new() }])?;
    Ok(next == JOBS)
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

pub(super) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &target),
            false => drop(fs::copy(&path, target).unwrap()),
        }
    }
}

/// Nothing is required of what is damaged except honesty.
fn assert_honest(dir: &Path, what: &str) {
    match read_all(dir) {
        Ok(complete) => assert!(complete, "{what}: opened with less than was acknowledged"),
        Err(err) => {
            let text = err.to_string();
            assert!(!text.contains('\n') && text.contains(&*dir.to_string_lossy()), "{text}");
        }
    }
}

/// What can happen to a file: nothing is left, its end is cut off, bytes are flipped or zeroed.
fn damages(whole: &[u8]) -> Vec<(String, Option<Vec<u8>>)> {
    let mut found = vec![("removed".to_owned(), None)];
    let length = whole.len();
    for keep in [0, 1, length / 3, length / 2, length.saturating_sub(1)] {
        let cut = whole.get(..keep).unwrap_or_default().to_vec();
        found.push((format!("cut to {keep}"), Some(cut)));
    }
    // A stride that is no multiple of any field's width.
    for at in (0..length).step_by(length / 40 * 2 + 1) {
        let mut flipped = whole.to_vec();
        flipped[at] ^= 0x55;
        found.push((format!("flipped at {at}"), Some(flipped)));
        let mut zeroed = whole.to_vec();
        let end = (at + 20).min(length);
        zeroed[at..end].fill(0);
        found.push((format!("zeroed at {at}"), Some(zeroed)));
    }
    found
}

#[test]
fn a_damaged_file_is_an_error_and_never_a_loss() {
    let good = tempfile::tempdir().unwrap();
    fill(good.path());
    // A second opening cuts the zeros off the journal, which would take long to copy.
    assert!(read_all(good.path()).unwrap());
    for file in files(good.path()) {
        let name = file.strip_prefix(good.path()).unwrap().to_owned();
        for (damage, content) in damages(&fs::read(&file).unwrap()) {
            let dir = tempfile::tempdir().unwrap();
            copy(good.path(), dir.path());
            let target = dir.path().join(&name);
            match content {
                Some(content) => fs::write(target, content).unwrap(),
                None => fs::remove_file(target).unwrap(),
            }
            assert_honest(dir.path(), &format!("{} {damage}", name.display()));
        }
    }
}

#[test]
fn a_lost_part_is_an_error_and_never_a_loss() {
    let good = tempfile::tempdir().unwrap();
    fill(good.path());
    assert!(read_all(good.path()).unwrap());
    let parts = ["", "/keyspaces", "/keyspaces/0", "/keyspaces/1/tables", "/keyspaces/2"];
    for part in parts.map(|part| format!("db-2{part}")) {
        let dir = tempfile::tempdir().unwrap();
        copy(good.path(), dir.path());
        fs::remove_dir_all(dir.path().join(&part)).unwrap();
        let err = read_all(dir.path()).unwrap_err();
        assert!(matches!(err, StoreError::Corrupt { .. }), "{part}: {err}");
    }
    let strays = ["keyspaces/x", "keyspaces/4", "x.jnl", "keyspaces/1/tables/x"];
    for stray in strays.map(|stray| format!("db-2/{stray}")) {
        let dir = tempfile::tempdir().unwrap();
        copy(good.path(), dir.path());
        fs::create_dir(dir.path().join(&stray)).unwrap();
        let err = read_all(dir.path()).unwrap_err();
        assert!(matches!(err, StoreError::Corrupt { .. }), "{stray}: {err}");
    }
}

#[test]
fn an_old_copy_of_the_database_is_not_taken_for_the_store() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    let old = tempfile::tempdir().unwrap();
    copy(dir.path(), old.path());
    assert!(read_all(dir.path()).unwrap());
    fs::remove_dir_all(dir.path().join("db-2")).unwrap();
    copy(&old.path().join("db-2"), &dir.path().join("db-2"));
    let err = read_all(dir.path()).unwrap_err();
    let text = format!("(commit {JOBS} is the last one there, {} were", JOBS + 1);
    assert!(err.to_string().contains(&text), "{err}");
}
