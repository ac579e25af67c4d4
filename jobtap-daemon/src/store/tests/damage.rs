//! Damaged files: a store opens with all acknowledged data or reports the damage; it never panics and
//! never opens with less data.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jobtap_core::job::JobId;

use crate::store::{
    EmbeddedStore, Key, Op, Repaired, Store, StoreError, StoreSettings, check, repair,
};

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

/// Opens the store and reads everything; returns whether all data is there.
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

/// A damaged store must open with all data or report an error.
fn assert_honest(dir: &Path, what: &str) {
    match read_all(dir) {
        Ok(complete) => assert!(complete, "{what}: opened with less than was acknowledged"),
        Err(err) => {
            let text = err.to_string();
            assert!(!text.contains('\n') && text.contains(&*dir.to_string_lossy()), "{text}");
        }
    }
}

/// The kinds of damage to a file: it is missing or empty, its end is cut off, bytes are flipped or zeroed.
fn damages(whole: &[u8]) -> Vec<(String, Option<Vec<u8>>)> {
    let mut found = vec![("removed".to_owned(), None)];
    let length = whole.len();
    for keep in [0, 1, length / 3, length / 2, length.saturating_sub(1)] {
        let cut = whole.get(..keep).unwrap_or_default().to_vec();
        found.push((format!("cut to {keep}"), Some(cut)));
    }
    // The stride is not a multiple of the width of a field.
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
    // A second opening cuts the zeros off the write-ahead log, which would take long to copy.
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
    let parts =
        ["", "/keyspaces", "/keyspaces/0", "/keyspaces/1/tables", "/keyspaces/2", "/keyspaces/4"];
    for part in parts.map(|part| format!("db-3{part}")) {
        let dir = tempfile::tempdir().unwrap();
        copy(good.path(), dir.path());
        fs::remove_dir_all(dir.path().join(&part)).unwrap();
        let err = read_all(dir.path()).unwrap_err();
        assert!(matches!(err, StoreError::Corrupt { .. }), "{part}: {err}");
    }
    let strays = ["keyspaces/x", "keyspaces/5", "x.jnl", "keyspaces/1/tables/x"];
    for stray in strays.map(|stray| format!("db-3/{stray}")) {
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
    fs::remove_dir_all(dir.path().join("db-3")).unwrap();
    copy(&old.path().join("db-3"), &dir.path().join("db-3"));
    let damages = check(dir.path()).unwrap();
    let text = format!("commits {0} to {0} were acknowledged and are not there", JOBS + 1);
    assert!(damages[0].to_string().contains(&text), "{damages:?}");
    let err = read_all(dir.path()).unwrap_err();
    let text = format!("(commit {JOBS} is the last one there, {} were", JOBS + 1);
    assert!(err.to_string().contains(&text), "{err}");
}

/// A store whose jobs are in several blocks of tables, and the files of these tables.
fn with_tables(dir: &Path) -> Vec<PathBuf> {
    let store = EmbeddedStore::open(dir).unwrap();
    for id in 0..JOBS {
        let value = || (0..2000).map(|n| (n * (id + 3) % 251) as u8).collect();
        let index = Key::instance(&format!("{}{id:016x}", Key::INDEX)).unwrap();
        let append = |seq| Op::Append {
            key: Key::eventlog(id),
            seq,
            value: format!("event {seq} of {id}\n").into(),
        };
        let put = |key, value| Op::Put { key, value };
        let ops = vec![append(0), put(Key::jobspec(id), value()), put(index, "summary".into())];
        store.commit(ops).unwrap();
        let checkpoint = put(Key::checkpoint(), b"7".into());
        store.commit(vec![append(1), put(Key::resources(id), value()), checkpoint]).unwrap();
    }
    let indexed = Key::instance(Key::INDEXED).unwrap();
    store.commit(vec![Op::Put { key: indexed, value: b"1".into() }]).unwrap();
    store.flush_to_table();
    // Rows that are only in the write-ahead log are not affected by damaged tables.
    store
        .commit(vec![Op::Put { key: Key::instance("last").unwrap(), value: b"1".into() }])
        .unwrap();
    drop(store);
    files(&dir.join("db-3/keyspaces")).into_iter().filter(|path| is_our_table(path)).collect()
}

fn is_our_table(path: &Path) -> bool {
    let path = path.to_string_lossy();
    path.contains("/tables/") && !path.contains("/keyspaces/0/")
}

fn all_keys(store: &EmbeddedStore) -> BTreeMap<Key, Vec<u8>> {
    let content = |key: &Key| match store.get(key).unwrap() {
        Some(value) => value,
        None => store.read_log(key).unwrap().unwrap(),
    };
    store.list("").unwrap().into_iter().map(|key| (key.clone(), content(&key))).collect()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    // Damages the file itself, as a failing disk does, and so all its hard links.
    fs::write(path, bytes).unwrap();
}

/// One flipped bit of a table costs a few jobs, which are named, and no others.
#[test]
fn a_flipped_bit_of_a_table_is_found_and_repaired() {
    let good = tempfile::tempdir().unwrap();
    let tables = with_tables(good.path());
    assert!(tables.len() >= 4, "{tables:?}");
    assert_eq!(check(good.path()).unwrap(), []);
    assert_eq!(repair(good.path()).unwrap(), None);
    let before = all_keys(&EmbeddedStore::open(good.path()).unwrap());
    let (mut repairs, mut set_aside) = (0, 0);
    for table in tables {
        let length = fs::metadata(&table).unwrap().len() as usize;
        let name = table.strip_prefix(good.path()).unwrap();
        for at in (0..length).step_by(length / 12 + 1) {
            let dir = tempfile::tempdir().unwrap();
            copy(good.path(), dir.path());
            flip(&dir.path().join(name), at);
            let what = format!("{} at {at}", name.display());
            let damages = check(dir.path()).unwrap();
            assert!(!damages.is_empty(), "{what}");
            assert!(damages[0].to_string().contains(&*name.to_string_lossy()), "{damages:?}");
            let files_before = files(dir.path());
            match repair(dir.path()) {
                Ok(repaired) => {
                    repairs += 1;
                    set_aside += repaired_well(dir.path(), &repaired.unwrap(), &before, &what);
                }
                // A block that locates rows is damaged: the engine can't open the table.
                Err(err) => {
                    assert!(matches!(err, StoreError::Corrupt { .. }), "{what}: {err}");
                    let mut files_after = files(dir.path());
                    files_after.retain(|path| !path.ends_with("suspect"));
                    assert_eq!(files_after, files_before, "{what}");
                }
            }
        }
    }
    assert!(repairs > 20, "{repairs}");
    assert!(set_aside > 20, "{set_aside}");
}

/// A submission is the only row of its job in its keyspace, so the job before the damage is whole.
#[test]
fn the_job_before_a_damaged_submission_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let tables = with_tables(dir.path());
    let has_submissions = |path: &&PathBuf| path.to_string_lossy().contains("/keyspaces/4/tables/");
    let table = tables.iter().find(has_submissions).unwrap();
    flip(table, fs::metadata(table).unwrap().len() as usize / 2);
    let text = check(dir.path()).unwrap()[0].to_string();
    assert!(text.contains(" submission up to job "), "{text}");
    let ids = text.split("job ").skip(1).map(|rest| {
        let id = rest.split_once(' ').unwrap().0;
        id.parse::<JobId>().unwrap().as_u64()
    });
    let [before, last] = ids.collect::<Vec<_>>()[..] else { panic!("{text}") };
    let repaired = repair(dir.path()).unwrap().unwrap();
    let dropped: Vec<u64> = repaired.jobs.iter().map(|id| id.as_u64()).collect();
    assert_eq!(dropped, (before + 1..=last).collect::<Vec<_>>());
}

