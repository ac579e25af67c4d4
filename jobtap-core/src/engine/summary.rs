//! What is kept of a job that is over: one line of JSON with all that listings, plugins and waiters
//! can ask for, in memory and in the store alike. A start reads a million of these in the time that
//! the replay of a hundred thousand eventlogs would take.
//!
//! It follows from the job's other keys: where there is none, or one that can't be read, the eventlog
//! is replayed. What is large or seldom asked for stays text until somebody does: most jobs are only
//! counted, and shown to plugins that note who had them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::record::{Exec, Record};
use super::restart::RestoreError;
use super::submit::blank_job;
use super::times::Times;
use crate::eventlog::EventEntry;
use crate::job::{
    Blank, Flags, JobId, KnownDependency, Posted, State, Timestamp, Uid, Unread, Urgency,
};
use crate::jobspec::Jobspec;

/// The form of this version. One of another form is not read.
const FORM: u32 = 1;

/// `R` is JSON that is not looked into: owned when it is written, borrowed when it is read.
#[derive(Serialize, Deserialize)]
struct Summary<R> {
    form: u32,
    userid: u32,
    urgency: u8,
    flags: u32,
    priority: Option<u32>,
    t_submit: f64,
    /// In the order of [`Times`].
    times: [Option<f64>; 7],
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_status: Option<i32>,
    #[serde(default, skip_serializing_if = "is_false")]
    bypass: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    immutable: bool,
    lines: u64,
    exec_lines: u64,
    events: Posted,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    /// With whether they were still open.
    dependencies: Vec<(Box<str>, bool)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<R>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exception: Option<R>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<R>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<R>,
    jobspec: R,
    #[serde(rename = "R", skip_serializing_if = "Option::is_none")]
    resources: Option<R>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn is_false(value: &bool) -> bool {
    !value
}

/// A text that is JSON already; none when it isn't, which only a jobspec from elsewhere can be.
fn raw(text: String) -> Option<Box<RawValue>> {
    RawValue::from_string(text).ok()
}

fn event(entry: &EventEntry) -> Option<Box<RawValue>> {
    let mut line = entry.encode();
    line.truncate(line.trim_end().len());
    raw(line)
}

fn map(map: &Map<String, Value>) -> Option<Box<RawValue>> {
    if map.is_empty() {
        return None;
    }
    serde_json::value::to_raw_value(map).ok()
}

impl Times {
    fn each(&self) -> [Option<f64>; 7] {
        let Self { depend, priority, sched, run, start, cleanup, inactive } = *self;
        [depend, priority, sched, run, start, cleanup, inactive]
            .map(|moment| moment.get().map(Timestamp::as_secs))
    }

    fn of(times: [Option<f64>; 7]) -> Self {
        let [depend, priority, sched, run, start, cleanup, inactive] =
            times.map(|time| time.map(|at| Timestamp::from_secs(at).into()).unwrap_or_default());
        Self { depend, priority, sched, run, start, cleanup, inactive }
    }
}

/// The summary of a job that is over.
pub(super) fn write(record: &Record) -> String {
    let job = &record.job;
    let jobspec = raw(job.jobspec.text().to_owned());
    let summary = Summary {
        form: FORM,
        userid: job.userid.as_u32(),
        urgency: job.urgency.value(),
        flags: job.flags.bits(),
        priority: job.priority,
        t_submit: job.t_submit.as_secs(),
        times: record.times.each(),
        wait_status: record.wait_status,
        bypass: record.bypass,
        immutable: record.immutable,
        lines: record.lines,
        exec_lines: record.exec_lines,
        events: job.posted.clone(),
        dependencies: job.dependencies.iter().map(|d| (d.description.clone(), d.open)).collect(),
        end: job.end_event.as_deref().and_then(event),
        exception: record.exception.as_deref().and_then(event),
        annotations: map(&job.annotations),
        data: map(&record.data),
        jobspec: jobspec.unwrap_or_else(|| RawValue::NULL.to_owned()),
        resources: job.resources.as_deref().and_then(|resources| raw(resources.to_json())),
    };
    // It consists of numbers, texts and what is JSON already.
    serde_json::to_string(&summary).unwrap_or_default()
}

/// What can't be read counts as absent: it was written by a manager, as JSON at least.
fn unread<T: Blank>(text: Option<&RawValue>, read: fn(&str) -> T) -> Unread<T> {
    text.map_or_else(Unread::default, |text| Unread::new(text.get(), read))
}

fn entry(text: &str) -> Option<Arc<EventEntry>> {
    EventEntry::decode(text).ok().map(Arc::new)
}

fn object(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap_or_default()
}

/// A job as its summary tells.
pub(super) fn read(id: JobId, text: &str) -> Result<Record, RestoreError> {
    let broken = |what: &str, error: &dyn std::fmt::Display| {
        RestoreError::new(format!("summary: {what}: {error}"))
    };
    let summary: Summary<&RawValue> = serde_json::from_str(text)
        .map_err(|error| RestoreError::new(format!("summary: {error}")))?;
    if summary.form != FORM {
        return Err(RestoreError::new(format!("summary: form {} is unknown", summary.form)));
    }
    let mut job = blank_job(id, Jobspec::stored_json(summary.jobspec));
    job.state = State::Inactive;
    job.userid = Uid::new(summary.userid);
    job.urgency =
        Urgency::new(i64::from(summary.urgency)).map_err(|error| broken("urgency", &error))?;
    job.flags = Flags::from_bits(summary.flags).map_err(|error| broken("flags", &error))?;
    job.priority = summary.priority;
    job.t_submit = Timestamp::from_secs(summary.t_submit);
    job.posted = summary.events;
    let known = |(description, open)| KnownDependency { description, open };
    job.dependencies = summary.dependencies.into_iter().map(known).collect();
    job.end_event = unread(summary.end, entry);
    job.annotations = unread(summary.annotations, object);
    job.resources = unread(summary.resources, |text| text.parse().ok().map(Arc::new));
    let mut record = Record::new(job);
    record.exception = unread(summary.exception, entry);
    record.data = unread(summary.data, object);
    record.times = Times::of(summary.times);
    record.wait_status = summary.wait_status;
    record.bypass = summary.bypass;
    record.immutable = summary.immutable;
    record.lines = summary.lines;
    record.exec_lines = summary.exec_lines;
    if record.job.event_posted("release") {
        record.exec = Exec::Done;
    }
    Ok(record)
}

/// Where a summary says something else of a job than the job's log; for tests, which compare them at
/// every restart.
pub(super) fn difference(record: &Record, summary: &str) -> Option<String> {
    let mut read = match read(record.job.id, summary) {
        Ok(read) => read,
        Err(error) => return Some(error.to_string()),
    };
    // Those that no event tells of end with the run, unless the job did before.
    read.job.annotations.clone_from(&record.job.annotations);
    let (said, logged) = (format!("{read:?}"), format!("{record:?}"));
    (said != logged).then(|| format!("summary: {said}\n    log: {logged}"))
}
