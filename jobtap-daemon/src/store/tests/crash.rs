//! A manager that is killed while it commits: all acknowledged commits are there, and each commit is
//! there completely or not at all.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use crate::store::{Batch, Committer, EmbeddedStore, Key, Op, Store};

const DIR: &str = "JOBTAP_STORE_CRASH_DIR";
const FIRST: &str = "JOBTAP_STORE_CRASH_FIRST";
/// The maximum number of commits of a child, so that it ends even if its parent is gone.
const AT_MOST: u64 = 1_000_000;

/// One job per batch; the next batch but one adds a second record to its log.
fn ops(number: u64) -> Vec<Op> {
    let mut ops = vec![
        Op::Put { key: Key::jobspec(number), value: format!("{{\"n\":{number}}}").into() },
        Op::Append {
            key: Key::eventlog(number),
            seq: 0,
            value: format!("submit {number}\n").into(),
        },
    ];
    if let Some(earlier) = number.checked_sub(2) {
        ops.push(Op::Append {
            key: Key::eventlog(earlier),
            seq: 1,
            value: format!("validate {earlier}\n").into(),
        });
    }
    ops
}

/// Not a test: the process that is killed.
#[test]
fn child() {
    let (Ok(dir), Ok(first)) = (std::env::var(DIR), std::env::var(FIRST)) else {
        return;
    };
    let store = EmbeddedStore::open(Path::new(&dir)).unwrap();
    let committer = Committer::start(Arc::new(store), |err| panic!("{err}")).unwrap();
    let first: u64 = first.parse().unwrap();
    let (tell, acked) = std::sync::mpsc::sync_channel(64);
    let report = std::thread::spawn(move || {
        for number in acked {
            // Written directly, because the test harness would capture it.
            if writeln!(std::io::stdout(), "acked {number}").is_err() {
                std::process::exit(1);
            }
        }
    });
    for number in first..first + AT_MOST {
        let tell = tell.clone();
        let then = Box::new(move || tell.send(number).unwrap());
        committer.submit(Batch { ops: ops(number), then });
        // Some commits alone, some in groups of several sizes.
        if number % 97 > 60 {
            std::thread::yield_now();
        }
    }
    drop(tell);
    report.join().unwrap();
}

fn start_child(dir: &Path, first: u64) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store::tests::crash::child", "--nocapture"])
        .env(DIR, dir)
        .env(FIRST, first.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

/// Reads acknowledgements until there are `count`, kills the child, and reads its remaining output.
fn kill_after(count: usize, child: &mut Child, output: BufReader<ChildStdout>) -> Option<u64> {
    let mut last = None;
    let mut seen = 0;
    if count == 0 {
        child.kill().unwrap();
    }
    for line in output.lines() {
        let line = line.unwrap();
        let Some(number) = line.strip_prefix("acked ") else {
            continue;
        };
        last = Some(number.parse().unwrap());
        seen += 1;
        if seen == count {
            child.kill().unwrap();
        }
    }
    let status = child.wait().unwrap();
    assert_eq!(status.code(), None, "killed, not ended by itself");
    last
}

/// Checks that there are jobs without gaps, and returns the number of the next.
fn check(store: &dyn Store, acked: Option<u64>) -> u64 {
    let ids = store.job_ids().unwrap();
    let next = ids.len() as u64;
    assert_eq!(ids, (0..next).collect::<Vec<_>>());
    assert!(acked.is_none_or(|acked| acked < next), "{acked:?} < {next}");
    for id in ids {
        let spec = store.get(&Key::jobspec(id)).unwrap().unwrap();
        assert_eq!(spec, format!("{{\"n\":{id}}}").into_bytes());
        let mut log = format!("submit {id}\n");
        if id + 2 < next {
            log += &format!("validate {id}\n");
        }
        let stored = store.read_log(&Key::eventlog(id)).unwrap().unwrap();
        assert_eq!(String::from_utf8(stored).unwrap(), log);
    }
    next
}

#[test]
fn a_killed_manager_loses_nothing_it_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut next = 0;
    for count in [0, 1, 30, 0, 2, 300, 1000, 5, 2000] {
        let (mut child, output) = start_child(dir.path(), next);
        let acked = kill_after(count, &mut child, output);
        let store = EmbeddedStore::open(dir.path()).unwrap();
        assert_eq!(store.cut(), None);
        next = check(&store, acked);
    }
    assert!(next > 3000);
}
