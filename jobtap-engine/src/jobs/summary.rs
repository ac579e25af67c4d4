//! The summary of an inactive job, in memory and in the store: one line of JSON with everything that listings, plugins
//! and waiters can ask for.
//!
//! A restart reads a million of these in the time in which it would replay a hundred thousand
//! eventlogs. A summary follows from the job's other keys: where it is missing or cannot be read, the
//! eventlog is replayed. What is large or seldom asked for stays text until something asks for it,
//! since most inactive jobs are only counted, and shown to plugins that count their users.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::execution::Phase;
use super::record::Record;
use crate::eventlog::{EventEntry, Name};
use crate::job::{Flags, JobId, State, Timestamp, Uid, Urgency};
use crate::jobspec::Jobspec;
use crate::json_text;
use crate::kept::{Annotations, Blank, KnownDependency, LoggedEvents, Times, Unread};

/// Why a summary cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct SummaryError(String);

/// The version of this form. A summary of another version is not read; the eventlog is replayed.
const FORM: u32 = 1;

/// The length that a summary without its jobspec seldom exceeds, in bytes.
const ROOM: usize = 1024;

/// A summary, as it is read. Values that are seldom asked for stay JSON that is not parsed.
#[derive(Deserialize)]
struct Summary<'t> {
    form: u32,
    userid: u32,
    urgency: u8,
    flags: u32,
    priority: Option<u32>,
    t_submit: f64,
    /// In the order of [`Times`].
    times: [Option<f64>; 7],
    wait_status: Option<i32>,
    #[serde(default)]
    bypass: bool,
    #[serde(default)]
    immutable: bool,
    lines: u64,
    exec_lines: u64,
    events: LoggedEvents,
    /// Each description, and whether the dependency was still open.
    #[serde(default)]
    dependencies: Vec<(Box<str>, bool)>,
    #[serde(borrow)]
    end: Option<&'t RawValue>,
    #[serde(borrow)]
    exception: Option<&'t RawValue>,
    #[serde(borrow)]
    annotations: Option<&'t RawValue>,
    #[serde(borrow)]
    data: Option<&'t RawValue>,
    #[serde(borrow)]
    jobspec: Option<&'t RawValue>,
    #[serde(borrow, rename = "R")]
    resources: Option<&'t RawValue>,
}

/// Writes the summary of an inactive job.
pub(crate) fn write(record: &Record) -> String {
    let job = record.job.kept();
    let jobspec = job.jobspec.text();
    let mut text = Members::new(ROOM + jobspec.len());
    text.integer("form", FORM);
    text.integer("userid", job.userid.as_u32());
    text.integer("urgency", job.urgency.value());
    text.integer("flags", job.flags.bits());
    if let Some(priority) = job.priority {
        text.integer("priority", priority);
    }
    text.time("t_submit", job.t_submit.as_secs());
    text.times("times", job.times.to_seconds());
    if let Some(status) = record.wait_status {
        text.integer("wait_status", status);
    }
    for (key, set) in
        [("bypass", record.set_flags.alloc_bypass), ("immutable", record.set_flags.immutable)]
    {
        if set {
            text.add(key, "true");
        }
    }
    text.integer("lines", record.lines.main);
    text.integer("exec_lines", record.lines.exec);
    text.serialized("events", &job.logged);
    if !job.dependencies.is_empty() {
        let known = job.dependencies.iter().map(|known| (&known.description, known.open));
        text.serialized("dependencies", &known.collect::<Vec<_>>());
    }
    text.event("end", job.end_event.as_deref());
    text.event("exception", record.exception.as_deref());
    text.object("annotations", &job.annotations);
    text.object("data", &record.data);
    text.add("jobspec", jobspec);
    match (job.resources.written(), job.resources.as_deref()) {
        (Some(written), _) => text.add("R", written),
        (None, Some(resources)) => text.add("R", &resources.to_json()),
        (None, None) => {}
    }
    text.finish()
}

/// An object, written member by member. Values that are JSON already are taken as they are; serde would parse them
/// again to validate them.
struct Members(Vec<u8>);

impl Members {
    /// Without members yet; `room` is the expected length in bytes.
    fn new(room: usize) -> Self {
        Self(Vec::with_capacity(room))
    }

    /// Adds a member.
    fn add(&mut self, key: &str, json: &str) {
        self.key(key);
        self.0.extend_from_slice(json.as_bytes());
    }

    fn key(&mut self, key: &str) {
        self.0.extend_from_slice(if self.0.is_empty() { b"{\"" } else { b",\"" });
        self.0.extend_from_slice(key.as_bytes());
        self.0.extend_from_slice(b"\":");
    }

    fn integer(&mut self, key: &str, number: impl itoa::Integer) {
        self.key(key);
        json_text::push_integer(&mut self.0, number);
    }

    fn time(&mut self, key: &str, seconds: f64) {
        self.key(key);
        json_text::push_time(&mut self.0, seconds);
    }

    fn times(&mut self, key: &str, times: [Option<f64>; 7]) {
        self.key(key);
        for (i, time) in times.into_iter().enumerate() {
            self.0.push(if i == 0 { b'[' } else { b',' });
            match time {
                Some(seconds) => json_text::push_time(&mut self.0, seconds),
                None => self.0.extend_from_slice(b"null"),
            }
        }
        self.0.push(b']');
    }

    fn serialized(&mut self, key: &str, value: &impl Serialize) {
        self.key(key);
        json_text::push(&mut self.0, value);
    }