/// A start names the first damage that was found, and says how many more there are.
#[test]
fn a_refusal_counts_the_other_damages() {
    let good = tempfile::tempdir().unwrap();
    let tables = with_tables(good.path());
    for damaged in [1, 2] {
        let dir = tempfile::tempdir().unwrap();
        copy(good.path(), dir.path());
        for table in tables.iter().take(damaged) {
            flip(&dir.path().join(table.strip_prefix(good.path()).unwrap()), 100);
        }
        let others = check(dir.path()).unwrap().len() - 1;
        // A read that meets the damage makes the next start check the whole store.
        assert!(EmbeddedStore::open(dir.path()).unwrap().list("").is_err());
        let err = EmbeddedStore::open(dir.path()).map(drop).unwrap_err().to_string();
        match others {
            0 => assert!(!err.contains("more"), "{err}"),
            _ => assert!(err.contains(&format!("; {others} more")), "{err}"),
        }
        assert_eq!(others, damaged - 1, "{err}");
    }
}

/// A power loss can keep the trailer of a table that was being written, and lose what is before it.
#[test]
fn an_incomplete_table_that_is_not_listed_yet_is_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    let tables = with_tables(dir.path());
    let before = all_keys(&EmbeddedStore::open(dir.path()).unwrap());
    for table in tables {
        let mut bytes = fs::read(&table).unwrap();
        let trailer = bytes.len() - 40;
        bytes[trailer - 60..trailer].fill(0);
        let incomplete = table.with_file_name("900");
        fs::write(&incomplete, bytes).unwrap();
        assert_eq!(check(dir.path()).unwrap(), [], "{}", table.display());
        assert!(all_keys(&EmbeddedStore::open(dir.path()).unwrap()) == before);
        assert!(!incomplete.exists());
    }
}

