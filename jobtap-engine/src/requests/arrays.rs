//! What clients do with job arrays, and read about them.

use serde_json::{Map, Value, json};

use super::jobs::{self, check_exception, check_signal, post_exception, refuse};
use super::slurm::begin;
use crate::api::{Cred, RaisedException, ReplyTo, RequestError};
use crate::arrays::{Array, Arrays};
use crate::core::Core;
use crate::dispatch::dependencies;
use crate::eventlog::Event;
use crate::exec;
use crate::host::errno::{EINVAL, ENOENT, EPERM};
use crate::job::{JobId, Reach, State, StateSet, Uid, Urgency};
use crate::jobs::Jobs;
use crate::resource::Idset;
use crate::topic::TopicId;
use crate::turn::Turn;

const UNKNOWN: &str = "unknown array id";

/// An array on which this client may act.
fn own<'a>(
    arrays: &'a Arrays,
    cred: Cred,
    id: JobId,
    guests: &str,
) -> Result<&'a Array, RequestError> {
    let array = arrays.get(id).ok_or_else(|| RequestError::new(ENOENT, UNKNOWN))?;
    match cred.owner || array.userid() == cred.userid {
        true => Ok(array),
        false => refuse(EPERM, guests),
    }
}

/// `job-manager.raise` on an array, and `job-manager.array-raise`: an exception on elements, on all of them without
/// `indexes`. A fatal one drops those that aren't jobs yet.
pub(super) fn raise(
    core: &mut Core,
    cred: Cred,
    id: JobId,
    indexes: Option<&Idset>,
    exception: &RaisedException,
) -> Result<Value, RequestError> {
    let Core { turn, jobs, plugins, arrays, .. } = core;
    let severity = check_exception(exception)?;
    let guests = "guests can only raise exceptions on their own jobs";
    let array = own(arrays, cred, id, guests)?;
    let all = array.elements();
    if let Some(unknown) = indexes.map(|indexes| indexes.difference(all.indexes()))
        && !unknown.is_empty()
    {
        return refuse(ENOENT, format!("the array has no element with index {unknown}"));
    }
    if array.is_over() {
        return refuse(ENOENT, "all elements of the array are inactive");
    }
    let positions = all.positions_of(indexes.unwrap_or(all.indexes()));
    let active = array.active_among(&positions);
    let count = active.len();
    let mut dropped = 0;
    if severity == 0
        && let Some(array) = arrays.change(id)
    {
        // First, so that none of them takes the place of one that ends.
        dropped = array.drop_waiting(&positions);
    }
    for job in active {
        if jobs.is_accepted(job) {
            post_exception(turn, jobs, cred.userid, job, severity, exception);
        }
    }
    if dropped > 0 {
        dependencies::recheck_for_array(turn, jobs, plugins, arrays, id);
    }
    Ok(json!({ "count": count + dropped }))
}

/// `job-manager.raiseall`: on jobs, and on the elements of arrays that aren't jobs yet.
pub(super) fn raise_all(
    core: &mut Core,
    cred: Cred,
    dry_run: bool,
    userid: Option<Uid>,
    states: StateSet,
    exception: &RaisedException,
) -> Result<Value, RequestError> {
    let Core { turn, jobs, plugins, arrays, .. } = core;
    let mut response = jobs::raise_all(turn, jobs, cred, dry_run, userid, states, exception)?;
    let mut waiting = 0;
    // An element that isn't a job yet waits for resources, as a job in SCHED does.
    if states.contains(State::Sched) && exception.severity == 0 {
        let ids = arrays.ids_where(|array| {
            array.has_unmade() && userid.is_none_or(|userid| array.userid() == userid)
        });
        for id in ids {
            if dry_run {
                waiting += arrays.get(id).map_or(0, Array::waiting);
            } else {
                waiting += arrays.change(id).map_or(0, Array::drop_all_waiting);
                dependencies::recheck_for_array(turn, jobs, plugins, arrays, id);
            }
        }
    }
    if let Some(count) = response.get("count").and_then(Value::as_u64)
        && let Some(response) = response.as_object_mut()
    {
        response.insert("count".to_owned(), (count + waiting as u64).into());
    }
    Ok(response)
}

/// `job-manager.kill` on an array: a signal to the elements that run.
pub(super) fn kill(
    turn: &mut Turn,
    jobs: &Jobs,
    arrays: &Arrays,
    cred: Cred,
    id: JobId,
    signum: i64,
    reach: Reach,
) -> Result<Value, RequestError> {
    let signal = check_signal(signum)?;
    let array = own(arrays, cred, id, "guests may only send signals to their own jobs")?;
    let is_running = |job: &JobId| matches!(jobs.state(*job), Some(State::Run | State::Cleanup));
    let mut count = 0;
    for (_, job) in array.active_jobs().filter(|(_, job)| is_running(job)) {
        exec::signal(&mut turn.effects, jobs, job, signal, reach);
        count += 1;
    }
    match count {
        0 => refuse(EINVAL, "no element of the array is running"),
        count => Ok(json!({ "count": count })),
    }
}

