//! What clients read about jobs: listings, one job, statistics.

use serde_json::{Map, Value, json};

use super::selection::Selection;
use super::waits_for;
use crate::api::{RequestError, WaitsFor};
use crate::arrays::Array;
use crate::core::Core;
use crate::host::errno::ENOENT;
use crate::job::{JobId, State, Timestamp, Uid, merge_annotations};
use crate::jobs::Record;

/// The user and state of a job: what must be known before more of the job is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobBrief {
    /// The user whose job it is.
    pub userid: Uid,
    /// Its state.
    pub state: State,
}

/// A listing that is read job by job, so that neither its response nor the work for it is larger than
/// its reader can take.
#[derive(Debug)]
pub struct Listing {
    selection: Selection,
    /// The active jobs that are still to be listed, and the arrays whose pending elements are listed together.
    active: std::vec::IntoIter<JobId>,
    /// The next one of the jobs that were inactive when the listing began.
    inactive: Option<(Timestamp, JobId)>,
    /// The maximum number of further jobs to list.
    left: usize,
}

/// One step of a listing.
#[derive(Debug)]
pub enum Listed {
    /// The next job.
    Item(Value),
    /// A job that is not selected.
    Passed,
    /// The end of the listing.
    End,
}

/// The user and state of a job or an array; `None` if clients cannot know about it.
pub(crate) fn brief(core: &Core, id: JobId) -> Option<JobBrief> {
    if let Some(array) = core.arrays.get(id) {
        return Some(JobBrief { userid: array.userid(), state: array.state() });
    }
    let record = core.jobs.get(id).filter(|record| record.is_accepted())?;
    Some(JobBrief { userid: record.job.userid(), state: record.job.state() })
}

/// `job-list.list`: `{"jobs":[..]}`.
pub(crate) fn list(core: &Core, payload: &Value) -> Result<Value, RequestError> {
    let mut listing = begin(core, payload)?;
    let mut jobs = Vec::new();
    loop {
        match next(core, &mut listing) {
            Listed::Item(job) => jobs.push(job),
            Listed::Passed => {}
            Listed::End => return Ok(json!({ "jobs": jobs })),
        }
    }
}

