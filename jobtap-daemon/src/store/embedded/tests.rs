//! Tests of opening, filling and reopening a store on disk.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;

use fjall::{Database, PersistMode};

use super::super::bundle::{Bundle, Entry};
use super::super::changes::Changes;
use super::super::layout::Rows;
use super::super::rows::Name;
use super::super::{lock, request};
use super::engine::{EARLIER, FORMAT, explain, has_room_for_a_table};
use super::files::KeyspaceSet;
use super::part::Part;
use super::*;

fn put(key: &Key, value: &str) -> Op {
    Op::Put { key: key.clone(), value: value.into() }
}

fn append(id: u64, seq: u64, text: &str) -> Op {
    Op::Append { key: Key::eventlog(id), seq, value: text.into() }
}

fn scan(store: &dyn Store, wanted: &[&str]) -> Vec<StoredJob> {
    let mut jobs = Vec::new();
    store
        .scan_jobs(&|name| wanted.contains(&name), &mut |job| {
            jobs.push(job);
            ControlFlow::Continue(())
        })
        .unwrap();
    jobs
}

#[test]
fn a_restart_finds_jobs_in_order_with_their_logs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new").join("store");
    let store = EmbeddedStore::open(&path).unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    for id in [0x1_0000, 2, u64::MAX, 0xff] {
        store
            .commit(vec![
                put(&Key::jobspec(id), "{}"),
                append(id, 0, "submit\n"),
                put(&Key::guest(id, "output").unwrap(), "long"),
            ])
            .unwrap();
    }
    store.commit(vec![append(2, 1, "validate\n")]).unwrap();
    store.commit(vec![append(2, u64::MAX, "clean\n")]).unwrap();
    store.commit(vec![put(&Key::checkpoint(), "{}")]).unwrap();
    drop(store);

    let store = EmbeddedStore::open(&path).unwrap();
    assert_eq!(store.job_ids().unwrap(), [2, 0xff, 0x1_0000, u64::MAX]);
    let jobs = scan(&store, &["eventlog", "jobspec"]);
    assert_eq!(jobs[0].get("eventlog").unwrap(), b"submit\nvalidate\nclean\n");
    assert_eq!(jobs[0].get("guest.output"), None);
    assert_eq!(jobs[1].entries[0].next_seq, Some(1));
    assert_eq!(jobs[1].entries[1].next_seq, None);
    assert_eq!(store.read_log(&Key::eventlog(2)).unwrap().unwrap(), b"submit\nvalidate\nclean\n");
    assert_eq!(store.read_log(&Key::eventlog(3)).unwrap(), None);
    let names = |prefix: &str| -> Vec<String> {
        let keys = store.list(prefix).unwrap();
        keys.iter().map(Key::to_string).collect()
    };
    assert_eq!(
        names("job.0000.0000.0000.0002."),
        [
            "job.0000.0000.0000.0002.eventlog",
            "job.0000.0000.0000.0002.guest.output",
            "job.0000.0000.0000.0002.jobspec",
        ]
    );
    assert_eq!(names("c"), ["checkpoint.job-manager"]);
    assert_eq!(names("").len(), 13);
    assert!(store.free_space().unwrap().unwrap().free > 0);
}

/// Each row takes memory, time and space of its own.
#[test]
fn a_commit_of_a_job_is_one_row() {
    let dir = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(dir.path()).unwrap();
    let signed = request::unsigned(1000, "{}".to_owned());
    let submitted =
        vec![put(&Key::request(1), &signed), put(&Key::jobspec(1), "{}"), append(1, 0, "submit\n")];
    store.commit(submitted).unwrap();
    store.commit(vec![put(&Key::resources(1), "R"), append(1, 1, "alloc\n")]).unwrap();
    let long = "x".repeat(300_000);
    store.commit(vec![append(1, 2, &long), put(&Key::guest(1, "output").unwrap(), "o")]).unwrap();
    let mut rows = Vec::new();
    let each = &mut |name: &[u8], _: &[u8]| {
        rows.push(rows::parse(name).map(|row| (row.name.to_owned(), row.seq)).unwrap());
        Ok(ControlFlow::Continue(()))
    };
    store.engine.view().unwrap().each(&rows::of_job(1), each).unwrap();
    let row = |name: &str, seq| (name.to_owned(), Some(seq));
    assert_eq!(rows, [row("", 0), row("", 2), row("", 3), row("eventlog", 2)]);
    // A long value replaces the value in a bundle, and is replaced by the value in a later bundle.
    let key = Key::resources(1);
    for value in [&long, "short", &long] {
        store.commit(vec![put(&key, value)]).unwrap();
        assert_eq!(store.get(&key).unwrap().unwrap(), value.as_bytes());
        assert_eq!(scan(&store, &["R"])[0].get("R").unwrap(), value.as_bytes());
    }
}

