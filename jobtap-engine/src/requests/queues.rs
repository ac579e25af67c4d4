//! What clients ask about queues, and what administrators do with them.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::owner_only;
use crate::alloc::{Allocation, schedule};
use crate::api::{Cred, Effects, RequestError, StartError, Write};
use crate::core::Core;
use crate::host::errno::EINVAL;
use crate::job::{Fsd, JobId, State};
use crate::jobs::Jobs;
use crate::queue::{JobSize, Limits, Queue, QueueError, Queues, Target, VERSION};
use crate::resource::{Constraint, ResourceSet};

/// Whether queues that were started are stopped at a restart.
const STOP_AT_RESTART: &str = "job-manager.stop-queues-on-restart";

impl From<QueueError> for RequestError {
    fn from(error: QueueError) -> Self {
        Self::new(EINVAL, error.to_string())
    }
}

/// The value of [`STOP_AT_RESTART`].
pub(crate) fn stop_at_restart(config: &Value) -> Result<bool, StartError> {
    match config.pointer("/job-manager/stop-queues-on-restart") {
        None => Ok(false),
        Some(Value::Bool(stop)) => Ok(*stop),
        Some(_) => Err(StartError(format!("{STOP_AT_RESTART}: must be a boolean"))),
    }
}

/// `job-manager.queue-enable`.
pub(super) fn enable(
    core: &mut Core,
    cred: Cred,
    target: &Target,
    enable: bool,
    reason: Option<&str>,
) -> Result<Value, RequestError> {
    owner_only(cred)?;
    match enable {
        true => core.alloc.queues.enable(target)?,
        false => core.alloc.queues.disable(target, reason)?,
    }
    checkpoint(&mut core.turn.effects, &core.jobs, &core.alloc.queues);
    Ok(json!({}))
}

/// `job-manager.queue-start`.
pub(super) fn start(
    core: &mut Core,
    cred: Cred,
    target: &Target,
    start: bool,
    reason: Option<&str>,
    nocheckpoint: bool,
) -> Result<Value, RequestError> {
    owner_only(cred)?;
    match start {
        true => core.alloc.queues.start(target, !nocheckpoint)?,
        false => core.alloc.queues.stop(target, reason, !nocheckpoint)?,
    }
    checkpoint(&mut core.turn.effects, &core.jobs, &core.alloc.queues);
    schedule::place_all_in_queues(&mut core.turn, &mut core.jobs, &mut core.alloc);
    Ok(json!({}))
}

/// Stores a checkpoint with the effects of this input, since what is acknowledged must outlive a
/// crash.
pub(crate) fn checkpoint(effects: &mut Effects, jobs: &Jobs, queues: &Queues) {
    let write = checkpoint_of(jobs, queues);
    effects.writes.push(write);
}

/// What a restart must know besides the jobs' own keys: the greatest job id, and the state of the queues.
pub(crate) fn checkpoint_of(jobs: &Jobs, queues: &Queues) -> Write {
    let max_jobid = jobs.newest_id.map_or(0, JobId::as_u64);
    let queue = queues.checkpoint();
    let value = json!({ "version": VERSION, "max_jobid": max_jobid, "queue": queue });
    Write::PutInstance { key: "checkpoint.job-manager".to_owned(), value: value.to_string() }
}

/// `job-manager.queue-list`: `{"queues":[NAME,..]}` in order, empty for the anonymous queue.
pub(crate) fn names(alloc: &Allocation) -> Value {
    let names: BTreeSet<&str> = alloc.queues.iter().filter_map(|queue| queue.name()).collect();
    json!({ "queues": names })
}

/// `job-manager.queue-status`: the status object of RFC 33 of one queue.
pub(crate) fn status(alloc: &Allocation, name: Option<&str>) -> Result<Value, RequestError> {
    Ok(Value::Object(status_of(alloc, &alloc.queues.lookup(name)?)))
}

fn status_of(alloc: &Allocation, queue: &Queue<'_>) -> Map<String, Value> {
    let mut status = queue.status();
    if queue.is_started() && alloc.alloc_queues.is_offline(queue) {
        status.insert("start".to_owned(), false.into());
        status.insert("blocked".to_owned(), "scheduler".into());
        status.insert("stop_reason".to_owned(), "Scheduler is offline".into());
    }
    status
}

