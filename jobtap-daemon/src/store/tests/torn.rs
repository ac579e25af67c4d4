//! Write-ahead logs after a power loss: the commit that was being written may be torn in any way, all
//! acknowledged commits are there, and no undamaged commit is taken for torn.

use std::fs;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::Index;

use super::damage::copy;
use crate::store::{EmbeddedStore, Key, Op, Store, StoreError};

const PAGE: usize = 4096;

/// A commit: the lengths of its records.
type Lengths = Vec<usize>;

#[derive(Clone, Debug)]
enum Step {
    Commit(Lengths),
    Reopen,
    /// The data in memory is written to a table.
    Flush,
    /// The engine begins a write-ahead log and is killed before it has flushed the rows of the last one.
    Rotate,
    /// The manager is killed after a part of a commit has been written, to a write-ahead log that is
    /// created with zeros or to one that grows.
    Kill(Lengths, Index, bool),
}

/// What happens to the pages of a commit that is being written.
#[derive(Clone, Debug)]
enum Damage {
    Cut(Index),
    ZerosFrom(Index),
    ZeroPages(Vec<bool>),
    Garbage(Index, Vec<u8>),
    Flip(Index, u8),
}

impl Damage {
    /// Changes the bytes from `start` on.
    fn strike(&self, log: &mut Vec<u8>, start: usize) {
        let length = log.len();
        let place = |index: &Index| start + index.index(length - start);
        match self {
            Self::Cut(at) => log.truncate(place(at)),
            Self::ZerosFrom(at) => {
                let at = place(at);
                log[at..].fill(0);
                log.resize(length + 3 * PAGE, 0);
            }
            Self::ZeroPages(lost) => {
                for (at, byte) in log.iter_mut().enumerate().skip(start) {
                    if lost[at / PAGE % lost.len()] {
                        *byte = 0;
                    }
                }
            }
            Self::Garbage(at, garbage) => {
                let at = place(at);
                for (byte, new) in log[at..].iter_mut().zip(garbage.iter().cycle().take(PAGE)) {
                    *byte = *new;
                }
            }
            Self::Flip(at, bit) => {
                let at = place(at);
                log[at] ^= 1 << bit;
            }
        }
    }
}

/// A store, and its expected content.
struct Fixture {
    dir: tempfile::TempDir,
    store: Option<EmbeddedStore>,
    commits: Vec<Lengths>,
}

impl Fixture {
    fn new(steps: &[Step]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Some(EmbeddedStore::open(dir.path()).unwrap());
        let mut fixture = Self { dir, store, commits: Vec::new() };
        for step in steps {
            fixture.step(step);
            fixture.check_healthy();
        }
        fixture
    }

    fn store(&self) -> &EmbeddedStore {
        self.store.as_ref().unwrap()
    }

    fn close(&mut self) {
        self.store = None;
    }

    fn open(&mut self) {
        self.store = Some(EmbeddedStore::open(self.dir.path()).unwrap());
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Commit(lengths) => self.commit(lengths),
            Step::Flush => self.store().flush_to_table(),
            Step::Reopen => {
                self.close();
                self.open();
            }
            Step::Rotate => {
                self.close();
                let active = active(self.dir.path());
                // The engine never leaves an empty write-ahead log behind.
                if !read(&active).is_empty() {
                    let next = format!("{}.jnl", active.number() + 1);
                    fs::write(active.with_file_name(next), "").unwrap();
                }
                self.open();
            }
            Step::Kill(lengths, keep, zeros) => {
                let (start, mut log) = self.unacknowledged(lengths);
                let keep = start + keep.index(log.len() - start);
                log.truncate(keep);
                if *zeros {
                    log.resize(keep + PAGE, 0);
                }
                fs::write(active(self.dir.path()), log).unwrap();
                self.open();
            }
        }
    }

    fn commit(&mut self, lengths: &[usize]) {
        let number = self.commits.len();
        self.store().commit(ops(number, lengths)).unwrap();
        self.commits.push(lengths.to_vec());
    }

    /// Writes a commit, but not its acknowledgement. Returns its offset in the write-ahead log, and the
    /// content of that log.
    fn unacknowledged(&mut self, lengths: &[usize]) -> (usize, Vec<u8>) {
        let acked = fs::read(self.dir.path().join("acked")).unwrap();
        let start = read(&active(self.dir.path())).len();
        self.store().commit(ops(self.commits.len(), lengths)).unwrap();
        self.close();
        fs::write(self.dir.path().join("acked"), acked).unwrap();
        (start, read(&active(self.dir.path())))
    }

    fn check_healthy(&self) {
        assert_eq!(self.store().cut(), None);
        assert_eq!(kept(self.dir.path()), Vec::<PathBuf>::new());
        check(self.store(), &self.commits);
    }
}

trait Numbered {
    fn number(&self) -> u64;
}

impl Numbered for PathBuf {
    fn number(&self) -> u64 {
        self.file_stem().unwrap().to_str().unwrap().parse().unwrap()
    }
}

/// The write-ahead logs, oldest first.
fn logs(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir.join("db-3")).unwrap();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jnl"))
        .collect();
    found.sort_by_key(Numbered::number);
    found
}

