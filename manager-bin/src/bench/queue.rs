//! A long queue in the engine: the cost of asking for all priorities again, and of an event on a large
//! cluster under EASY.

use std::time::{Duration, Instant};

use jobtap_core::engine::{RaisedException, Request};
use jobtap_core::host::Registry;
use jobtap_core::job::JobId;
use jobtap_core::jobspec::{Jobspec, JobspecBuilder};
use serde_json::json;

use super::error::BenchError;
use super::figures::{Found, median, quantile};
use super::offline::{Offline, request};
use super::plugins::{self, ASK};
use super::{CORES, cluster, jobspec, one_host};

/// How often all priorities are asked for.
const ROUNDS: usize = 5;

/// The nodes of the cluster.
const NODES: u64 = 10_000;

/// How many events of each kind are measured.
const EVENTS: usize = 40;

/// Asks the plugins for the priorities of all pending jobs.
pub(super) fn reprioritize(jobs: u64) -> Result<Found, BenchError> {
    let mut manager = Offline::new(one_host(), plugins::linked_and_priorities()?)?;
    // This job has all cores, so that all others wait.
    manager.submit(jobspec(0.0, u64::from(CORES), 0)?)?;
    for number in 1..=jobs {
        manager.submit(jobspec(60.0, 1, number)?)?;
    }
    manager.expect("sched", jobs)?;
    let mut ask = |change: bool| {
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let payload = json!(change);
            let topic = ASK.to_owned();
            let input = request(Request::Service { topic, payload, streaming: false });
            let begin = Instant::now();
            let effects = manager.handle(input)?;
            times.push(begin.elapsed().as_secs_f64() * 1e3);
            drop(effects);
        }
        Ok::<_, BenchError>(median(&times))
    };
    let mut found = Found::default();
    let text = "all pending jobs asked for their priorities, which stay the same";
    found.less("reprioritize.same", jobs, ask(false)?, "ms", text);
    let text = "each gets another one: an event for each job, and another order";
    found.less("reprioritize.changed", jobs, ask(true)?, "ms", text);
    Ok(found)
}

/// Fills a cluster and its queue, then measures single events.
pub(super) fn schedule(jobs: u64) -> Result<Found, BenchError> {
    let config = cluster(&format!("n[0-{}]", NODES - 1));
    let mut manager = Offline::new(config, Registry::linked()?)?;
    let mut running = Vec::new();
    let (mut free, mut number) = (NODES, 0);
    while free > 0 {
        number += 1;
        let nodes = size(number).min(free).min(64);
        free -= nodes;
        running.push(manager.submit_one(parallel(nodes, number)?)?);
    }
    manager.expect("run", running.len() as u64)?;
    // The first in the queue needs the whole cluster, so that the others are candidates for backfill.
    manager.submit(parallel(NODES, 1)?)?;
    for number in 1..jobs {
        manager.submit(parallel(size(number), number)?)?;
    }
    manager.expect("sched", jobs.max(1))?;

    let mut released = Vec::new();
    for id in running.iter().take(EVENTS) {
        released.push(elapsed(&mut manager, |manager| cancel(manager, *id))?);
    }
    let mut submitted = Vec::new();
    for number in 0..EVENTS as u64 {
        let job = parallel(size(number), number)?;
        submitted.push(elapsed(&mut manager, |manager| manager.submit(job).map(drop))?);
    }
    let mut found = Found::default();
    let text = format!("EASY, {NODES} nodes: a running job ends, others take its nodes");
    found.less("schedule.release.p50", jobs, median(&released), "ms", &text);
    found.less("schedule.release.p99", jobs, quantile(&mut released, 0.99), "ms", "");
    let text = "a submission that can't start and changes nothing for others";
    found.less("schedule.submit", jobs, median(&submitted), "ms", text);
    Ok(found)
}

fn elapsed(
    manager: &mut Offline,
    event: impl FnOnce(&mut Offline) -> Result<(), BenchError>,
) -> Result<f64, BenchError> {
    let begin = Instant::now();
    event(manager)?;
    Ok(Duration::as_secs_f64(&begin.elapsed()) * 1e3)
}

/// Cancels a running job, which is simulated, and lets time pass for what follows at once.
fn cancel(manager: &mut Offline, id: JobId) -> Result<(), BenchError> {
    let exception = RaisedException::new("cancel", 0, "");
    manager.handle(request(Request::Raise { id, exception }))?;
    manager.pass(0.001, |_| Ok(()))
}

/// The number of nodes of a job, which is mostly small.
fn size(number: u64) -> u64 {
    const SIZES: [u64; 10] = [1, 1, 1, 2, 2, 4, 8, 16, 64, 256];
    let index = usize::try_from(plugins::mixed(number)).unwrap_or_default() % SIZES.len();
    SIZES.get(index).copied().unwrap_or(1)
}

/// A job of whole nodes with a time limit of 10 minutes to a day, which runs until it is canceled.
fn parallel(nodes: u64, number: u64) -> Result<Jobspec, BenchError> {
    let minutes = 10 + plugins::mixed(number + 1_000_000) % 1430;
    let builder = JobspecBuilder::new(["app".to_owned(), format!("--input=case-{number}.dat")])
        .nodes(nodes)
        .ntasks(nodes)
        .cores_per_task(u64::from(CORES))
        .duration(f64::from(minutes) * 60.0)
        .cwd("/home/user/project/runs")
        .attribute("system.exec", json!({ "test": { "run_duration": "0s" } }))?;
    Ok(builder.build()?)
}
