//! A campaign of `kill -9` against manager, shepherd and both: every job runs at most once, and every
//! acknowledged one has an end on record.
//!
//! `KILLS=200 cargo test -p jobtap-tests --test kill_campaign -- --nocapture` for a long one; `SEED`
//! repeats the moments of an earlier one.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use jobtap_tests::{Manager, jobtap, run, temporary, until};

/// Kills in a campaign that nobody asks for more.
const FEW: u32 = 9;

/// Jobs of one submission.
const JOBS: u32 = 12;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

/// Random numbers that can be had again (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        for shift in [13, -7, 17] {
            self.0 ^= if shift > 0 { self.0 << shift } else { self.0 >> -shift };
        }
        self.0 % limit
    }

    fn pause(&mut self, milliseconds: u64) {
        sleep(Duration::from_millis(self.below(milliseconds)));
    }
}

/// A submission that goes on while its manager is killed; it writes the ids that it is told.
struct Submission(Child);

impl Submission {
    fn new(m: &Manager, ids: &File, runs: &Path, pause: &str) -> Self {
        let script = format!("echo $FLUX_JOB_ID >>{}; sleep {pause}", runs.display());
        let mut submit = m.command(["submit", &format!("--cc=1-{JOBS}"), "sh", "-c", &script]);
        let ids = ids.try_clone().unwrap();
        submit.stdin(Stdio::null()).stdout(ids).stderr(Stdio::null());
        Self(submit.spawn().unwrap())
    }
}

impl Drop for Submission {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn signal(pid: u32, name: &str) {
    run(Command::new("kill").args(["-s", name, &pid.to_string()]));
}

/// The shepherd of a state directory.
fn shepherd(statedir: &Path) -> Option<u32> {
    let statedir = statedir.canonicalize().unwrap();
    let is_ours = |process: &Path| {
        let words = fs::read(process.join("cmdline")).unwrap_or_default();
        let mut words = words.split(|byte| *byte == 0);
        words.any(|word| word == b"__shepherd")
            && words.next() == Some(statedir.as_os_str().as_encoded_bytes())
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut numbered =
        processes.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry)));
    numbered.find(|(_, entry)| is_ours(&entry.path())).map(|(pid, _)| pid)
}

/// How often each job ran.
fn count(runs: &Path) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for id in fs::read_to_string(runs).unwrap_or_default().lines() {
        *counts.entry(id.to_owned()).or_default() += 1;
    }
    counts
}

#[test]
fn whatever_is_killed_no_job_runs_twice_and_none_is_lost_in_silence() {
    let kills = number("KILLS").map_or(FEW, |kills| kills.try_into().unwrap());
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seed = number("SEED").unwrap_or(clock.subsec_nanos().into()).max(1);
    println!("SEED={seed}");
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let directory = temporary();
    let (runs, ids) = (directory.path().join("runs"), directory.path().join("ids"));
    let told = File::create(&ids).unwrap();
    let mut m = Manager::start(jobtap());
    let mut killed = BTreeMap::new();
    for _ in 0..kills {
        let pause = ["0", "0.05", "0.3"][usize::try_from(random.below(3)).unwrap()];
        let submission = Submission::new(&m, &told, &runs, pause);
        random.pause(700);
        let kind = ["manager", "shepherd", "both"][usize::try_from(random.below(3)).unwrap()];
        *killed.entry(kind).or_insert(0) += 1;
        let shepherd = shepherd(&m.statedir).filter(|_| kind != "manager");
        if kind == "both" {
            // What the shepherd does from now on the manager has no time to record.
            signal(m.pid(), "STOP");
            random.pause(30);
        }
        if let Some(shepherd) = shepherd {
            signal(shepherd, "KILL");
        }
        if kind != "shepherd" {
            m.kill();
            drop(submission);
            m.start_again();
        } else {
            let mut submission = submission;
            until("the submission ends", || submission.0.try_wait().unwrap().is_some());
        }
        // The node of jobs that were lost is drained.
        m.jobtap("resource undrain 0");
    }
    until("all jobs have ended", || {
        m.jobtap("resource undrain 0");
        m.jobtap("jobs -no {id}").ok().is_empty()
    });
    let listing = m.jobtap_args(&["jobs", "-a", "-c0", "-no", "{id} {result}"]).ok();
    let results: BTreeMap<&str, &str> =
        listing.lines().map(|line| line.split_once(' ').unwrap()).collect();
    let ids = fs::read_to_string(ids).unwrap();
    let counts = count(&runs);
    let twice: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
    let mut lost = 0;
    for id in ids.lines() {
        let ran = counts.get(id).copied().unwrap_or(0);
        match results.get(id).copied() {
            Some("COMPLETED") => assert_eq!(ran, 1, "{id} completed"),
            Some("FAILED") => {
                let log = m.jobtap(&format!("job eventlog {id}")).ok();
                assert!(log.contains("note=\"job is lost: "), "{id} failed otherwise: {log}");
                lost += 1;
            }
            other => panic!("{id} was acknowledged and has no end: {other:?}"),
        }
    }
    println!(
        "{} acknowledged jobs, {} that ran; killed: {killed:?}; twice: {}; lost with an exception: \
         {lost}",
        ids.lines().count(),
        counts.len(),
        twice.len()
    );
    assert!(twice.is_empty(), "{twice:?}");
    assert!(ids.lines().count() > 0);
}