fn active(dir: &Path) -> PathBuf {
    logs(dir).pop().unwrap()
}

/// A write-ahead log without the zeros that it was created with.
fn read(log: &Path) -> Vec<u8> {
    let mut bytes = fs::read(log).unwrap();
    // In chunks, which is fast in debug builds too.
    while bytes.ends_with(&[0; PAGE]) {
        bytes.truncate(bytes.len() - PAGE);
    }
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    bytes
}

/// Removes the zeros that the log was created with, which would take long to copy.
fn trim(log: &Path) {
    fs::write(log, read(log)).unwrap();
}

fn kept(dir: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.to_string_lossy().contains("torn-")).collect()
}

fn record(number: usize, index: usize, length: usize) -> Vec<u8> {
    let mut state = ((number as u64 + 1) << 32) + index as u64 + 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    // Every other commit has compressible values, since only long values are compressed.
    let mut record = match length >= PAGE && number.is_multiple_of(2) {
        true => (0..length / 8 + 1).flat_map(|_| next()).collect(),
        false => next().repeat(length / 8 + 1),
    };
    record.truncate(length);
    record
}

fn ops(number: usize, lengths: &[usize]) -> Vec<Op> {
    let append = |(index, length): (usize, &usize)| Op::Append {
        key: Key::eventlog(number as u64),
        seq: index as u64,
        value: record(number, index, *length),
    };
    lengths.iter().enumerate().map(append).collect()
}

fn check(store: &dyn Store, commits: &[Lengths]) {
    let mut number = 0;
    let mut visit = |job: crate::store::StoredJob| {
        let lengths = commits[number].iter().enumerate();
        let log: Vec<u8> =
            lengths.flat_map(|(index, length)| record(number, index, *length)).collect();
        assert!(job.id == number as u64 && job.get("eventlog") == Some(&log), "commit {number}");
        number += 1;
        ControlFlow::Continue(())
    };
    store.scan_jobs(&|_| true, &mut visit).unwrap();
    assert_eq!(number, commits.len());
}

fn lengths() -> impl Strategy<Value = Lengths> {
    prop_oneof![
        4 => proptest::collection::vec(1..200usize, 1..4),
        1 => proptest::collection::vec(1..200usize, 100..200),
        1 => proptest::collection::vec(3000..20_000usize, 1..3),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => lengths().prop_map(Step::Commit),
        1 => Just(Step::Reopen),
        1 => Just(Step::Flush),
        1 => Just(Step::Rotate),
        2 => (lengths(), any::<Index>(), any::<bool>())
            .prop_map(|(lengths, keep, zeros)| Step::Kill(lengths, keep, zeros)),
    ];
    proptest::collection::vec(step, 1..10)
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        any::<Index>().prop_map(Damage::Cut),
        any::<Index>().prop_map(Damage::ZerosFrom),
        proptest::collection::vec(any::<bool>(), 1..8).prop_map(Damage::ZeroPages),
        (any::<Index>(), proptest::collection::vec(prop_oneof![0..5u8, any::<u8>()], 1..99))
            .prop_map(|(at, garbage)| Damage::Garbage(at, garbage)),
        (any::<Index>(), 0..8u8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
    ]
}

/// The place of the engine's number in a commit. No checksum covers it.
const ENGINES_NUMBER: Range<usize> = 5..13;

/// Whether only the engine's number differs, which no power loss can cause, since it affects whole
/// sectors.
fn is_misnumbered(torn: &[u8], whole: &[u8], start: usize) -> bool {
    let number = start + ENGINES_NUMBER.start..start + ENGINES_NUMBER.end;
    let same_elsewhere = torn.get(..number.start) == Some(&whole[..number.start])
        && torn.get(number.end..) == Some(&whole[number.end..]);
    same_elsewhere && torn != whole
}

/// Opens a store whose last commit was torn while it was written.
fn open_torn(dir: &Path, start: usize, torn: &[u8], commits: &[Lengths]) {
    let (all, acknowledged) = (commits, &commits[..commits.len() - 1]);
    let log = active(dir);
    let store = EmbeddedStore::open(dir).unwrap();
    let whole = store.job_ids().unwrap().len() == all.len();
    let present = if whole { all } else { acknowledged };
    check(&store, present);
    if let Some(cut) = store.cut() {
        assert!(!whole);
        assert_eq!((&cut.file, cut.offset), (&log, start as u64));
        let bytes = fs::read(&cut.kept).unwrap();
        assert_eq!(bytes.len() as u64, cut.size);
        assert_eq!(bytes, torn[start..start + bytes.len()]);
        assert!(torn[start + bytes.len()..].iter().all(|byte| *byte == 0));
    }
    drop(store);
    for number in present.len()..present.len() + 2 {
        let store = EmbeddedStore::open(dir).unwrap();
        assert_eq!(store.cut(), None);
        store.commit(ops(number, &[10])).unwrap();
    }
    let present = [present, &[vec![10], vec![10]]].concat();
    check(&EmbeddedStore::open(dir).unwrap(), &present);
}

