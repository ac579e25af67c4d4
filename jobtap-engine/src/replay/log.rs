//! The eventlog of one recorded job, and how far it was replayed.

use std::sync::Arc;

use super::api::RecordedJob;
use crate::eventlog::{EventEntry, LogError, Name, decode_log};
use crate::job::{JobId, Timestamp};
use crate::jobspec::{Jobspec, JobspecError};
use crate::resource::{ResourceError, ResourceSet};

/// The eventlog of a job.
pub(super) struct Log {
    pub(super) id: JobId,
    /// The jobspec, until the job is submitted.
    pub(super) jobspec: Option<Jobspec>,
    /// The resources, until they are allocated to the job.
    pub(super) resources: Option<ResourceSet>,
    pub(super) entries: Vec<Arc<EventEntry>>,
    /// The index of the next event.
    pub(super) next: usize,
}

/// Why a recorded job can't be replayed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(super) enum RecordedJobError {
    #[error("jobspec: {}", .0.text())]
    Jobspec(JobspecError),
    #[error("eventlog: {0}")]
    Eventlog(LogError),
    #[error("eventlog: the time of {name} is {time}")]
    Time { name: Name, time: f64 },
    #[error("eventlog: it has no events")]
    NoEvents,
    #[error("eventlog: it begins with {0} instead of submit")]
    NoSubmit(Name),
    #[error("R: {0}")]
    Resources(ResourceError),
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
    pub(super) fn read(job: RecordedJob) -> Result<Self, RecordedJobError> {
        let RecordedJob { id, eventlog, jobspec, resources } = job;
        let jobspec = Jobspec::stored(jobspec).map_err(RecordedJobError::Jobspec)?;
        let entries = decode_log(&eventlog).map_err(RecordedJobError::Eventlog)?;
        if let Some(entry) = entries.iter().find(|entry| !is_usable(entry.timestamp)) {
            let (name, time) = (entry.name.clone(), entry.timestamp.as_secs());
            return Err(RecordedJobError::Time { name, time });
        }
        match entries.first() {
            None => return Err(RecordedJobError::NoEvents),
            Some(first) if first.name != Name::Submit => {
                return Err(RecordedJobError::NoSubmit(first.name.clone()));
            }
            Some(_) => {}
        }
        let resources = resources.map(|text| text.parse()).transpose();
        let resources = resources.map_err(RecordedJobError::Resources)?;
        let entries = entries.into_iter().map(Arc::new).collect();
        Ok(Self { id, jobspec: Some(jobspec), resources, entries, next: 0 })
    }
}

/// Whether a time can be replayed: positive and finite.
fn is_usable(time: Timestamp) -> bool {
    time.as_secs() > 0.0 && time.as_secs().is_finite()
}
