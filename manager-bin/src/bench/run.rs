//! Jobs that run `/bin/true` through the shepherd, and the same program started and waited for without a manager,
//! in turns.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use jobtap_core::jobspec::JobspecBuilder;

use super::connection::Submissions;
use super::error::BenchError;
use super::figures::{Found, median};
use super::one_host;
use super::process::{Manager, ManagerSetup};

/// The program.
const PROGRAM: &str = "/bin/true";

/// How many times the two take turns.
const TURNS: u64 = 5;

/// Runs the measurement. Each turn has its share of the jobs.
pub(super) fn measure(jobs: u64) -> Result<Found, BenchError> {
    let setup = ManagerSetup::with(one_host());
    let manager = Manager::start(&setup)?;
    let mut client = manager.connect()?;
    let submissions =
        Submissions::from_jobspec(JobspecBuilder::new([PROGRAM]).cwd("/").to_value())?;
    let each = jobs.div_ceil(TURNS);
    let at_once = std::thread::available_parallelism().map_or(1, usize::from);
    let (mut bare, mut parallel, mut run) = (Vec::new(), Vec::new(), Vec::new());
    let before = manager.cpu()?;
    for turn in 1..=TURNS {
        bare.push(rate(each, spawn_and_wait(each, 1)?));
        let begin = Instant::now();
        client.submit_all(&submissions, each)?;
        client.wait_inactive(each * turn)?;
        run.push(rate(each, begin.elapsed()));
        parallel.push(rate(each, spawn_and_wait(each, at_once)?));
    }
    let used = manager.cpu()?.since(&before);
    manager.end()?;

    let shares =
        |bare: &[f64]| -> Vec<f64> { run.iter().zip(bare).map(|(run, bare)| run / bare).collect() };
    let jobs = each * TURNS;
    let mut found = Found::default();
    let text = "jobs that run /bin/true, from submission to inactive, each event durable";
    found.more("run.rate", jobs, median(&run), "jobs/s", text);
    let text = "/bin/true started and waited for, one after the other, without a manager";
    found.more("run.bare.rate", jobs, median(&bare), "1/s", text);
    found.more("run.bare.share", jobs, median(&shares(&bare)), "", "run.rate / run.bare.rate");
    let text = format!("the same, {at_once} at once: as many as there are processors");
    found.more("run.parallel.rate", jobs, median(&parallel), "1/s", &text);
    let text = "run.rate / run.parallel.rate";
    found.more("run.parallel.share", jobs, median(&shares(&parallel)), "", text);
    let cpu = used.all * 1e6 / jobs as f64;
    let text = "processor time of the manager without its shepherd";
    found.less("run.cpu", jobs, cpu, "us/job", text);
    Ok(found)
}

fn rate(jobs: u64, elapsed: Duration) -> f64 {
    jobs as f64 / elapsed.as_secs_f64()
}

/// Runs the program this many times, at most `at_once` at the same time, and waits until all have exited.
fn spawn_and_wait(times: u64, at_once: usize) -> Result<Duration, BenchError> {
    let mut command = Command::new(PROGRAM);
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::null());
    let mut running = std::collections::VecDeque::new();
    let begin = Instant::now();
    for _ in 0..times {
        running.push_back(command.spawn()?);
        if running.len() >= at_once
            && let Some(mut first) = running.pop_front()
        {
            first.wait()?;
        }
    }
    for mut child in running {
        child.wait()?;
    }
    Ok(begin.elapsed())
}