#[test]
fn a_store_that_has_filled_journals_is_never_cut() {
    let mut fixture = Fixture::new(&[]);
    while active(fixture.dir.path()).number() < 1 {
        // Just too short to be compressed.
        fixture.commit(&[PAGE - 1; 4000]);
        if fixture.commits.len().is_multiple_of(3) {
            fixture.store().flush_to_table();
            fixture.step(&Step::Reopen);
        }
    }
    fixture.step(&Step::Reopen);
    fixture.check_healthy();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_healthy_store_is_never_cut(steps in steps()) {
        let mut fixture = Fixture::new(&steps);
        fixture.step(&Step::Reopen);
        fixture.check_healthy();
    }

    #[test]
    fn a_torn_commit_is_cut_and_the_others_stay(
        steps in steps(),
        last in lengths(),
        damages in proptest::collection::vec(damage(), 6),
    ) {
        let mut fixture = Fixture::new(&steps);
        let (start, log) = fixture.unacknowledged(&last);
        fixture.commits.push(last);
        trim(&active(fixture.dir.path()));
        for damage in damages {
            let dir = tempfile::tempdir().unwrap();
            copy(fixture.dir.path(), dir.path());
            let mut torn = log.clone();
            damage.strike(&mut torn, start);
            fs::write(active(dir.path()), &torn).unwrap();
            if is_misnumbered(&torn, &log, start) {
                refused_or_whole(dir.path(), &active(dir.path()), &fixture.commits);
                continue;
            }
            open_torn(dir.path(), start, &torn, &fixture.commits);
        }
    }

    #[test]
    fn damaged_acknowledged_data_is_refused_with_its_place(
        steps in steps(),
        last in lengths(),
        strikes in proptest::collection::vec((any::<Index>(), damage(), any::<bool>()), 6),
    ) {
        let mut fixture = Fixture::new(&steps);
        let start = read(&active(fixture.dir.path())).len();
        fixture.commit(&last);
        fixture.close();
        trim(&active(fixture.dir.path()));
        for (which, damage, stale) in strikes {
            let dir = tempfile::tempdir().unwrap();
            copy(fixture.dir.path(), dir.path());
            let logs = logs(dir.path());
            let which = which.index(logs.len());
            let whole = read(&logs[which]);
            let mut struck = whole.clone();
            if whole.is_empty() {
                continue;
            }
            damage.strike(&mut struck, 0);
            if stale {
                // A power loss may reset the number of acknowledged commits, but loses no commit.
                fs::write(dir.path().join("acked"), format!("{:020}\n", 0)).unwrap();
                if which + 1 == logs.len() {
                    struck.resize(start, 0);
                    struck.extend(&whole[start..]);
                }
            }
            fs::write(&logs[which], &struck).unwrap();
            refused_or_whole(dir.path(), &logs[which], &fixture.commits);
        }
    }
}

/// No checksum covers the number, so only the numbers before and after it show the damage.
#[test]
fn a_flipped_bit_of_the_engines_number_loses_nothing() {
    let filled = [Step::Commit(vec![9]), Step::Flush, Step::Rotate];
    for steps in [&[][..], &filled] {
        let mut fixture = Fixture::new(steps);
        fixture.commit(&[1]);
        fixture.commit(&[2]);
        fixture.close();
        trim(&active(fixture.dir.path()));
        let whole = read(&active(fixture.dir.path()));
        let behind = |at: &usize| whole[..*at].ends_with(b"FJL\x03");
        for start in std::iter::once(0).chain((0..whole.len()).filter(behind)) {
            for bit in [0, 1, 2, 3, 7, 15, 31, 51, 61, 62, 63] {
                let dir = tempfile::tempdir().unwrap();
                copy(fixture.dir.path(), dir.path());
                let mut struck = whole.clone();
                struck[start + ENGINES_NUMBER.start + bit / 8] ^= 1 << (bit % 8);
                fs::write(active(dir.path()), &struck).unwrap();
                fs::write(dir.path().join("acked"), format!("{:020}\n", 0)).unwrap();
                refused_or_whole(dir.path(), &active(dir.path()), &fixture.commits);
            }
        }
    }
}

/// Checks that the store opens with all commits, or with an error that names the place.
fn refused_or_whole(dir: &Path, log: &Path, commits: &[Lengths]) {
    let before = read(log);
    match EmbeddedStore::open(dir) {
        Ok(store) => check(&store, commits),
        Err(err @ StoreError::Corrupt { .. }) => {
            let text = err.to_string();
            // A wrong number of a batch, which no checksum covers, is detected only at the batch after it,
            // which may be in a later write-ahead log.
            let here_or_later = logs(dir).into_iter().skip_while(|other| other != log);
            let mut places = here_or_later.map(|path| format!("{} at offset ", path.display()));
            assert!(before.is_empty() || places.any(|place| text.contains(&place)), "{text}");
            assert!(read(log) == before || !kept(dir).is_empty(), "what is refused stays");
        }
        // Cut at the end of a commit: there is no damaged place.
        Err(StoreError::Lost { .. }) => {}
        Err(err) => panic!("{err}"),
    }
}