#[test]
fn a_scan_can_end_early() {
    let dir = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(dir.path()).unwrap();
    store.commit((0..5).map(|id| append(id, 0, "x")).collect()).unwrap();
    let mut seen = 0;
    store
        .scan_jobs(&|_| true, &mut |_| {
            seen += 1;
            ControlFlow::Break(())
        })
        .unwrap();
    assert_eq!(seen, 1);
}

#[test]
fn history_is_never_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(dir.path()).unwrap();
    store.commit(vec![append(1, 0, "submit\n")]).unwrap();
    let err = store.commit(vec![put(&Key::jobspec(1), "{}"), append(1, 0, "x\n")]).unwrap_err();
    assert_eq!(
        err.to_string(),
        "job.0000.0000.0000.0001.eventlog already has record 0: \
         restart the manager, which continues after the last"
    );
    assert_eq!(store.get(&Key::jobspec(1)).unwrap(), None, "all or nothing");
    store.commit(vec![append(1, 1, "validate\n")]).unwrap();
    let log = store.read_log(&Key::eventlog(1)).unwrap().unwrap();
    assert_eq!(log, b"submit\nvalidate\n");
}

#[test]
fn history_is_never_replaced_after_a_refusal_or_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(dir.path()).unwrap();
    let refused = |store: &EmbeddedStore, ops| {
        let err = store.commit(ops).unwrap_err();
        assert!(matches!(err, StoreError::Sequence { .. }), "{err}");
    };
    store.commit(vec![append(1, 0, "submit\n"), append(2, 0, "submit\n")]).unwrap();
    store.commit(vec![append(2, 5, "clean\n")]).unwrap();
    // The first operation isn't carried out either.
    refused(&store, vec![Op::RemoveJob(1), append(2, 0, "x\n")]);
    refused(&store, vec![append(1, 0, "x\n")]);
    drop(store);
    let store = EmbeddedStore::open(dir.path()).unwrap();
    store.commit(vec![append(2, 1, "validate\n")]).unwrap();
    refused(&store, vec![append(2, 5, "x\n")]);
    let log = store.read_log(&Key::eventlog(2)).unwrap().unwrap();
    assert_eq!(log, b"submit\nvalidate\nclean\n");
}

/// A commit may move a key to another row, but a scan shows one instant.
#[test]
fn a_reader_sees_each_commit_whole() {
    const JOBS: u64 = 300;
    let dir = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(dir.path()).unwrap();
    let commit = |number: u64| {
        let text = number.to_string();
        let key = |id| Key::resources(id);
        let of_job = |id| [Op::Remove { key: key(id) }, put(&key(id), &text)];
        store.commit((0..JOBS).flat_map(of_job).collect()).unwrap();
    };
    commit(0);
    let done = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            (1..40).for_each(commit);
            done.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        while !done.load(std::sync::atomic::Ordering::SeqCst) {
            let jobs = scan(&store, &[Key::R]);
            let values: Vec<_> = jobs.iter().map(|job| job.get(Key::R).unwrap()).collect();
            assert!(jobs.len() as u64 == JOBS && values.iter().all(|value| *value == values[0]));
            assert!(store.get(&Key::resources(JOBS / 2)).unwrap().is_some());
        }
    });
}

#[test]
fn a_second_manager_is_refused_and_the_next_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(dir.path()).unwrap();
    let err = EmbeddedStore::open(dir.path()).err().unwrap();
    assert!(matches!(err, StoreError::Locked { pid: Some(_), .. }), "{err}");
    drop(store);
    for _ in 0..5 {
        EmbeddedStore::open(dir.path()).unwrap();
    }
}