/// Begins a listing: pending jobs by priority, then running ones by start, then inactive ones by end.
pub(crate) fn begin(core: &Core, payload: &Value) -> Result<Listing, RequestError> {
    let selection = Selection::read(payload)?;
    // The selection is applied to one job at a time: a constraint may be long.
    let is_listed = |record: &&Record| !selection.joins_arrays() || !is_joined(core, record);
    let records = core.jobs.records().filter(is_listed);
    let mut active: Vec<(_, JobId)> =
        records.map(|record| (order(record), record.job.id())).collect();
    if selection.joins_arrays() {
        let pending = core.arrays.iter().filter(|array| array.has_pending());
        let joined = pending.map(|array| array.as_record(&core.jobs));
        active.extend(joined.map(|record| (order(&record), record.job.id())));
    }
    // Times are never NaN; if one were, its job would only be in a wrong place.
    active.sort_by(|(a, _), (b, _)| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    let active = active.into_iter().map(|(_, id)| id).collect::<Vec<_>>().into_iter();
    let left = selection.at_most();
    Ok(Listing { selection, active, inactive: core.jobs.inactive.newest(), left })
}

/// The next step of a listing. Each job is listed once, as it is when its turn comes, if it is selected then.
pub(crate) fn next(core: &Core, listing: &mut Listing) -> Listed {
    if listing.left == 0 {
        return Listed::End;
    }
    let job = if let Some(id) = listing.active.next() {
        if core.jobs.summarized(id).is_some() {
            // It has become inactive since the listing began.
            list_summarized(core, &listing.selection, id)
        } else {
            if let Some(array) = core.arrays.get(id) {
                return list_array(core, listing, array);
            }
            let record = core.jobs.get(id);
            let record = record.filter(|record| listing.selection.matches(record));
            record.map(|record| attributes(core, record))
        }
    } else {
        let Some((end, id)) = listing.inactive else { return Listed::End };
        if !listing.selection.is_since(end) {
            return Listed::End;
        }
        listing.inactive = core.jobs.inactive.before(end, id);
        list_summarized(core, &listing.selection, id)
    };
    match job {
        Some(job) => {
            listing.left -= 1;
            Listed::Item(job)
        }
        None => Listed::Passed,
    }
}

/// Whether a job is listed together with the other pending elements of its array.
fn is_joined(core: &Core, record: &Record) -> bool {
    record.job.state() < State::Run && core.arrays.is_element(record.job.id())
}

/// The pending elements of an array, if there are any and they are selected.
fn list_array(core: &Core, listing: &mut Listing, array: &Array) -> Listed {
    let record = array.as_record(&core.jobs);
    if !array.has_pending() || !listing.selection.matches(&record) {
        return Listed::Passed;
    }
    listing.left -= 1;
    Listed::Item(array_attributes(core, array, &record))
}

/// An inactive job, if it is selected.
fn list_summarized(core: &Core, selection: &Selection, id: JobId) -> Option<Value> {
    let summarized = core.jobs.summarized(id)?;
    // Most jobs are passed over without reading their summaries.
    if selection.matches_brief(&summarized.brief) == Some(false) {
        return None;
    }
    let record = summarized.read(id)?;
    selection.matches(&record).then(|| record.attributes())
}

/// The attributes of the elements of an array, with a word for what holds those that are pending.
fn array_attributes(core: &Core, array: &Array, record: &Record) -> Value {
    let mut attributes = array.attributes(record);
    set_why(&mut attributes, waits_for::of_array(core, array));
    attributes
}

fn set_why(attributes: &mut Value, why: Option<WaitsFor>) {
    if let (Some(map), Some(why)) = (attributes.as_object_mut(), why) {
        map.insert("why".to_owned(), why.word().into());
    }
}

/// The attributes of a job, with a word for what it waits for, and the estimate of its start or a note that it needs
/// nodes that are not available.
fn attributes(core: &Core, record: &Record) -> Value {
    let mut attributes = record.attributes();
    set_why(&mut attributes, waits_for::of_job(core, record));
    if record.job.state() != State::Sched {
        return attributes;
    }
    let now = core.turn.clock.now.as_secs();
    let sched = if core.alloc.alloc_queues.is_passed_over(record) {
        json!({ "reason_pending": "needs nodes that are not available" })
    } else if let Some(start) = core.alloc.start_estimate(&core.jobs, now, record.job.id()) {
        json!({ "t_estimate": start })
    } else {
        return attributes;
    };
    if let Some(map) = attributes.as_object_mut() {
        let sched = json!({ "sched": sched });
        let more: Map<String, Value> = [("annotations".to_owned(), sched)].into_iter().collect();
        merge_annotations(map, more);
    }
    attributes
}

/// The key by which a listing is sorted.
fn order(record: &Record) -> (u8, f64, u64) {
    let id = record.job.id().as_u64();
    let latest_first = |time: Option<Timestamp>| -time.map_or(0.0, Timestamp::as_secs);
    match record.job.state() {
        State::Run | State::Cleanup => (1, latest_first(record.job.kept().times.run()), id),
        State::Inactive => (2, latest_first(record.job.kept().times.inactive()), u64::MAX - id),
        _ => (0, -f64::from(record.job.priority().unwrap_or(0)), id),
    }
}

/// `job-list.job-stats`. The elements of arrays that aren't jobs yet count as jobs in SCHED, since they wait as these do.
pub(crate) fn stats(core: &Core) -> Value {
    let mut stats = core.jobs.counts.to_json(&core.alloc.queues);
    for array in core.arrays.open() {
        count_waiting(&mut stats, array);
        let queue = array.jobspec().queue();
        let queues = stats.get_mut("queues").and_then(Value::as_array_mut);
        let named = |counts: &&mut Value| counts.get("name").and_then(Value::as_str) == queue;
        if let Some(counts) = queues.and_then(|queues| queues.iter_mut().find(named)) {
            count_waiting(counts, array);
        }
    }
    stats
}

fn count_waiting(stats: &mut Value, array: &Array) {
    for key in ["sched", "total"] {
        if let Some(count) = stats.pointer_mut(&format!("/job_states/{key}")) {
            *count = (count.as_u64().unwrap_or(0) + array.waiting() as u64).into();
        }
    }
}

/// The ids of all accepted active jobs, in order.
pub(crate) fn active_ids(core: &Core) -> Vec<JobId> {
    core.jobs.active_where(Record::is_accepted)
}

/// `job-list.list-id`: `{"job":{..}}`.
pub(crate) fn list_id(core: &Core, id: JobId) -> Result<Value, RequestError> {
    if let Some(array) = core.arrays.get(id) {
        let record = array.as_record(&core.jobs);
        return Ok(json!({ "job": array_attributes(core, array, &record) }));
    }
    let record = core.jobs.accepted(id, ENOENT, "")?;
    Ok(json!({ "job": attributes(core, record) }))
}