/// Returns the number of keys of dropped jobs below `job-lost+found`.
fn repaired_well(
    dir: &Path,
    repaired: &Repaired,
    before: &BTreeMap<Key, Vec<u8>>,
    what: &str,
) -> usize {
    assert!(repaired.kept.is_dir(), "{what}");
    assert_eq!(check(dir).unwrap(), [], "{what}");
    let store = EmbeddedStore::open(dir).unwrap();
    let after = all_keys(&store);
    let dropped: Vec<u64> = repaired.jobs.iter().map(|id| id.as_u64()).collect();
    assert!(dropped.len() < 60, "{what}: {dropped:?}");
    for (key, value) in before {
        let is_dropped = match key.job_id() {
            Some(id) => dropped.contains(&id),
            None => !after.contains_key(key),
        };
        if is_dropped {
            assert!(!after.contains_key(key), "{what}: {key}");
        } else {
            assert_eq!(after.get(key), Some(value), "{what}: {key}");
        }
    }
    let mut set_aside = 0;
    for (key, value) in after.iter().filter(|(key, _)| !before.contains_key(key)) {
        let place = key.name().strip_prefix(Key::LOST_JOB);
        let Some((id, name)) = place.and_then(|place| place.split_once('.')) else {
            panic!("{what}: {key}");
        };
        let id = id.parse::<JobId>().unwrap().as_u64();
        assert!(dropped.contains(&id), "{what}: {key}");
        // A summary comes from the index. Some records of a log may be lost.
        if name != "summary" {
            let old = &before[&Key::job(id, name).unwrap()];
            assert!(old.windows(value.len()).any(|part| part == value), "{what}: {key}");
            set_aside += 1;
        }
    }
    store.commit(vec![Op::Put { key: Key::checkpoint(), value: b"8".into() }]).unwrap();
    drop(store);
    EmbeddedStore::open(dir).unwrap();
    set_aside
}

/// The number of commits may be lost with its block, and the number in the file beside the database may be too low
/// after a power loss. The names of bundles' rows contain the numbers of commits, so the next commit would replace
/// such a row.
#[test]
fn a_repair_lets_no_number_of_a_commit_return() {
    let dir = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(dir.path()).unwrap();
    let append = |seq, text: &str| Op::Append { key: Key::eventlog(1), seq, value: text.into() };
    for (seq, text) in (0..).zip(["submit\n", "validate\n", "depend\n"]) {
        store.commit(vec![append(seq, text)]).unwrap();
    }
    store.flush_to_table();
    drop(store);
    fs::write(dir.path().join("acked"), format!("{:020}\n", 1)).unwrap();
    let tables = files(&dir.path().join("db-3/keyspaces"));
    let is_of_instance = |path: &&PathBuf| path.to_string_lossy().contains("/keyspaces/3/tables/");
    flip(tables.iter().find(is_of_instance).unwrap(), 20);
    let damages = check(dir.path()).unwrap();
    assert!(damages[0].to_string().contains("(instance)"), "{damages:?}");
    repair(dir.path()).unwrap();
    let store = EmbeddedStore::open(dir.path()).unwrap();
    store.commit(vec![append(3, "alloc\n")]).unwrap();
    let log = store.read_log(&Key::eventlog(1)).unwrap().unwrap();
    assert_eq!(log, b"submit\nvalidate\ndepend\nalloc\n");
}

/// A read fails, the next start refuses the store, and a start with `store.damage = "repair"` repairs it.
#[test]
fn damage_that_was_read_is_refused_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let tables = with_tables(dir.path());
    // In the middle of the jobs' rows.
    flip(&tables[0], fs::metadata(&tables[0]).unwrap().len() as usize / 2);
    let store = EmbeddedStore::open(dir.path()).unwrap();
    let read = |id| store.get(&Key::jobspec(id));
    let err = (0..JOBS).find_map(|id| read(id).err()).unwrap();
    assert!(err.to_string().contains("jobtap fsck"), "{err}");
    drop(store);
    let err = EmbeddedStore::open(dir.path()).err().unwrap();
    let text = err.to_string();
    assert!(text.contains("keys may be lost after job"), "{text}");
    let config = serde_json::json!({ "store": { "damage": "repair" } });
    let settings = StoreSettings::read(&config).unwrap();
    let store = EmbeddedStore::open_with(dir.path(), settings).unwrap();
    let repaired = store.repaired().unwrap();
    assert!(!repaired.jobs.is_empty());
    let dropped = repaired.jobs.len();
    assert_eq!(store.job_ids().unwrap().len(), JOBS as usize - dropped);
    drop(store);
    let store = EmbeddedStore::open_with(dir.path(), settings).unwrap();
    assert_eq!(store.repaired(), None);
}

/// The engine's thread ends when it meets damage in a merge, without reporting it.
#[test]
fn damage_that_a_merge_meets_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let tables = with_tables(dir.path());
    flip(&tables[0], fs::metadata(&tables[0]).unwrap().len() as usize / 2);
    let store = EmbeddedStore::open(dir.path()).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let err = loop {
        assert!(Instant::now() < deadline, "no merge has met the damage");
        // Rows across the whole keyspace, so that the tables have to be merged.
        let put = |id| Op::Put { key: Key::job(id, "x").unwrap(), value: b"x".into() };
        match store.commit(vec![put(0), put(JOBS / 2), put(JOBS)]) {
            Ok(()) => store.begin_table(),
            Err(err) => break err,
        }
    };
    let text = err.to_string();
    assert!(text.contains("/tables/") && text.contains("keys may be lost after job"), "{text}");
    assert!(text.contains("jobtap fsck"), "{text}");
}
