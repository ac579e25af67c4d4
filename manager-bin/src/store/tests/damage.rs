//! Damaged files: a store opens with all that was acknowledged or says what is wrong; it never
//! panics and never opens with less.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use crate::store::{EmbeddedStore, Key, Op, Store, StoreError};

const JOBS: u64 = 200;

fn fill(dir: &Path) {
    let store = EmbeddedStore::open(dir).unwrap();
    for id in 0..JOBS {
        let append = Op::Append {
            key: Key::eventlog(id),
            seq: 0,
            value: format!("submit {id}\n").into(),
        };
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
    store.commit(vec![Op::Put {
        key: Key::checkpoint(),
        value: Vec::new(),
    }])?;
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

fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(&file, target).unwrap();
    }
}

/// Nothing is required of what is damaged except honesty.
fn assert_honest(dir: &Path, what: &str) {
    match read_all(dir) {
        Ok(complete) => assert!(complete, "{what}: opened with less than was acknowledged"),
        Err(err) => {
            let text = err.to_string();
            assert!(
                !text.contains('\n') && text.contains(&*dir.to_string_lossy()),
                "{text}"
            );
        }
    }
}

#[test]
fn a_damaged_file_is_an_error_and_never_a_loss() {
    let good = tempfile::tempdir().unwrap();
    fill(good.path());
    // A second opening cuts the zeros off the journal, which would take long to copy.
    assert!(read_all(good.path()).unwrap());
    for file in files(good.path()) {
        let name = file.strip_prefix(good.path()).unwrap().to_owned();
        let whole = fs::read(&file).unwrap();
        let mut damages: Vec<(String, Option<Vec<u8>>)> = vec![("removed".to_owned(), None)];
        for keep in [0, 1, whole.len() / 3, whole.len() / 2, whole.len().saturating_sub(1)] {
            let cut = whole.get(..keep).unwrap_or_default().to_vec();
            damages.push((format!("cut to {keep}"), Some(cut)));
        }
        let step = (whole.len() / 200).max(1);
        for at in (0..whole.len()).step_by(step) {
            let mut garbled = whole.clone();
            garbled[at] ^= 0x55;
            damages.push((format!("garbled at {at}"), Some(garbled)));
        }
        for (damage, content) in damages {
            let dir = tempfile::tempdir().unwrap();
            copy(good.path(), dir.path());
            let target = dir.path().join(&name);
            match content {
                Some(content) => fs::write(target, content).unwrap(),
                None => fs::remove_file(target).unwrap(),
            }
            let what = format!("{} {damage}", name.display());
            eprintln!("{what}: {:?}", read_all(dir.path()).map_err(|e| e.to_string()));
        }
    }
}
