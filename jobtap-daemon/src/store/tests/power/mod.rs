//! Power losses: a store's file operations are recorded, replayed on a model of a disk that loses data
//! that was not synced, and cut off at random moments. The remaining store must open with all acknowledged
//! commits, and with each commit completely or not at all.
//!
//! For more than a few power losses: `JOBTAP_POWER_LOSSES=1000 cargo test -p jobtap-daemon --lib power`

mod disk;
mod strace;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, mpsc};

use self::disk::{Disk, Random};
use self::strace::{Event, Player};
use crate::store::{Batch, Committer, EmbeddedStore, Key, Op, Store};

const DIR: &str = "JOBTAP_STORE_POWER_DIR";
const LOSSES: &str = "JOBTAP_POWER_LOSSES";
const FEW_LOSSES: usize = 60;
/// The number of recorded runs. Each starts with the content that a power loss left of the one before.
const RUNS: usize = 3;
const COMMITS: u64 = 240;
/// The interval, in commits, at which a table is written, and the store closed and opened again.
const FLUSH_EVERY: u64 = 12;
const REOPEN_EVERY: u64 = 70;
/// The age, in commits, at which jobs are removed.
const KEPT_JOBS: u64 = 100;

/// The changes of a commit: a new job, the end of an older one, the removal of an old one, and a value with
/// the number of the last commit.
fn ops(number: u64) -> Vec<Op> {
    let mut ops = vec![
        Op::Put { key: Key::jobspec(number), value: format!("{number};").repeat(50).into() },
        Op::Append {
            key: Key::eventlog(number),
            seq: 0,
            value: format!("submit {number}\n").into(),
        },
        Op::Put { key: Key::checkpoint(), value: number.to_string().into() },
    ];
    if let Some(earlier) = number.checked_sub(7) {
        let value = format!("clean {earlier}\n").into();
        ops.push(Op::Append { key: Key::eventlog(earlier), seq: 1, value });
    }
    if let Some(old) = number.checked_sub(KEPT_JOBS) {
        ops.push(Op::RemoveJob(old));
    }
    ops
}

/// The content of the jobs' keys after commits 0 to `last`.
fn expected(last: Option<u64>) -> BTreeMap<u64, (String, String)> {
    let jobs = last.map_or(0..0, |last| last.saturating_sub(KEPT_JOBS - 1)..last + 1);
    let job = |id: u64| {
        let mut log = format!("submit {id}\n");
        if last.is_some_and(|last| id + 7 <= last) {
            log += &format!("clean {id}\n");
        }
        (id, (format!("{id};").repeat(50), log))
    };
    jobs.map(job).collect()
}

fn last_commit(store: &dyn Store) -> Option<u64> {
    let value = store.get(&Key::checkpoint()).unwrap()?;
    Some(String::from_utf8(value).unwrap().parse().unwrap())
}

/// Not a test: the process that is recorded.
#[test]
fn child() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let dir = Path::new(&dir);
    let mut store = Arc::new(EmbeddedStore::open(dir).unwrap());
    let first = last_commit(store.as_ref()).map_or(0, |last| last + 1);
    let mut numbers = first..first + COMMITS;
    while !numbers.is_empty() {
        let for_commits = Arc::clone(&store) as Arc<dyn Store>;
        let committer = Committer::start(for_commits, |err| panic!("{err}")).unwrap();
        for number in numbers.by_ref().take(REOPEN_EVERY as usize) {
            let (tell, acked) = mpsc::channel();
            // Written directly, because the test harness would capture it, and with one call.
            let then = move || {
                let line = format!("acked {number}\n");
                std::io::stdout().write_all(line.as_bytes()).unwrap();
                let _ = tell.send(());
            };
            committer.submit(Batch { ops: ops(number), then: Box::new(then) });
            if number % FLUSH_EVERY == 0 {
                store.flush_to_table();
            } else if number % 3 == 0 {
                // Otherwise there would be few and large commits.
                acked.recv().unwrap();
            }
        }
        committer.close();
        drop(store);
        begin_journal(dir);
        store = Arc::new(EmbeddedStore::open(dir).unwrap());
    }
}

