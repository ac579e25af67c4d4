//! Random faults of nodes, their connections, the manager and the launcher while jobs run: every job runs at most once on
//! each of its nodes, every acknowledged job has an end, and no process is left.
//!
//! `FAULTS=300 cargo test -p jobtap-tests --test nodes campaign -- --nocapture` runs a long one; `SEED` repeats the
//! faults of an earlier run.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use jobtap_tests::chance::{Random, number};
use jobtap_tests::leftovers::{all_shepherds, processes_with};
use jobtap_tests::nodes::Nodes;
use jobtap_tests::{send, until};

/// The number of faults unless `FAULTS` sets another.
const FEW: u64 = 8;

/// The number of faults in the life of one instance.
const IN_ONE_LIFE: u64 = 12;

/// The size of an instance.
const SIZE: u32 = 4;

/// How long a node may be away, in seconds.
const GRACE: u64 = 2;

/// How long the jobs may take to end, once there are no more faults.
const LONGEST: Duration = Duration::from_secs(120);

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    ManagerKilled,
    ManagerStopped,
    /// A shepherd or its forker, on any node.
    ShepherdKilled,
    /// For less than the time after which a node is lost.
    NodeStoppedShortly,
    /// For longer.
    NodeStopped,
    CableCutShortly,
    CableCut,
    CableHangs,
    /// With all of its jobs, for good. This happens once in a life.
    NodeKilled,
}

impl Fault {
    const EACH: [Self; 9] = [
        Self::ManagerKilled,
        Self::ManagerStopped,
        Self::ShepherdKilled,
        Self::NodeStoppedShortly,
        Self::NodeStopped,
        Self::CableCutShortly,
        Self::CableCut,
        Self::CableHangs,
        Self::NodeKilled,
    ];
}

/// A submission that goes on during a fault, and writes the ids that it has received.
struct Submission(Child);

impl Submission {
    fn new(nodes: &Nodes, ids: &File, runs: &Path, random: &mut Random) -> Self {
        let (size, pause) =
            (random.one_of(&["1", "1", "2", "3"]), random.one_of(&["0", "0.1", "1"]));
        let runs = runs.display();
        let script = format!("echo $FLUX_JOB_ID $FLUX_TASK_RANK >>{runs}; sleep {pause}");
        let sizes = [format!("-N{size}"), format!("-n{size}")];
        let mut submit =
            nodes.command(&["submit", "--cc=1-4", &sizes[0], &sizes[1], "sh", "-c", &script]);
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

/// One instance, from its start to its end.
struct Life<'a> {
    nodes: Nodes,
    random: &'a mut Random,
    /// The rank of the node that was killed.
    dead: Option<u32>,
    happened: &'a mut BTreeMap<Fault, u32>,
}

impl Life<'_> {
    /// A node that still runs, and isn't the manager's own.
    fn any_node(&mut self) -> u32 {
        let dead = self.dead;
        let alive: Vec<u32> = (1..SIZE).filter(|rank| Some(*rank) != dead).collect();
        self.random.one_of(&alive)
    }

    fn suffer(&mut self) {
        let mut fault = self.random.one_of(&Fault::EACH);
        if fault == Fault::NodeKilled && self.dead.is_some() {
            fault = Fault::ManagerKilled;
        }
        *self.happened.entry(fault).or_insert(0) += 1;
        let rank = self.any_node();
        let shortly = Duration::from_millis(100 + self.random.below(900));
        let lost =
            Duration::from_secs(GRACE) + Duration::from_millis(1500 + self.random.below(1000));
        let stop = |nodes: &Nodes, rank: u32, time: Duration| {
            nodes.signal(rank, "STOP");
            sleep(time);
            nodes.signal(rank, "CONT");
        };
        match fault {
            Fault::ManagerKilled => self.nodes.restart_manager(),
            Fault::ManagerStopped => stop(&self.nodes, 0, shortly * 3),
            Fault::ShepherdKilled => {
                let all = all_shepherds(self.nodes.directory());
                if !all.is_empty() {
                    send("KILL", self.random.one_of(&all));
                }
            }
            Fault::NodeStoppedShortly => stop(&self.nodes, rank, shortly),
            Fault::NodeStopped => stop(&self.nodes, rank, lost),
            Fault::CableCutShortly | Fault::CableCut => {
                self.nodes.cable(rank).cut();
                sleep(if fault == Fault::CableCut { lost } else { shortly });
                self.nodes.cable(rank).mend();
            }
            Fault::CableHangs => {
                self.nodes.cable(rank).hang();
                sleep(shortly * 3);
                self.nodes.cable(rank).mend();
            }
            Fault::NodeKilled => {
                self.nodes.kill(rank);
                self.dead = Some(rank);
            }
        }
    }

    /// Lets all nodes take jobs that are there.
    fn undrain(&self) {
        let drained = self.nodes.jobtap("resource drain -no {ranks}").stdout;
        for ranks in drained.lines() {
            let _ = self.nodes.jobtap(&format!("resource undrain {ranks}"));
        }
    }