#[test]
fn a_store_of_a_newer_version_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(dir.path()).unwrap();
    let newer = Changes::single(rows::FORMAT.into(), "5".into());
    store.engine.write(newer, 1).unwrap();
    drop(store);
    let err = EmbeddedStore::open(dir.path()).err().unwrap();
    let expected = format!(
        "{} has store format 5, and this jobtap knows format 4: start it with the jobtap that \
         wrote it; an archive of its `jobtap dump FILE` can be restored by others",
        dir.path().display()
    );
    assert_eq!(err.to_string(), expected);
}

/// Gives the store another format.
fn set_format(store: &EmbeddedStore, format: u32) {
    let mut commits = store.commits.lock().unwrap();
    commits.last += 1;
    let changes = Changes::single(rows::FORMAT.into(), format.to_string().into());
    store.engine.write(changes, commits.last).unwrap();
}

/// Creates a store as an earlier version has left it, with these rows in tables.
fn earlier_store(dir: &Path, format: u32, rows: &[(Name, Vec<u8>)]) {
    let set = KeyspaceSet::WithoutSubmissions;
    let db = Database::builder(set.database(dir)).open().unwrap();
    let keyspaces = set.parts().iter().map(|part| {
        let keyspace = db.keyspace(part.name(), fjall::KeyspaceCreateOptions::default).unwrap();
        (*part, keyspace)
    });
    let keyspaces: Vec<_> = keyspaces.collect();
    let own = [
        (rows::FORMAT.into(), format.to_string().into()),
        (rows::COMMITS.into(), 1u64.to_be_bytes().into()),
    ];
    let mut batch = db.batch().durability(Some(PersistMode::SyncAll));
    for (name, value) in own.iter().chain(rows) {
        let part = if name.starts_with(rows::ALL_JOBS) { Part::Jobs } else { Part::Instance };
        let (_, keyspace) = keyspaces.iter().find(|(found, _)| *found == part).unwrap();
        batch.insert(keyspace, &**name, value.clone());
    }
    batch.commit().unwrap();
    keyspaces.iter().for_each(|(_, keyspace)| keyspace.rotate_memtable_and_wait().unwrap());
    Acked::create(dir, 1).unwrap();
}

/// The rows of a job as an earlier version has stored them.
fn earlier_rows(format: u32) -> Vec<(Name, Vec<u8>)> {
    let token = request::token_of(1000, "{}");
    let row = |name, value: &str| (name, value.into());
    let mut rows = vec![
        row(rows::of_value(&Key::request(1)), &token),
        row(rows::of_value(&Key::jobspec(1)), "{}"),
        row(rows::of_record(&Key::eventlog(1), 0), "submit\n"),
        row(rows::of_value(&Key::resources(1)), "old"),
        row(rows::of_value(&Key::checkpoint()), "7"),
    ];
    let record = (Key::eventlog(1), 3, "validate\n");
    rows.push(match format {
        ..4 => row(rows::of_record(&record.0, record.1), record.2),
        _ => {
            let mut bundle = Bundle::default();
            let (_, name) = record.0.frequent().unwrap();
            let entry = Entry { name, seq: Some(record.1), value: record.2.into() };
            assert_eq!(bundle.add(entry), None);
            (rows::of_bundle(1, 1), bundle.encode())
        }
    });
    rows
}