/// `job-manager.urgency` on an array: of the elements that have no resources yet.
pub(super) fn set_urgency(core: &mut Core, reply: ReplyTo, cred: Cred, id: JobId, value: i64) {
    let checked = Urgency::new(value)
        .map_err(|_| RequestError::new(EINVAL, "urgency value is out of range"))
        .and_then(|urgency| check_urgency(core, cred, id, urgency).map(|()| urgency));
    match checked {
        // Plugins see the request once, about one of the jobs.
        Ok(urgency) if core.plugins.stack.handles(TopicId::SlurmJobModify) => {
            begin::begin_array_urgency(core, reply, cred, id, urgency);
        }
        Ok(urgency) => {
            let done = post_urgency(core, cred, id, urgency);
            core.turn.effects.reply(reply, done);
        }
        Err(error) => core.turn.effects.reply(reply, Err(error)),
    }
}

fn check_urgency(core: &Core, cred: Cred, id: JobId, urgency: Urgency) -> Result<(), RequestError> {
    let Core { jobs, arrays, .. } = core;
    let array = own(arrays, cred, id, "guests can only reprioritize their own jobs")?;
    if !cred.owner && urgency > array.urgency().max(Urgency::DEFAULT) {
        return refuse(EPERM, "guests can only adjust urgency <= default");
    }
    for job in pending(jobs, array) {
        let own = jobs.get(job).map_or(Urgency::DEFAULT, |record| record.job.urgency());
        if !cred.owner && urgency > own.max(Urgency::DEFAULT) {
            return refuse(EPERM, "guests can only adjust urgency <= default");
        }
    }
    match array.has_pending() {
        true => Ok(()),
        false => refuse(EINVAL, "urgency cannot be changed once resources are allocated"),
    }
}

/// The jobs of an array that have no resources.
fn pending(jobs: &Jobs, array: &Array) -> Vec<JobId> {
    let all = array.active_jobs().map(|(_, job)| job);
    all.filter(|job| jobs.state(*job).is_some_and(|state| state < State::Run)).collect()
}

/// Changes the urgency of an array, which has been checked. Returns the response.
pub(super) fn post_urgency(
    core: &mut Core,
    cred: Cred,
    id: JobId,
    urgency: Urgency,
) -> Result<Value, RequestError> {
    // Checked once more: the elements may have gone on while a plugin was awaited.
    check_urgency(core, cred, id, urgency)?;
    let Core { turn, jobs, arrays, .. } = core;
    let pending = arrays.get(id).map(|array| pending(jobs, array)).unwrap_or_default();
    let now = turn.clock.now;
    let old = arrays.change(id).map(|array| array.set_urgency(now, cred, urgency));
    for job in pending {
        jobs.post(turn, job, Event::Urgency { userid: Some(cred.userid), urgency });
    }
    Ok(json!({ "old_urgency": old.unwrap_or_default().value() }))
}

/// `job-manager.array-wait`.
pub(super) fn wait(core: &mut Core, reply: ReplyTo, cred: Cred, id: JobId) {
    let guests = "guests can only wait for their own arrays";
    if let Err(error) = own(&core.arrays, cred, id, guests) {
        return core.turn.effects.reply(reply, Err(error));
    }
    // If the array is over, the response is sent at the end of this turn.
    if let Some(array) = core.arrays.change(id) {
        array.wait(reply);
    }
}

/// `job-list.array`.
pub(crate) fn array(core: &Core, id: JobId) -> Result<Value, RequestError> {
    let array = core.arrays.get(id).ok_or_else(|| RequestError::new(ENOENT, UNKNOWN))?;
    Ok(array.response())
}

/// `job-list.arrays`.
pub(crate) fn open(core: &Core, userid: Option<Uid>) -> Value {
    let open = core.arrays.open();
    let selected = open.filter(|array| userid.is_none_or(|userid| array.userid() == userid));
    let arrays: Vec<Value> = selected.map(Array::response).collect();
    json!({ "arrays": arrays })
}

/// `job-list.elements`.
pub(crate) fn elements(
    core: &Core,
    id: JobId,
    indexes: Option<&Idset>,
    active: bool,
) -> Result<Value, RequestError> {
    let array = core.arrays.get(id).ok_or_else(|| RequestError::new(ENOENT, UNKNOWN))?;
    let positions = array.elements().positions_of(indexes.unwrap_or(array.elements().indexes()));
    let mut jobs = Map::new();
    for (position, job) in array.jobs_among(&positions, active) {
        if let Some(index) = array.elements().index(position) {
            jobs.insert(index.to_string(), json!(job));
        }
    }
    Ok(json!({ "jobs": jobs }))
}
