//! Measures the cost of distributing jobs over several shepherds. Run by hand, in release mode:
//! `cargo test --release -p jobtap-daemon exec::tests::sharing -- --ignored --nocapture`

use std::collections::VecDeque;

use super::*;

/// Jobs started in one round.
const JOBS: u64 = 1024;

/// The numbers of jobs per shepherd; the last is all jobs.
const SHARES: [u64; 5] = [1, 8, 32, 128, JOBS];

/// Jobs that run at once while memory is measured, or one share if that is more.
const HELD: u64 = 128;

/// Jobs that run at once while the rate is measured, however they are distributed.
const AT_ONCE: u64 = 64;

/// Rounds. All shares take turns in each, since the machine may be busy for part of the time.
const ROUNDS: usize = 5;

/// A shepherd with a state directory of its own, and its share of the jobs.
struct Flock {
    site: Site,
    manager: Manager,
    script: &'static str,
    /// Jobs handed to it, which are numbered from 1.
    started: u64,
}

impl Flock {
    fn new(script: &'static str) -> Self {
        let site = Site::new();
        let manager = site.manager();
        Self { site, manager, script, started: 0 }
    }

    /// Starts jobs until `jobs` were started.
    fn start(mut self, jobs: u64) -> Self {
        while self.started < jobs {
            self.next();
        }
        self
    }

    fn next(&mut self) {
        self.started += 1;
        let command = self.script.split(' ').map(str::to_owned).collect();
        self.manager.executor.start(StartJob { command, ..self.site.job(self.started, 1, "") });
    }

    /// Waits until `jobs` jobs have ended, starting those that are missing, and shuts the shepherd down.
    fn end(mut self, jobs: u64) {
        let mut left = jobs;
        while left > 0 {
            if let ExecEvent::Released { id, .. } = self.manager.next() {
                self.manager.executor.command(JobCommand::Ack { id });
                left -= 1;
                if self.started < jobs {
                    self.next();
                }
            }
        }
        self.manager.end();
    }

    /// The shepherd's share of memory, in bytes.
    fn weight(&self) -> u64 {
        let state = self.site.path("state").canonicalize().unwrap();
        let state = state.into_os_string().into_encoded_bytes();
        let is_ours = |process: &Path| {
            let words = fs::read(process.join("cmdline")).unwrap_or_default();
            words.split(|byte| *byte == 0).any(|word| word == state)
        };
        let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
        let process = processes.into_iter().find(|process| is_ours(process)).unwrap();
        let text = fs::read_to_string(process.join("smaps_rollup")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
    }
}

/// `true` jobs per second.
fn rate(share: u64) -> f64 {
    let begin = Instant::now();
    let mut at_work = VecDeque::new();
    for _ in 0..JOBS / share {
        at_work.push_back(Flock::new("true").start(share.min(AT_ONCE)));
        if at_work.len() as u64 * share >= AT_ONCE {
            at_work.pop_front().unwrap().end(share);
        }
    }
    at_work.into_iter().for_each(|flock| flock.end(share));
    JOBS as f64 / begin.elapsed().as_secs_f64()
}

/// Memory of the shepherds per running job, in KiB.
fn weight(share: u64) -> f64 {
    let new = |_| Flock::new("sleep 600").start(share);
    let flocks: Vec<Flock> = (0..HELD.max(share) / share).map(new).collect();
    for flock in &flocks {
        (0..share).for_each(|_| while !has_started(&flock.manager.next()) {});
    }
    let total: u64 = flocks.iter().map(Flock::weight).sum();
    for flock in flocks {
        (1..=share).for_each(|id| flock.manager.cancel(id, Signal::TERM));
        flock.end(share);
    }
    total as f64 / 1024.0 / HELD.max(share) as f64
}

#[test]
#[ignore = "a measurement"]
fn the_cost_of_a_shepherd_per_job() {
    let mut rates = SHARES.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for (share, rates) in SHARES.iter().zip(&mut rates) {
            rates.push(rate(*share));
        }
    }
    for (share, mut rates) in SHARES.into_iter().zip(rates) {
        rates.sort_by(f64::total_cmp);
        let (low, middle, high) = (rates[0], rates[ROUNDS / 2], rates[ROUNDS - 1]);
        let weight = weight(share);
        println!(
            "{share:>5} jobs a shepherd: {middle:.0} jobs/s ({low:.0} to {high:.0}), {weight:.0} KiB a job"
        );
    }
}
