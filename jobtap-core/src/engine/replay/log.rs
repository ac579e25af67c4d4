//! The eventlog of one recorded job, and how far it was replayed.

use std::sync::Arc;

use super::api::RecordedJob;
use crate::eventlog::{EventEntry, decode_log};
use crate::job::{JobId, Timestamp};
use crate::jobspec::Jobspec;
use crate::resource::ResourceSet;

/// The eventlog of a job.
pub(super) struct Log {
    pub(super) id: JobId,
    /// Until it is submitted.
    pub(super) jobspec: Option<Jobspec>,
    /// Until it has them.
    pub(super) resources: Option<ResourceSet>,
    pub(super) entries: Vec<Arc<EventEntry>>,
    /// The next event.
    pub(super) next: usize,
}

impl Log {
    /// The events that are still to come.
    pub(super) fn upcoming(&self) -> &[Arc<EventEntry>] {
        self.entries.get(self.next..).unwrap_or_default()
    }

    /// Reads a job.
    ///
    /// # Errors
    /// What is wrong with its jobspec, its R or its eventlog.
    pub(super) fn read(job: RecordedJob) -> Result<Self, String> {
        let RecordedJob { id, eventlog, jobspec, resources } = job;
        let jobspec =
            Jobspec::stored(jobspec).map_err(|error| format!("jobspec: {}", error.text()))?;
        let entries = decode_log(&eventlog).map_err(|error| format!("eventlog: {error}"))?;
        if let Some(entry) = entries.iter().find(|entry| !is_usable(entry.timestamp)) {
            let (name, time) = (&entry.name, entry.timestamp.as_secs());
            return Err(format!("eventlog: the time of {name} is {time}"));
        }
        match entries.first() {
            None => return Err("eventlog: it has no events".to_owned()),
            Some(first) if first.name != "submit" => {
                return Err(format!("eventlog: it begins with {} instead of submit", first.name));
            }
            Some(_) => {}
        }
        let resources = resources.map(|text| text.parse()).transpose();
        let resources = resources.map_err(|error| format!("R: {error}"))?;
        let entries = entries.into_iter().map(Arc::new).collect();
        Ok(Self { id, jobspec: Some(jobspec), resources, entries, next: 0 })
    }
}

/// Whether a time can be replayed: positive and finite.
fn is_usable(time: Timestamp) -> bool {
    time.as_secs() > 0.0 && time.as_secs().is_finite()
}