#[test]
fn a_store_of_an_earlier_format_goes_on_as_one_of_this() {
    for format in EARLIER.into_iter().chain([FORMAT]) {
        let dir = tempfile::tempdir().unwrap();
        let token = request::token_of(1000, "{}");
        earlier_store(dir.path(), format, &earlier_rows(format));
        assert!(check(dir.path()).unwrap().is_empty());
        let store = EmbeddedStore::open(dir.path()).unwrap();
        let found = store.engine.row(rows::FORMAT).unwrap();
        assert_eq!(found, Some(FORMAT.to_string().into()));
        let refused = store.commit(vec![append(1, 3, "x")]).unwrap_err();
        assert!(matches!(refused, StoreError::Sequence { .. }), "{refused}");
        let signed = request::unsigned(1000, "{}".to_owned());
        let resources = |text| put(&Key::resources(1), text);
        store.commit(vec![append(1, 4, "alloc\n"), resources("new")]).unwrap();
        store.commit(vec![put(&Key::request(2), &signed), append(1, 5, "clean\n")]).unwrap();
        drop(store);
        let store = EmbeddedStore::open(dir.path()).unwrap();
        for id in [1, 2] {
            assert_eq!(store.get(&Key::request(id)).unwrap(), Some(token.clone().into()));
        }
        let jobs = scan(&store, &[Key::J, Key::JOBSPEC, Key::R, Key::EVENTLOG]);
        let tokens: Vec<_> = jobs.iter().filter_map(|job| job.get(Key::J)).collect();
        assert_eq!(tokens, [token.as_bytes(), token.as_bytes()]);
        let log = b"submit\nvalidate\nalloc\nclean\n";
        assert_eq!(jobs[0].get(Key::EVENTLOG), Some(&log[..]));
        assert_eq!(store.read_log(&Key::eventlog(1)).unwrap().unwrap(), log);
        assert_eq!(jobs[0].get(Key::R), Some(&b"new"[..]));
        assert_eq!(store.get(&Key::resources(1)).unwrap().unwrap(), b"new");
        let names: Vec<&str> = jobs[0].entries.iter().map(|entry| &*entry.name).collect();
        assert_eq!(names, ["J", "R", "eventlog", "jobspec"]);
        assert_eq!(jobs[0].entries[2].next_seq, Some(6));
        assert_eq!(store.list("job.0000.0000.0000.0001.").unwrap().len(), 4);
        store.commit(vec![Op::Remove { key: Key::resources(1) }]).unwrap();
        assert_eq!(store.get(&Key::resources(1)).unwrap(), None);
        store.commit(vec![Op::RemoveJob(1)]).unwrap();
        assert_eq!(store.job_ids().unwrap(), [2]);
        assert_eq!(KeyspaceSet::detect(dir.path()), KeyspaceSet::WithoutSubmissions);
    }
}

#[test]
fn a_damaged_store_without_a_keyspace_of_submissions_is_repaired() {
    let dir = tempfile::tempdir().unwrap();
    earlier_store(dir.path(), 4, &earlier_rows(4));
    let earlier = KeyspaceSet::WithoutSubmissions.database(dir.path());
    let (_, jobs) = files::keyspaces(dir.path()).remove(0);
    let table = fs::read_dir(jobs.join("tables")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&table).unwrap();
    bytes[20] ^= 1;
    fs::write(&table, bytes).unwrap();
    let repaired = repair(dir.path()).unwrap().unwrap();
    assert!(repaired.kept.join("keyspaces").is_dir() && earlier.is_dir());
    let store = EmbeddedStore::open(dir.path()).unwrap();
    assert!(store.job_ids().unwrap().is_empty());
    assert_eq!(store.get(&Key::checkpoint()).unwrap(), Some(b"7".to_vec()));
    assert_eq!(KeyspaceSet::detect(dir.path()), KeyspaceSet::WithoutSubmissions);
}

/// A second row with this name would replace the first one.
#[test]
fn a_job_has_one_first_bundle_whatever_is_stored_first() {
    let dir = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(dir.path()).unwrap();
    // No log shows that the job exists.
    store.commit(vec![put(&Key::resources(1), "R")]).unwrap();
    store.commit(vec![put(&Key::jobspec(1), "{}")]).unwrap();
    // A job whose only row is not a bundle.
    store.commit(vec![put(&Key::guest(2, "output").unwrap(), "o")]).unwrap();
    store.commit(vec![put(&Key::resources(2), "R")]).unwrap();
    drop(store);
    let store = EmbeddedStore::open(dir.path()).unwrap();
    store.commit(vec![append(1, 0, "submit\n"), append(2, 0, "submit\n")]).unwrap();
    let names = |id| {
        let job = store.job(id, &|_| true).unwrap().unwrap();
        job.entries.iter().map(|entry| entry.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(1), ["R", "eventlog", "jobspec"]);
    assert_eq!(names(2), ["R", "eventlog", "guest.output"]);
}

/// Data of a newer version would be read as if this version had written it.
#[test]
fn a_damaged_store_of_a_newer_version_is_not_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(dir.path()).unwrap();
    store.commit(vec![append(1, 0, "submit\n")]).unwrap();
    store.flush_to_table();
    set_format(&store, FORMAT + 1);
    drop(store);
    let (_, submissions) = files::keyspaces(dir.path()).remove(3);
    let table = fs::read_dir(submissions.join("tables")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&table).unwrap();
    bytes[20] ^= 1;
    fs::write(&table, bytes).unwrap();
    let config = serde_json::json!({ "store": { "damage": "repair" } });
    let settings = StoreSettings::read(&config).unwrap();
    let err = EmbeddedStore::open_with(dir.path(), settings).err().unwrap();
    assert!(matches!(err, StoreError::Format { .. }), "{err}");
}

