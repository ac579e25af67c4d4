//! Purges inactive jobs: on request, and beyond the configured limits.

use serde_json::{Value, json};

use super::{owner_only, queues};
use crate::agenda::{Cause, Work};
use crate::api::{Cred, Level, RequestError, Write};
use crate::core::Core;
use crate::host::errno::{EINVAL, ENOENT};
use crate::job::{Fsd, JobId, State};
use crate::jobs::{Jobs, PurgeLimits};
use crate::json_type;
use crate::plugins::Plugins;
use crate::queue::Queues;
use crate::timers::{Due, Timers};
use crate::topic::TopicId;
use crate::turn::Turn;

/// The interval at which the configured limits are checked, in seconds.
const HEARTBEAT: f64 = 2.0;

/// The maximum number of jobs that are purged at once, so that other work is not held up.
const BATCH: usize = 100;

/// The delay before the next batch if one was not enough, in seconds. So the limits also hold at sites that run far
/// more jobs than one batch in a heartbeat.
const NEXT_BATCH: f64 = 0.02;

const AGE_LIMIT: &str = "job-manager.inactive-age-limit";
const NUM_LIMIT: &str = "job-manager.inactive-num-limit";

/// `job-manager.purge-id`.
pub(super) fn purge_one(
    core: &mut Core,
    cred: Cred,
    id: JobId,
    force: bool,
) -> Result<Value, RequestError> {
    owner_only(cred)?;
    let record = core.jobs.accepted(id, ENOENT, "id not found")?;
    if record.job.state() != State::Inactive {
        return Err(RequestError::new(EINVAL, "cannot purge active job"));
    }
    if force {
        purge(&mut core.turn, &mut core.jobs, &core.plugins, &core.alloc.queues, &[id]);
    }
    Ok(json!({ "count": 1 }))
}

/// `job-manager.purge`.
pub(super) fn purge_many(
    core: &mut Core,
    cred: Cred,
    age: f64,
    count: i64,
    batch: i64,
    force: bool,
) -> Result<Value, RequestError> {
    owner_only(cred)?;
    let invalid = |text: String| RequestError::new(EINVAL, text);
    let unlimited = age == -1.0;
    if !unlimited && (age < 0.0 || age.is_nan()) {
        return Err(invalid("if set, age limit must be >= 0".to_owned()));
    }
    let count = match count {
        -1 => None,
        count => Some(
            usize::try_from(count)
                .map_err(|_| invalid("if set, num limit must be >= 0".to_owned()))?,
        ),
    };
    let batch = usize::try_from(batch).ok().filter(|batch| (1..=BATCH).contains(batch));
    let batch = batch.ok_or_else(|| invalid(format!("batch must be >= 1 and <= {BATCH}")))?;
    let limits = PurgeLimits { age: (!unlimited).then_some(age), count };
    let Core { turn, jobs, plugins, alloc, .. } = core;
    let count = match force {
        false => jobs.inactive.beyond(turn.clock.now, limits).count(),
        true => purge_beyond(turn, jobs, plugins, &alloc.queues, limits, batch),
    };
    Ok(json!({ "count": count }))
}

/// Purges at most `most` jobs beyond the limits, oldest first; returns their number.
fn purge_beyond(
    turn: &mut Turn,
    jobs: &mut Jobs,
    plugins: &Plugins,
    queues: &Queues,
    limits: PurgeLimits,
    most: usize,
) -> usize {
    let beyond = jobs.inactive.beyond(turn.clock.now, limits);
    let ids: Vec<JobId> = beyond.take(most).collect();
    purge(turn, jobs, plugins, queues, &ids);
    ids.len()
}