    fn event(&mut self, key: &str, entry: Option<&EventEntry>) {
        if let Some(entry) = entry {
            self.key(key);
            entry.encode_to(&mut self.0);
            // Removes the newline at the entry's end.
            self.0.pop();
        }
    }

    fn object(&mut self, key: &str, members: &Map<String, Value>) {
        if !members.is_empty() {
            self.key(key);
            json_text::push_map(&mut self.0, members);
        }
    }

    fn finish(mut self) -> String {
        self.0.push(b'}');
        String::from_utf8(self.0).unwrap_or_default()
    }
}

/// A value that is parsed when something asks for it. A value that cannot be read counts as absent.
fn unread<T: Blank>(text: Option<&RawValue>, read: fn(&str) -> T) -> Unread<T> {
    text.map_or_else(Unread::default, |text| Unread::new(text.get(), read))
}

fn entry(text: &str) -> Option<Arc<EventEntry>> {
    EventEntry::decode(text).ok().map(Arc::new)
}

fn object(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap_or_default()
}

/// Reads a summary.
pub(crate) fn read(id: JobId, text: &str) -> Result<Record, SummaryError> {
    let broken = |what: &str, error: &dyn std::fmt::Display| {
        SummaryError(format!("summary: {what}: {error}"))
    };
    let summary: Summary<'_> =
        serde_json::from_str(text).map_err(|error| SummaryError(format!("summary: {error}")))?;
    if summary.form != FORM {
        return Err(SummaryError(format!("summary: form {} is unknown", summary.form)));
    }
    let jobspec = summary.jobspec.unwrap_or(RawValue::NULL);
    let mut record = Record::stored(id, Jobspec::stored_json(jobspec));
    let job = record.job.kept_mut();
    job.state = State::Inactive;
    job.userid = Uid::new(summary.userid);
    job.urgency =
        Urgency::new(i64::from(summary.urgency)).map_err(|error| broken("urgency", &error))?;
    job.flags = Flags::from_bits(summary.flags).map_err(|error| broken("flags", &error))?;
    job.priority = summary.priority;
    job.t_submit = Timestamp::from_secs(summary.t_submit);
    job.logged = summary.events;
    let known = |(description, open)| KnownDependency { description, open };
    job.dependencies = summary.dependencies.into_iter().map(known).collect();
    job.end_event = unread(summary.end, entry);
    job.annotations = summary
        .annotations
        .map_or_else(Annotations::default, |text| Annotations::unread(text.get(), object));
    job.resources = unread(summary.resources, |text| text.parse().ok().map(Arc::new));
    job.times = Times::from_seconds(summary.times);
    record.exception = unread(summary.exception, entry);
    record.data = unread(summary.data, object);
    record.wait_status = summary.wait_status;
    record.set_flags.alloc_bypass = summary.bypass;
    record.set_flags.immutable = summary.immutable;
    record.lines.main = summary.lines;
    record.lines.exec = summary.exec_lines;
    if record.job.has_event(&Name::Release) {
        record.execution.phase = Phase::Released;
    }
    Ok(record)
}

/// Describes where a summary differs from what the job's eventlog says; for tests, which compare them
/// at every restart.
pub(crate) fn difference(record: &Record, summary: &str) -> Option<String> {
    let mut read = match read(record.job.id(), summary) {
        Ok(read) => read,
        Err(error) => return Some(error.to_string()),
    };
    // Annotations that are in no event are lost at a restart, unless the job was inactive before.
    read.job.kept_mut().annotations.clone_from(&record.job.kept().annotations);
    // Only jobs that run are submitted again.
    read.execution.resubmitted = record.execution.resubmitted;
    let (said, logged) = (format!("{read:?}"), format!("{record:?}"));
    (said != logged).then(|| format!("summary: {said}\n    log: {logged}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::{Idset, ResourceSet};

    /// R in the summary of a job whose R was stored as this text.
    fn summarized(resources: &ResourceSet, text: &str) -> Value {
        let jobspec = Jobspec::stored("{}".to_owned()).unwrap();
        let mut record = Record::stored(JobId::new(1), jobspec);
        record.job.kept_mut().set_written_resources(resources.clone(), text);
        let summary: Value = serde_json::from_str(&write(&record)).unwrap();
        summary["R"].clone()
    }

    /// Earlier versions wrote null for what the job lacks; now it is missing.
    #[test]
    fn what_is_null_in_a_summary_is_absent() {
        let jobspec = Jobspec::stored("{}".to_owned()).unwrap();
        let record = Record::stored(JobId::new(1), jobspec);
        let text = write(&record);
        assert!(!text.contains("priority"));
        let earlier = text.replace("\"t_submit\"", "\"priority\":null,\"t_submit\"");
        assert_ne!(earlier, text);
        for text in [text, earlier] {
            assert_eq!(read(JobId::new(1), &text).unwrap().job.priority(), None);
        }
    }

    /// The key `scheduling` of R can be large, and the job doesn't show it.
    #[test]
    fn the_schedulers_own_part_of_r_is_not_in_a_summary() {
        let mut resources = ResourceSet::single_host("host", Idset::from_iter([0])).unwrap();
        let shown = resources.to_value();
        // The known text is taken as it is: it isn't written again.
        assert_eq!(summarized(&resources, "{\"known\":true}"), serde_json::json!({"known": true}));
        resources.set_scheduling(Some(serde_json::json!({"graph": []})));
        assert_eq!(summarized(&resources, &resources.to_json()), shown);
    }
}