#[test]
fn a_store_of_the_earlier_format_that_lacks_a_commit_is_refused_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(dir.path()).unwrap();
    store.commit(vec![put(&Key::request(1), "x")]).unwrap();
    set_format(&store, 3);
    // Acknowledged, and lost.
    store.commits.lock().unwrap().acked.note(3);
    drop(store);
    for _ in 0..2 {
        let err = EmbeddedStore::open(dir.path()).err().unwrap();
        assert!(matches!(err, StoreError::Lost { acked: 3, found: 2, .. }), "{err}");
    }
}

#[test]
fn another_programs_database_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(lock::FILE), "").unwrap();
    let db = Database::builder(dir.path().join(files::DB)).open().unwrap();
    let names = ["theirs", "other", "third", "fourth"];
    let rows = names.map(|name| db.keyspace(name, fjall::KeyspaceCreateOptions::default).unwrap());
    rows[0].insert("a", "b").unwrap();
    db.persist(PersistMode::SyncAll).unwrap();
    drop((rows, db));
    let err = EmbeddedStore::open(dir.path()).err().unwrap();
    assert!(matches!(err, StoreError::NotAStore { .. }), "{err}");
}

#[test]
fn no_permission_is_said_with_the_path() {
    let dir = tempfile::tempdir().unwrap();
    let forbidden = dir.path().join("forbidden");
    fs::create_dir(&forbidden).unwrap();
    fs::set_permissions(&forbidden, fs::Permissions::from_mode(0o500)).unwrap();
    if fs::write(forbidden.join("probe"), "").is_ok() {
        // Access is never denied to the superuser.
        return;
    }
    let err = EmbeddedStore::open(&forbidden.join("store")).err().unwrap();
    assert!(matches!(err, StoreError::Denied { .. }), "{err}");
    assert!(err.to_string().contains("forbidden/store"), "{err}");
}

#[test]
fn engine_errors_are_sorted_by_what_the_user_can_do() {
    let explained = |err| explain(Path::new("/"), err);
    let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
    assert!(matches!(explained(fjall::Error::Io(full)), StoreError::NoSpace { .. }));
    let gone = std::io::Error::from(std::io::ErrorKind::NotFound);
    assert!(matches!(explained(fjall::Error::Io(gone)), StoreError::Corrupt { .. }));
    let text = explained(fjall::Error::Poisoned).to_string();
    assert!(text.contains("writing failed in the background"), "{text}");
    assert!(matches!(explained(fjall::Error::Unrecoverable), StoreError::Corrupt { .. }));
}

/// The limit holds for the gathered data, and again for data on its way to tables, of all keyspaces together.
#[test]
fn memory_is_bounded_by_the_configuration() {
    const MIB: u64 = 1024 * 1024;
    const VALUE: usize = 64 * 1024;
    let dir = tempfile::tempdir().unwrap();
    let config = serde_json::json!({ "store": { "memory": "16M" } });
    let store =
        EmbeddedStore::open_with(dir.path(), StoreSettings::read(&config).unwrap()).unwrap();
    let mut most = 0;
    for id in 0..300 {
        let index = Key::instance(&format!("{}{id:016x}", Key::INDEX)).unwrap();
        let ops = [Key::jobspec(id), index, Key::instance(&format!("x{id}")).unwrap()];
        let value = || vec![id as u8; VALUE];
        store.commit(ops.map(|key| Op::Put { key, value: value() }).to_vec()).unwrap();
        let (gathered, sealed) = store.engine.rows.in_memory();
        // One of a keyspace with much data, and one of the instance's.
        assert!(sealed <= 2, "{sealed}");
        most = most.max(gathered);
    }
    // 56 MiB were written.
    assert!(most > 4 * MIB && most < 6 * MIB, "{most}");
}