/// `job-manager.alloc-query`: `{"queue_length","alloc_pending","running"}`. The length is 0: the scheduler looks at all
/// jobs that wait for resources, so none is queued in front of it.
pub(crate) fn alloc_query(core: &Core) -> Value {
    let running = core.jobs.counts.all.count(&[State::Run, State::Cleanup]);
    let pending = core.alloc.alloc_queues.len();
    json!({ "queue_length": 0, "alloc_pending": pending, "running": running })
}

/// `job-manager.queue-overview`: `{"queues":[{..}]}`, each queue with its status, defaults, limits,
/// scheduler and resources, in the order of the configuration.
pub(crate) fn overview(alloc: &Allocation) -> Value {
    let allocated = alloc.pool.allocated();
    let one = |queue: Queue<'_>| overview_of(alloc, &queue, &allocated);
    json!({ "queues": alloc.queues.iter().map(one).collect::<Vec<_>>() })
}

fn overview_of(alloc: &Allocation, queue: &Queue<'_>, allocated: &ResourceSet) -> Value {
    let mut row = Map::new();
    if let Some(name) = queue.name() {
        row.insert("name".to_owned(), name.into());
    }
    let default = alloc.queues.default_name();
    row.insert("default".to_owned(), json!(default.is_some() && default == queue.name()));
    row.extend(status_of(alloc, queue));
    let timelimit = queue.default_duration();
    row.insert("defaults".to_owned(), json!({ "timelimit": seconds(timelimit) }));
    row.insert("limits".to_owned(), limits(queue.limits()));
    row.insert("requires".to_owned(), json!(queue.requires()));
    row.insert("scheduler".to_owned(), json!(alloc.alloc_queues.scheduler_of(queue)));
    row.insert("resources".to_owned(), resources_of(alloc, queue, allocated));
    Value::Object(row)
}

/// Counts the resources that a queue's jobs can get, by their present use.
fn resources_of(alloc: &Allocation, queue: &Queue<'_>, allocated: &ResourceSet) -> Value {
    // The constraint was checked when the configuration was read.
    let constraint = queue.constraint().and_then(|value| Constraint::from_value(&value).ok());
    let of = |set: &ResourceSet| match &constraint {
        None => set.clone(),
        Some(constraint) => set.matching(constraint),
    };
    let (all, down) = (of(alloc.pool.all()), alloc.pool.down());
    let up = all.without_ranks(down);
    json!({
        "all": counts(&all),
        "up": counts(&up),
        "down": counts(&all.with_ranks(down)),
        "allocated": counts(&all.intersection(allocated)),
        "free": counts(&up.difference(allocated)),
    })
}

fn counts(set: &ResourceSet) -> Value {
    json!({ "nnodes": set.nnodes(), "ncores": set.ncores(), "ngpus": set.ngpus() })
}

/// A duration in seconds; null if it is unlimited.
fn seconds(limit: Option<Fsd>) -> Option<f64> {
    limit.map(Fsd::as_secs).filter(|seconds| *seconds > 0.0 && seconds.is_finite())
}

fn limits(limits: Limits) -> Value {
    let size = |size: JobSize| {
        let said = |number: Option<i64>| number.filter(|number| *number >= 0);
        json!({
            "nnodes": said(size.nnodes),
            "ncores": said(size.ncores),
            "ngpus": said(size.ngpus),
        })
    };
    json!({
        "timelimit": seconds(limits.duration),
        "min": size(limits.min),
        "max": size(limits.max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_limits_that_are_in_force_and_no_others() {
        let max = JobSize { nnodes: Some(-1), ncores: Some(2), ngpus: Some(0) };
        let told = limits(Limits { max, ..Limits::default() });
        assert_eq!(told["max"], json!({ "nnodes": null, "ncores": 2, "ngpus": 0 }));
        assert_eq!((&told["timelimit"], &told["min"]["ncores"]), (&Value::Null, &Value::Null));
    }
}
