//! The cost of calling plugins: typed handlers in the engine, and a Lua script at submission.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use jobtap_core::engine::{Request, ShadowRequest};
use jobtap_core::host::{Registry, Ticks};
use jobtap_core::job::JobId;
use jobtap_core::topic::TopicId;
use serde_json::{Value, json};

use super::connection::Submissions;
use super::error::BenchError;
use super::figures::{Found, median};
use super::offline::{Offline, request};
use super::plugins::{self, STACK};
use super::process::{Manager, ManagerSetup};
use super::{document, jobspec, one_host};
use crate::daemon::now;

/// The number of samples, each of many calls.
const SAMPLES: usize = 40;

/// The plugin that runs scripts.
const LUA: &str = "lua";

/// A policy like those of sites: it refuses, chooses a partition, and writes three fields.
const SCRIPT: &str = r#"
function slurm_job_submit(job_desc, part_list, submit_uid)
  if job_desc.name == "forbidden" then
    return slurm.ESLURM_ACCESS_DENIED
  end
  local minutes = job_desc.time_limit
  if minutes == slurm.NO_VAL then
    minutes = 60
  end
  if job_desc.partition == nil then
    for name, part in pairs(part_list) do
      if minutes <= part.max_time then
        job_desc.partition = name
        break
      end
    end
  end
  if job_desc.account == nil then
    job_desc.account = "guests"
  end
  job_desc.comment = "uid " .. submit_uid .. ", " .. math.floor(minutes / 60) .. " hours"
  slurm.log_debug("seen")
  return slurm.SUCCESS
end
function slurm_job_modify()
  return slurm.SUCCESS
end
"#;

/// Measures typed handlers with this many calls.
pub(super) fn typed(calls: u64) -> Result<Found, BenchError> {
    let none = dispatch(0, calls, TopicId::JobInactiveAdd, Shadowed::No)?;
    let one = dispatch(1, calls, TopicId::JobStatePriority, Shadowed::No)?;
    let stack = dispatch(STACK, calls, TopicId::JobStatePriority, Shadowed::No)?;
    let shadowed = dispatch(1, calls, TopicId::JobStatePriority, Shadowed::Yes)?;
    let mut found = Found::default();
    let text = "a topic that no plugin handles";
    found.less("callbacks.unhandled", calls, none, "ns", text);
    let text = "a topic with one typed handler, which reads the job and returns a priority";
    found.less("callbacks.one", calls, one, "ns", text);
    found.less("callbacks.stack", calls, stack, "ns", "the same with the handlers of 32 plugins");
    let each = (stack - one) / (STACK as f64 - 1.0);
    found.less("callbacks.each", calls, each, "ns", "what each further plugin costs");
    let text =
        "what a shadow of that one plugin adds: it is called, too, and both answers are compared";
    found.less("callbacks.shadow", calls, shadowed - one, "ns", text);
    Ok(found)
}

/// Whether the first plugin has a shadow with the same configuration.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shadowed {
    No,
    Yes,
}

/// The nanoseconds of one dispatch of this topic in an engine with this many plugins, metered as in a
/// manager.
fn dispatch(
    plugins: usize,
    calls: u64,
    topic: TopicId,
    shadowed: Shadowed,
) -> Result<f64, BenchError> {
    let ticks = Ticks::new(Arc::new(AtomicU64::new(0)), nanoseconds);
    let registry = plugins::stack_of(plugins)?;
    let (mut manager, _) = Offline::start_at(one_host(), registry, now(), ticks)?;
    let id: JobId = manager.submit_one(jobspec(60.0, 1, 1)?)?;
    if shadowed == Shadowed::Yes {
        let load = ShadowRequest::Load { name: plugins::first(), conf: None };
        manager.handle(request(Request::Shadow(load)))?;
    }
    let engine = manager.engine();
    let mut samples = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        let begin = Instant::now();
        for _ in 0..calls {
            engine.dispatch_for_benchmark(black_box(topic), black_box(id));
        }
        samples.push(begin.elapsed().as_nanos() as f64 / calls as f64);
    }
    if shadowed == Shadowed::Yes {
        // A shadow that takes too much time is stopped, and then costs nothing.
        let report = engine.shadow_report(&plugins::first())?;
        if let Some(reason) = report.stopped {
            return Err(BenchError::ShadowStopped(reason));
        }
    }
    Ok(median(&samples))
}

fn nanoseconds() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Measures submissions over the socket with a script, and without.
pub(super) fn lua(jobs: u64) -> Result<Found, BenchError> {
    let mut found = Found::default();
    if !Registry::linked()?.plugins().any(|plugin| plugin.name == LUA) {
        found.skip("callbacks.lua", "the plugin lua isn't linked into this binary");
        return Ok(found);
    }
    let directory = tempfile::tempdir()?;
    let script = directory.path().join("job_submit.lua");
    std::fs::write(&script, SCRIPT)?;
    let queue = json!({ "policy": { "limits": { "duration": "1d" } } });
    let mut config = one_host();
    merge(&mut config, "queues", json!({ "batch": queue, "debug": queue, "gpu": queue }));
    let defaults = json!({ "jobspec": { "defaults": { "system": { "queue": "batch" } } } });
    merge(&mut config, "policy", defaults);
    let without = submissions(&config, jobs)?;
    merge(&mut config, "plugins", json!({ LUA: { "script": script } }));
    merge(&mut config, "job-manager", json!({ "plugins": [{ "load": LUA }] }));
    let with = submissions(&config, jobs)?;
    let text = "bulk submissions that a Lua script decides on";
    found.more("callbacks.lua.rate", jobs, jobs as f64 / with.0.as_secs_f64(), "jobs/s", text);
    let text = "processor time of the manager for each, beyond that without the script";
    found.less("callbacks.lua.cpu", jobs, (with.1 - without.1).max(0.0), "us/job", text);
    Ok(found)
}

fn merge(config: &mut Value, key: &str, value: Value) {
    if let Some(table) = config.as_object_mut() {
        table.insert(key.to_owned(), value);
    }
}

/// Submits jobs that are held, so that each costs the same. Returns the time, and the processor time of each in
/// microseconds.
fn submissions(config: &Value, jobs: u64) -> Result<(Duration, f64), BenchError> {
    let setup = ManagerSetup::with(config.clone());
    let manager = Manager::start(&setup)?;
    let mut client = manager.connect()?;
    let held = Submissions::with_urgency(document(60.0, 1, super::connection::NUMBER), Some(0))?;
    let (begin, before) = (Instant::now(), manager.cpu()?);
    client.submit_all(&held, jobs)?;
    let elapsed = begin.elapsed();
    let used = manager.cpu()?.since(&before);
    manager.end()?;
    Ok((elapsed, used.all * 1e6 / jobs.max(1) as f64))
}
