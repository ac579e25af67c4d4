//! A series of `kill -9` of the manager, the shepherd, its forker or several of them: every job runs at most once, and
//! the eventlog of every acknowledged job records how it ended.
//!
//! `KILLS=200 cargo test -p jobtap-tests --test restart kill_campaign -- --nocapture` runs a long one; `SEED`
//! repeats the moments of an earlier run.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use jobtap_tests::chance::{Random, number};
use jobtap_tests::leftovers::{parent, shepherds_of};
use jobtap_tests::{Manager, jobtap, run, temporary, until};

/// The number of kills unless `KILLS` sets another.
const FEW: u32 = 9;

/// The number of jobs in one submission.
const JOBS: u32 = 12;

/// A submission that goes on while its manager is killed, and writes the ids that it has received.
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

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    Manager,
    Shepherd,
    Forker,
    /// The shepherd and its forker.
    Both,
    ManagerAndShepherd,
    All,
}

impl Victim {
    const EACH: [Self; 6] = [
        Self::Manager,
        Self::Shepherd,
        Self::Forker,
        Self::Both,
        Self::ManagerAndShepherd,
        Self::All,
    ];

    fn is_manager(self) -> bool {
        matches!(self, Self::Manager | Self::ManagerAndShepherd | Self::All)
    }

    /// Finds the shepherd of a state directory and its forker, and returns those of them that are killed.
    fn find_processes(self, statedir: &Path) -> Vec<u32> {
        let all = shepherds_of(statedir);
        let is_child = |pid: u32| parent(pid).is_some_and(|parent| all.contains(&parent));
        // Until the process of a task executes its program, it looks like the forker that has started it.
        let is_task = |pid: &u32| is_child(*pid) && parent(*pid).is_some_and(is_child);
        let both: Vec<u32> = all.iter().copied().filter(|pid| !is_task(pid)).collect();
        let is_forker = |pid: &u32| is_child(*pid);
        let wanted = |pid: &u32| match self {
            Self::Manager => false,
            Self::Shepherd | Self::ManagerAndShepherd => !is_forker(pid),
            Self::Forker => is_forker(pid),
            Self::Both | Self::All => true,
        };
        both.into_iter().filter(wanted).collect()
    }
}

/// Counts how often each job ran.
fn count(runs: &Path) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for id in fs::read_to_string(runs).unwrap_or_default().lines() {
        *counts.entry(id.to_owned()).or_default() += 1;
    }
    counts
}

#[test]
fn kills_make_no_job_run_twice_or_vanish() {
    let kills = number("KILLS").map_or(FEW, |kills| kills.try_into().unwrap());
    let mut random = Random::from_seed();
    let directory = temporary();
    let (runs, ids) = (directory.path().join("runs"), directory.path().join("ids"));
    let told = File::create(&ids).unwrap();
    let mut m = Manager::start(jobtap());
    let mut killed = BTreeMap::new();
    for _ in 0..kills {
        // Many are short, so that the shepherd begins jobs by itself.
        let pause = random.one_of(&["0", "0", "0.05", "0.3"]);
        let submission = Submission::new(&m, &told, &runs, pause);
        random.pause(700);
        let victim = random.one_of(&Victim::EACH);
        *killed.entry(victim).or_insert(0) += 1;
        let pids = victim.find_processes(&m.statedir);
        if victim.is_manager() && victim != Victim::Manager {
            // A stopped manager can't record what the shepherd does until both are killed.
            signal(m.pid(), "STOP");
            random.pause(30);
        }
        // They are stopped first, so that none of them can take the place of another.
        pids.iter().for_each(|pid| signal(*pid, "STOP"));
        pids.iter().for_each(|pid| signal(*pid, "KILL"));
        if victim.is_manager() {
            m.kill();
            drop(submission);
            m.start_again();
        } else {
            let mut submission = submission;
            until("the submission ends", || submission.0.try_wait().unwrap().is_some());
        }
    }
    until("all jobs have ended", || m.jobtap("jobs -no {id}").ok().is_empty());
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
                // Of a task that was perhaps started, nobody can say whether it was.
                let perhaps = log.contains("the forker has died while it started it");
                let is_lost = log.contains("note=\"job is lost: ") || perhaps;
                assert!(is_lost, "{id} failed otherwise: {log}");
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
