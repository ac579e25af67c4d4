//! Jobs on many nodes, which are played by another process: their shepherds report at once, so that what is measured is
//! the manager and its channels.

use std::time::{Duration, Instant};

use jobtap_core::eventlog::EventEntry;
use jobtap_core::jobspec::JobspecBuilder;
use serde_json::{Value, json};

use super::connection::{Connection, Submissions};
use super::error::BenchError;
use super::figures::{Found, median};
use super::process::{Manager, ManagerSetup};
use crate::rpc::service::Service;
use crate::rpc::services::job_info::Lookup;
use crate::rpc::services::job_list::List;

/// The jobs of one task in one turn.
const SMALL: u64 = 100_000;

/// The jobs over all nodes.
const LARGE: u64 = 9;

/// How long the idle manager is looked at.
const IDLE: Duration = Duration::from_secs(5);

/// Runs the measurement with so many nodes, and with one beside it.
pub(super) fn measure(nodes: u64) -> Result<Found, BenchError> {
    let size = u32::try_from(nodes).unwrap_or(u32::MAX);
    let small = SMALL.min(nodes.saturating_mul(100));
    let one = of_nodes(1, small)?;
    let many = of_nodes(size, small)?;
    let mut found = Found::default();
    let text = "jobs of one task over these nodes, each event durable";
    found.more("nodes.rate", nodes, many.rate, "jobs/s", text);
    let text = "the same rate / that with a single node";
    found.more("nodes.rate.share", nodes, many.rate / one.rate, "", text);
    let text = "a job over all of these nodes, from submission to inactive";
    found.less("nodes.job", nodes, many.job * 1e3, "ms", text);
    let text = "the same, from its resources to the start of all of its parts";
    found.less("nodes.start", nodes, many.start * 1e3, "ms", text);
    let memory = (many.memory as f64 - one.memory as f64) / nodes.max(2).saturating_sub(1) as f64;
    found.less("nodes.memory", nodes, memory / 1e3, "kB/node", "memory of the manager");
    let text = "processor time of the manager while nothing happens, of one processor";
    found.less("nodes.idle", nodes, many.idle * 1e2, "%", text);
    Ok(found)
}

/// What was seen with some nodes.
struct Seen {
    /// Jobs of one task in a second.
    rate: f64,
    /// Seconds of a job over all nodes.
    job: f64,
    /// Seconds of it from `alloc` to `start`.
    start: f64,
    /// Bytes.
    memory: u64,
    /// The share of a processor.
    idle: f64,
}

fn of_nodes(nodes: u32, small: u64) -> Result<Seen, BenchError> {
    // The manager's own node is left to it.
    let config = json!({ "resource": { "exclude": "0" } });
    let setup = ManagerSetup { played: nodes, ..ManagerSetup::with(config) };
    let manager = Manager::start(&setup)?;
    let memory = manager.resident()?;
    let mut client = manager.connect()?;
    let (begin, before) = (Instant::now(), manager.cpu()?);
    std::thread::sleep(IDLE);
    let idle = manager.cpu()?.since(&before).all / begin.elapsed().as_secs_f64();

    let small_jobs = JobspecBuilder::new(["app"]).cwd("/").to_value();
    let begin = Instant::now();
    client.submit_all(&Submissions::from_jobspec(small_jobs)?, small)?;
    client.wait_inactive(small)?;
    let rate = small as f64 / begin.elapsed().as_secs_f64();

    let large = JobspecBuilder::new(["app"]).cwd("/").nodes(nodes.into()).ntasks(nodes.into());
    let large = Submissions::from_jobspec(large.to_value())?;
    let mut times = Vec::new();
    for number in 1..=LARGE {
        let begin = Instant::now();
        client.submit_all(&large, 1)?;
        client.wait_inactive(small + number)?;
        times.push(begin.elapsed().as_secs_f64());
    }
    let start = median(&starts(&mut client)?);
    manager.end()?;
    Ok(Seen { rate, job: median(&times), start, memory, idle })
}

/// The seconds from `alloc` to `start` of the jobs over all nodes, which are the last ones.
fn starts(client: &mut Connection) -> Result<Vec<f64>, BenchError> {
    let listed =
        client.ask(List::TOPIC, json!({ "max_entries": LARGE, "attrs": ["t_inactive"] }))?;
    let jobs = listed.get("jobs").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut starts = Vec::new();
    for job in &jobs {
        let found =
            client.ask(Lookup::TOPIC, json!({ "id": job.get("id"), "keys": ["eventlog"] }))?;
        let log = found.get("eventlog").and_then(Value::as_str).unwrap_or_default();
        let entries = log.lines().filter_map(|line| serde_json::from_str::<EventEntry>(line).ok());
        let entries: Vec<EventEntry> = entries.collect();
        let time = |name: &'static str| {
            let entry = entries.iter().find(|entry| entry.name == name);
            entry.map(|entry| entry.timestamp.as_secs()).ok_or(BenchError::NoEvent(name))
        };
        starts.push(time("start")? - time("alloc")?);
    }
    Ok(starts)
}