    /// Waits until all jobs have ended, and compares what they say with what ran.
    /// When the manager `is_alone`, jobs that want more nodes are canceled.
    fn account(&self, ids: &Path, runs: &Path, is_alone: bool) -> (usize, usize) {
        let begun = Instant::now();
        loop {
            self.undrain();
            let active = self.nodes.jobtap("jobs -no {id}|{status_abbrev}");
            if active.code == 0 && active.stdout.trim().is_empty() {
                break;
            }
            assert!(begun.elapsed() < LONGEST, "jobs have no end: {active:?}");
            if is_alone && !active.stdout.contains("|R") && !active.stdout.contains("|C") {
                let _ = self.nodes.jobtap("cancel --all -q --states=pending");
            }
            sleep(Duration::from_millis(200));
        }
        let listing = self.nodes.args(&["jobs", "-a", "-c0", "-no", "{id} {ntasks} {result}"]).ok();
        let mut ran: BTreeMap<(String, String), u32> = BTreeMap::new();
        for line in fs::read_to_string(runs).unwrap_or_default().lines() {
            let (id, task) = line.split_once(' ').unwrap();
            *ran.entry((id.to_owned(), task.to_owned())).or_default() += 1;
        }
        let twice: Vec<_> = ran.iter().filter(|(_, count)| **count > 1).collect();
        assert!(twice.is_empty(), "tasks ran twice: {twice:?}");
        let mut results = BTreeMap::new();
        for line in listing.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            results.insert(words[0], (words[1].parse::<u32>().unwrap(), words[2]));
        }
        let (mut acknowledged, mut failed) = (0, 0);
        for id in fs::read_to_string(ids).unwrap().lines() {
            acknowledged += 1;
            let Some((ntasks, result)) = results.get(id).copied() else {
                panic!("{id} was acknowledged and isn't known");
            };
            let tasks =
                (0..ntasks).filter(|task| ran.contains_key(&(id.to_owned(), task.to_string())));
            match result {
                "COMPLETED" => assert_eq!(tasks.count(), usize::try_from(ntasks).unwrap(), "{id}"),
                "FAILED" => {
                    failed += 1;
                    let log = self.nodes.jobtap(&format!("job eventlog {id}")).ok();
                    assert!(log.contains(" exception "), "{id} failed without a reason: {log}");
                }
                "CANCELED" if is_alone => assert_eq!(tasks.count(), 0, "{id}"),
                other => panic!("{id} has ended as {other}"),
            }
        }
        (acknowledged, failed)
    }
}

/// Nothing of an instance is left.
fn is_gone(directory: &Path) -> bool {
    processes_with(directory).is_empty()
}

#[test]
fn faults_make_no_job_run_twice_or_vanish_and_leave_no_process() {
    let faults = number("FAULTS").unwrap_or(FEW);
    let mut random = Random::from_seed();
    let (mut happened, mut left) = (BTreeMap::new(), faults);
    let begun = Instant::now();
    let (mut acknowledged, mut failed, mut aborted) = (0, 0, 0);
    while left > 0 {
        let nodes = Nodes::start_with(SIZE, &format!("{GRACE}s"), &[]);
        let directory = nodes.directory().to_owned();
        let (runs, ids) = (directory.join("runs"), directory.join("ids"));
        let told = File::create(&ids).unwrap();
        let mut life = Life { nodes, random: &mut random, dead: None, happened: &mut happened };
        let mut faults_in_life = 0;
        // A restart waits for a dead node each time, so that a life soon ends then.
        let mut lasts = left.min(IN_ONE_LIFE);
        while faults_in_life < lasts {
            faults_in_life += 1;
            if life.dead.is_some() {
                lasts = lasts.min(faults_in_life + 1);
            }
            let submission = Submission::new(&life.nodes, &told, &runs, life.random);
            life.random.pause(300);
            life.suffer();
            let mut submission = submission;
            let begun = Instant::now();
            // Cut off by the end of a manager, it ends; else it is done.
            while submission.0.try_wait().unwrap().is_none() && begun.elapsed().as_secs() < 20 {
                sleep(Duration::from_millis(20));
            }
            life.undrain();
        }
        left -= faults_in_life;
        let is_aborted = life.random.below(3) == 0;
        if is_aborted {
            // The launcher gives up, and all that it has started is killed. The next manager is alone.
            aborted += 1;
            (0..SIZE).rev().for_each(|rank| life.nodes.kill(rank));
            until("the shepherds of the other nodes are gone", || {
                let state = directory.join("state");
                let all = all_shepherds(&directory);
                all.len() == all_shepherds(&state).len()
            });
            life.nodes.restart_manager();
        }
        let (told, lost) = life.account(&ids, &runs, is_aborted);
        println!("{left} faults are left after {:.0} s", begun.elapsed().as_secs_f64());
        acknowledged += told;
        failed += lost;
        let _ = life.nodes.end();
        until("no process is left", || is_gone(&directory));
    }
    println!(
        "{acknowledged} acknowledged jobs, {failed} failed with a reason; {aborted} launchers killed; {happened:?}"
    );
    assert!(acknowledged > 0);
}