/// Each commit writes this row, and memory keeps all of its versions. A table each time would hold up the writers.
#[test]
fn the_number_of_commits_gathers_until_a_few_tables_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let config = serde_json::json!({ "store": { "memory": "16M" } });
    let store =
        EmbeddedStore::open_with(dir.path(), StoreSettings::read(&config).unwrap()).unwrap();
    let before = store.engine.rows.in_memory_of(Part::Instance);
    let commit = |id| {
        let value = vec![id as u8; 64 * 1024];
        store.commit(vec![Op::Put { key: Key::jobspec(id), value }]).unwrap();
    };
    commit(0);
    let one = store.engine.rows.in_memory_of(Part::Instance) - before;
    // A table is begun after 5 MiB: three after 16, and seven after 38.
    (1..256).for_each(commit);
    assert_eq!(store.engine.rows.in_memory_of(Part::Instance) - before, one * 256);
    (256..600).for_each(commit);
    let gathered = store.engine.rows.in_memory_of(Part::Instance);
    assert!(gathered < one * 300, "{gathered} of 600 times {one}");
}

/// Data that is only in memory keeps old write-ahead logs.
#[test]
fn what_is_written_once_becomes_a_table_while_others_write() {
    let dir = tempfile::tempdir().unwrap();
    let config = serde_json::json!({ "store": { "memory": "16M" } });
    let store =
        EmbeddedStore::open_with(dir.path(), StoreSettings::read(&config).unwrap()).unwrap();
    let in_memory = || store.engine.rows.in_memory_of(Part::Submissions);
    store.commit(vec![append(1, 0, "submit\n")]).unwrap();
    assert!(in_memory() > 0);
    for number in 0..400 {
        let key = Key::guest(1, &format!("output-{number}")).unwrap();
        store.commit(vec![Op::Put { key, value: vec![number as u8; 64 * 1024] }]).unwrap();
    }
    assert_eq!(in_memory(), 0);
    assert_eq!(store.read_log(&Key::eventlog(1)).unwrap().unwrap(), b"submit\n");
}

/// The manager reads these files itself when it repairs a store. A newer database may write them in another way: then
/// the modules that read them must follow, and stores of both must be told apart.
#[test]
fn the_files_of_the_database_have_the_format_that_is_read_here() {
    let dir = tempfile::tempdir().unwrap();
    let config = serde_json::json!({ "store": { "memory": "16M" } });
    let store =
        EmbeddedStore::open_with(dir.path(), StoreSettings::read(&config).unwrap()).unwrap();
    for number in 0..400 {
        let key = Key::guest(1, &format!("output-{number}")).unwrap();
        store.commit(vec![Op::Put { key, value: vec![number as u8; 64 * 1024] }]).unwrap();
    }
    drop(store);
    let database = files::database(dir.path());
    assert_eq!(fs::read(database.join("version")).unwrap(), b"FJL\x03");
    let log = fs::File::open(database.join("0.jnl")).unwrap();
    let log = write_ahead_log::read(&log, None).unwrap();
    assert!(log.end > 0 && log.rest == write_ahead_log::Rest::Nothing, "{log:?}");
    let mut tables = 0;
    for (_, keyspace) in files::keyspaces(dir.path()) {
        assert_eq!(integrity::check(&keyspace).unwrap(), None);
        for (table, checksum) in integrity::listed_tables(&keyspace).unwrap().unwrap() {
            let bytes = fs::read(&table).unwrap();
            assert!(bytes.starts_with(b"LSM\x03"));
            assert_eq!(xxhash_rust::xxh3::xxh3_128(&bytes), checksum);
            let sections = integrity::sections(&table).unwrap().unwrap();
            assert!(sections.iter().any(|section| section.name == "data"), "{sections:?}");
            assert_eq!(table::damages(&table, &sections).unwrap(), []);
            tables += 1;
        }
    }
    assert!(tables > 0);
}

#[test]
fn a_disk_is_full_when_no_table_fits() {
    assert!(!has_room_for_a_table(keyspaces::MEMTABLE - 1));
    assert!(has_room_for_a_table(keyspaces::MEMTABLE));
}