/// Purges inactive jobs: their keys are removed, and their records once the plugins have seen
/// `job.inactive-remove`.
fn purge(turn: &mut Turn, jobs: &mut Jobs, plugins: &Plugins, queues: &Queues, ids: &[JobId]) {
    // In reverse: the agenda is a stack.
    for &id in ids.iter().rev() {
        jobs.count_purged(id);
        // The keys go at once, the record after `job.inactive-remove`, which still sees the job.
        turn.effects.writes.push(Write::Remove { id });
        turn.agenda.push(Work::RemoveRecord(id));
        plugins.notify(&mut turn.agenda, TopicId::JobInactiveRemove, id, Cause::None);
    }
    if jobs.newest_id.is_some_and(|newest| ids.contains(&newest)) {
        // No key of a job shows any longer that the id was used.
        queues::checkpoint(&mut turn.effects, jobs, queues);
    }
}

/// Why the limits in the configuration can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LimitsError {
    /// A value is of the wrong type. Flux's own error names no key, or another one if the whole table is of the wrong
    /// type.
    #[error("{place}: Expected {wanted}, got {found}")]
    WrongType { place: &'static str, wanted: &'static str, found: &'static str },
    #[error("{AGE_LIMIT}: invalid FSD")]
    Age,
    #[error("{NUM_LIMIT}: must be >= 0")]
    Number,
}

/// Applies the limits in the configuration.
pub(crate) fn read_limits(jobs: &mut Jobs, config: &Value) -> Result<(), LimitsError> {
    let table = config.get("job-manager");
    if let Some(other) = table.filter(|table| !table.is_object()) {
        return Err(wrong_type("job-manager.max-inactive-*", "object", other));
    }
    let value = |key: &str| {
        let key = key.rsplit('.').next().unwrap_or_default();
        table.and_then(|table| table.get(key)).cloned()
    };
    let age = match value(AGE_LIMIT) {
        None => None,
        Some(value) => {
            let text = value.as_str().ok_or_else(|| wrong_type(AGE_LIMIT, "string", &value))?;
            Some(Fsd::from_config(text).map_err(|_| LimitsError::Age)?.as_secs())
        }
    };
    let count = match value(NUM_LIMIT) {
        None => None,
        // No limit, as in a request and in Flux.
        Some(value) if value.as_i64() == Some(-1) => None,
        Some(value) if !(value.is_i64() || value.is_u64()) => {
            return Err(wrong_type(NUM_LIMIT, "integer", &value));
        }
        Some(value) => {
            let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
            Some(count.ok_or(LimitsError::Number)?)
        }
    };
    jobs.inactive.limits = PurgeLimits { age, count };
    Ok(())
}

/// The error for a value of the wrong type.
fn wrong_type(place: &'static str, wanted: &'static str, value: &Value) -> LimitsError {
    LimitsError::WrongType { place, wanted, found: json_type(value) }
}

/// Sets the timer for the next purge if a limit is configured; stops the timer otherwise.
pub(crate) fn arm_heartbeat(turn: &mut Turn, jobs: &mut Jobs, timers: &mut Timers) {
    let inactive = &mut jobs.inactive;
    let limited = inactive.limits != PurgeLimits::default();
    match inactive.heartbeat {
        Some(_) if !limited => timers.stop(inactive.heartbeat.take()),
        None if limited => set_heartbeat(turn, jobs, timers, HEARTBEAT),
        _ => {}
    }
}

fn set_heartbeat(turn: &mut Turn, jobs: &mut Jobs, timers: &mut Timers, after: f64) {
    let timer = timers.start(&mut turn.effects, turn.clock.now + after, Due::Heartbeat);
    jobs.inactive.heartbeat = Some(timer);
}

/// Purges jobs beyond the configured limits.
pub(crate) fn heartbeat(core: &mut Core) {
    let Core { turn, jobs, plugins, alloc, timers, .. } = core;
    let limits = jobs.inactive.limits;
    let count = purge_beyond(turn, jobs, plugins, &alloc.queues, limits, BATCH);
    if count > 0 {
        turn.effects.log(Level::Debug, format!("purged {count} inactive jobs"));
    }
    jobs.inactive.heartbeat = None;
    if count == BATCH {
        set_heartbeat(turn, jobs, timers, NEXT_BATCH);
    } else {
        arm_heartbeat(turn, jobs, timers);
    }
}
