//! Inactive jobs that are purged: on request, and by the limits of the configuration.

use serde_json::{Value, json};

use super::{owner_only, queues};
use crate::engine::agenda::{Cause, Work};
use crate::engine::api::{Cred, Level, RequestError, Write};
use crate::engine::core::Core;
use crate::engine::jobs::PurgeLimits;
use crate::engine::timers::Due;
use crate::host::errno::{EINVAL, ENOENT};
use crate::job::{Fsd, JobId, State};
use crate::json_type::json_type;
use crate::topic::TopicId;

/// How many seconds pass from one look at the configured limits to the next.
const HEARTBEAT: f64 = 2.0;

/// How many jobs are purged at once, at most, so that other work is not held up.
const BATCH: usize = 100;

/// How many seconds pass until the next batch if one was not enough. So the limits also hold at sites
/// that run far more jobs than one batch in a heartbeat.
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
    let record = core.accepted_or(id, ENOENT, "id not found")?;
    if record.job.state != State::Inactive {
        return Err(RequestError::new(EINVAL, "cannot purge active job"));
    }
    if force {
        purge(core, &[id]);
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
    let count = match force {
        false => core.jobs.inactive.beyond(core.clock.now, limits).count(),
        true => purge_beyond(core, limits, batch),
    };
    Ok(json!({ "count": count }))
}

/// Purges jobs beyond the limits, oldest first; returns how many.
fn purge_beyond(core: &mut Core, limits: PurgeLimits, most: usize) -> usize {
    let beyond = core.jobs.inactive.beyond(core.clock.now, limits);
    let ids: Vec<JobId> = beyond.take(most).collect();
    purge(core, &ids);
    ids.len()
}

/// Purges inactive jobs: their keys are removed, and their records once the plugins have seen
/// `job.inactive-remove`.
fn purge(core: &mut Core, ids: &[JobId]) {
    // In reverse: the agenda is a stack.
    for &id in ids.iter().rev() {
        core.jobs.count_purged(id);
        // The keys go at once, the record after `job.inactive-remove`, which still sees the job.
        core.effects.writes.push(Write::Remove { id });
        core.agenda.push(Work::RemoveRecord(id));
        core.notify(TopicId::JobInactiveRemove, id, Cause::None);
    }
    if core.jobs.newest_id.is_some_and(|newest| ids.contains(&newest)) {
        // After this no key of a job says that the id was used.
        queues::checkpoint(core);
    }
}

/// Takes over the limits from the configuration.
pub(crate) fn read_limits(core: &mut Core) -> Result<(), String> {
    let table = core.config.get("job-manager");
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
            let fsd: Result<Fsd, _> = text.parse();
            Some(fsd.map_err(|_| format!("{AGE_LIMIT}: invalid FSD"))?.as_secs())
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
            Some(count.ok_or_else(|| format!("{NUM_LIMIT}: must be >= 0"))?)
        }
    };
    core.jobs.inactive.limits = PurgeLimits { age, count };
    Ok(())
}

/// Flux names no key where one has another type, and another one where the whole is no table.
fn wrong_type(place: &str, wanted: &str, value: &Value) -> String {
    format!("{place}: Expected {wanted}, got {}", json_type(value))
}

/// Sets the timer for the next purge if a limit is configured; stops the timer otherwise.
pub(crate) fn arm_heartbeat(core: &mut Core) {
    let inactive = &mut core.jobs.inactive;
    let limited = inactive.limits != PurgeLimits::default();
    match inactive.heartbeat {
        Some(_) if !limited => core.timers.stop(inactive.heartbeat.take()),
        None if limited => set_heartbeat(core, HEARTBEAT),
        _ => {}
    }
}

fn set_heartbeat(core: &mut Core, after: f64) {
    let timer = core.start_timer(core.clock.now + after, Due::Heartbeat);
    core.jobs.inactive.heartbeat = Some(timer);
}

/// Purges what is beyond the configured limits.
pub(crate) fn heartbeat(core: &mut Core) {
    let count = purge_beyond(core, core.jobs.inactive.limits, BATCH);
    if count > 0 {
        core.log(Level::Debug, format!("purged {count} inactive jobs"));
    }
    core.jobs.inactive.heartbeat = None;
    if count == BATCH {
        set_heartbeat(core, NEXT_BATCH);
    } else {
        arm_heartbeat(core);
    }
}