/// Makes the engine begin a write-ahead log at its next opening, as it does itself every 64 MB.
fn begin_journal(dir: &Path) {
    let db = dir.join("db-3");
    let names = fs::read_dir(&db).unwrap().map(|entry| entry.unwrap().file_name());
    let numbers = names.filter_map(|name| name.to_str()?.strip_suffix(".jnl")?.parse::<u64>().ok());
    let next = numbers.max().unwrap() + 1;
    let log = fs::File::create(db.join(format!("{next}.jnl"))).unwrap();
    log.sync_all().unwrap();
    fs::File::open(db).unwrap().sync_all().unwrap();
}

/// Runs the child in `dir` and records its file operations.
fn record(dir: &Path, trace: &Path) {
    let output = strace::command(trace)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "store::tests::power::child", "--nocapture", "--test-threads=1"])
        .env(DIR, dir)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Opens the store that a power loss left and returns the last commit in it.
fn check(dir: &Path, acked: Option<u64>, what: &str) -> Option<u64> {
    let store = EmbeddedStore::open(dir).unwrap_or_else(|err| panic!("{what}: {err}"));
    let last = last_commit(&store);
    assert!(last >= acked, "{what}: commit {acked:?} was acknowledged and {last:?} is the last");
    let mut jobs = BTreeMap::new();
    store
        .scan_jobs(&|_| true, &mut |job| {
            let text =
                |name| String::from_utf8_lossy(job.get(name).unwrap_or_default()).into_owned();
            jobs.insert(job.id, (text(Key::JOBSPEC), text(Key::EVENTLOG)));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(jobs == expected(last), "{what}: commits up to {last:?} are not whole");
    store.commit(ops(last.map_or(0, |last| last + 1))).unwrap();
    drop(store);
    assert_eq!(crate::store::check(dir).unwrap(), [], "{what}");
    last
}

#[test]
fn a_power_loss_takes_nothing_that_was_acknowledged() {
    if !strace::works() {
        eprintln!("skipped: strace is not there or may not trace");
        return;
    }
    let losses = std::env::var(LOSSES).map_or(FEW_LOSSES, |text| text.parse().unwrap());
    let place = tempfile::tempdir().unwrap();
    let mut random = Random::new(losses as u64);
    // The start of the next run: no store at first, then the content that a power loss left.
    let mut start = place.path().join("start");
    fs::create_dir(&start).unwrap();
    let mut acked = None;
    for run in 0..RUNS {
        let dir = place.path().join(format!("run-{run}"));
        super::damage::copy(&start, &dir);
        let trace = place.path().join(format!("trace-{run}"));
        let disk = Disk::load(&dir);
        record(&dir, &trace);
        let mut player = Player::new(&dir, &trace, disk);
        let steps = player.left();
        let mut moments: Vec<usize> = (0..losses / RUNS).map(|_| random.below(steps)).collect();
        moments.sort_unstable();
        let next_start = moments.len() / 2;
        let mut moments = moments.into_iter().enumerate().peekable();
        for step in 0..steps {
            let syncs = player.disk.syncs();
            if let Some(Event::Printed(text)) = player.step() {
                let numbers = text.lines().filter_map(|line| line.strip_prefix("acked "));
                acked = numbers.map(|number| number.parse().unwrap()).chain(acked).max();
            }
            let mut powerless = || {
                let left = place.path().join("left");
                fs::create_dir(&left).unwrap();
                player.disk.lose_power(&left, &mut random);
                left
            };
            let what = format!("run {run}, step {step} of {steps}");
            if run == 0 && acked.is_none() && player.disk.syncs() > syncs {
                // The creation of the store is short, and the order of all its syncs matters.
                for _ in 0..2 {
                    let left = powerless();
                    check(&left, None, &what);
                    fs::remove_dir_all(&left).unwrap();
                }
            }
            while let Some((index, _)) = moments.next_if(|(_, moment)| *moment == step) {
                let left = powerless();
                if index == next_start {
                    start = place.path().join(format!("start-{run}"));
                    super::damage::copy(&left, &start);
                }
                check(&left, acked, &what);
                fs::remove_dir_all(&left).unwrap();
            }
        }
        acked = reached(&start);
    }
}

/// The last commit in a store, read from a copy.
fn reached(dir: &Path) -> Option<u64> {
    let copy = tempfile::tempdir().unwrap();
    super::damage::copy(dir, copy.path());
    last_commit(&EmbeddedStore::open(copy.path()).unwrap())
}
