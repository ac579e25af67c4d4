//! Jobs through a whole manager: submitted over the socket, every event durable before it is acknowledged,
//! executed in simulation, until they are inactive. And the store alone, with the same changes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jobtap_core::host::Registry;
use serde_json::Value;

use super::connection::Submissions;
use super::cpu;
use super::error::BenchError;
use super::figures::Found;
use super::offline::{GROUP, Offline};
use super::process::{Manager, ManagerSetup};
use super::{CORES, cluster, jobspec};
use crate::daemon::store_ops;
use crate::store::{EmbeddedStore, Op, Store, coalesce};

/// The time of simulated execution in seconds.
const RUN_DURATION: f64 = 0.001;

/// Enough hosts that the manager limits the rate, and not the number of jobs that can run at a time: each job
/// holds its core for its run and two commits.
const HOSTS: u32 = 64;

/// The number of jobs whose changes are prepared before the store is timed.
const TOGETHER: u64 = 1000;

/// Threads that take less than this share of the manager's time are listed together.
const SMALL: f64 = 0.02;

fn hosts() -> Value {
    cluster(&format!("host[1-{HOSTS}]"))
}

/// Sends jobs through a fresh manager.
pub(super) fn measure(jobs: u64) -> Result<Found, BenchError> {
    let mut found = Found::default();
    let setup = ManagerSetup::with(hosts());
    let manager = Manager::start(&setup)?;
    let mut client = manager.connect()?;
    let submissions = Submissions::simulated(RUN_DURATION)?;
    let (begin, before, own) = (Instant::now(), manager.cpu()?, cpu::of_this_process());
    client.submit_all(&submissions, jobs)?;
    client.wait_inactive(jobs)?;
    let elapsed = begin.elapsed();
    let (used, own) = (manager.cpu()?.since(&before), cpu::of_this_process() - own);
    manager.end()?;

    let each = |seconds: f64| seconds * 1e6 / jobs.max(1) as f64;
    let rate = jobs as f64 / elapsed.as_secs_f64();
    let text = "from submission to inactive, simulated execution, each event durable";
    found.more("throughput.rate", jobs, rate, "jobs/s", text);
    found.less("throughput.time", jobs, each(elapsed.as_secs_f64()), "us/job", "the same as time");
    found.less("throughput.cpu", jobs, each(used.all), "us/job", "processor time of the manager");
    let mut rest = used.all;
    for (name, seconds) in &used.threads {
        if *seconds >= used.all * SMALL {
            rest -= seconds;
            let text = thread_text(name);
            found.less(&format!("throughput.cpu.{name}"), jobs, each(*seconds), "us/job", text);
        }
    }
    let text = "of that, all other threads";
    found.less("throughput.cpu.other", jobs, each(rest.max(0.0)), "us/job", text);
    let text = "processor time of the measuring client, not in the above";
    found.less("throughput.client", jobs, each(own.as_secs_f64()), "us/job", text);

    let alone = store_alone(jobs)?;
    let store_rate = jobs as f64 / alone.elapsed.as_secs_f64();
    let text = format!("the store alone: the same changes, {GROUP} in a commit");
    found.more("throughput.store.rate", jobs, store_rate, "jobs/s", &text);
    let text = "processor time of the store alone, all of its threads";
    found.less("throughput.store.cpu", jobs, each(alone.cpu.as_secs_f64()), "us/job", text);
    let text = "throughput.rate / throughput.store.rate";
    found.more("throughput.store.share", jobs, rate / store_rate, "", text);
    Ok(found)
}

fn thread_text(name: &str) -> &'static str {
    match name {
        "server" => "of that, the thread of the socket: decode, answer",
        "engine" => "of that, the engine's thread: plugins, engine, encode",
        "committer" => "of that, the committing thread: store, publish",
        "store" => "of that, the store's own threads",
        _ => "of that, threads of this name",
    }
}

struct StoreTime {
    elapsed: Duration,
    cpu: Duration,
}

/// Commits the changes of this many jobs to a store.
fn store_alone(jobs: u64) -> Result<StoreTime, BenchError> {
    let directory = tempfile::tempdir()?;
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(&directory.path().join("store"))?);
    let mut manager = Offline::new(hosts(), Registry::linked()?)?;
    let mut time = StoreTime { elapsed: Duration::ZERO, cpu: Duration::ZERO };
    let mut waiting: Vec<Op> = Vec::new();
    let mut commit = |ops: Vec<Op>| {
        // Not timed: the manager coalesces changes when it commits, but that isn't work of the store.
        let ops = coalesce(ops);
        let (begin, cpu) = (Instant::now(), cpu::of_this_process());
        store.commit(ops)?;
        time.elapsed += begin.elapsed();
        time.cpu += cpu::of_this_process() - cpu;
        Ok::<(), BenchError>(())
    };
    for number in 1..=jobs {
        let effects = manager.submit(jobspec(RUN_DURATION, 1, number)?)?;
        effects.writes.into_iter().try_for_each(|write| store_ops(write, &mut waiting))?;
        if number.is_multiple_of(TOGETHER) || number == jobs {
            let seconds = RUN_DURATION * (2 + TOGETHER / u64::from(CORES * HOSTS)) as f64;
            manager.pass(seconds, |effects| {
                for write in effects.writes {
                    store_ops(write, &mut waiting)?;
                }
                Ok(())
            })?;
            while waiting.len() >= GROUP {
                let rest = waiting.split_off(GROUP);
                commit(std::mem::replace(&mut waiting, rest))?;
            }
        }
    }
    commit(waiting)?;
    manager.expect("inactive", jobs)?;
    // The store's threads go on working after the last commit.
    let (begin, cpu) = (Instant::now(), cpu::of_this_process());
    drop(store);
    time.elapsed += begin.elapsed();
    time.cpu += cpu::of_this_process() - cpu;
    Ok(time)
}
