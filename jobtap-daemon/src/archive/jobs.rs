//! Reads the jobs in an archive, without the rest of it.

use std::collections::BTreeMap;
use std::path::Path;

use jobtap_core::engine::RecordedJob;
use jobtap_core::job::JobId;

use super::entries::{self, Visitor};
use super::error::ArchiveError;
use crate::store::{Key, StoreError};

/// Jobs as a manager has stored them, in the order of their ids.
#[derive(Debug, Default)]
pub struct RecordedJobs {
    /// Those that can be used.
    pub jobs: Vec<RecordedJob>,
    /// The others, each with the reason.
    pub unusable: Vec<(JobId, String)>,
}

/// The stored values of a job, by key.
pub(crate) type Values = BTreeMap<String, Vec<u8>>;

impl RecordedJobs {
    /// The keys of a job that are needed.
    pub const KEYS: [&str; 3] = [Key::EVENTLOG, Key::JOBSPEC, Key::R];

    /// Adds a job.
    pub fn add(&mut self, id: JobId, mut values: Values) {
        let mut text = |key: &str| match values.remove(key).map(String::from_utf8) {
            None => Ok(None),
            Some(Ok(text)) => Ok(Some(text)),
            Some(Err(_)) => Err(format!("its {key} is not UTF-8")),
        };
        let mut job = || {
            let needed = |key: &str, text: Option<String>| text.ok_or(format!("it has no {key}"));
            Ok(RecordedJob {
                id,
                eventlog: needed(Key::EVENTLOG, text(Key::EVENTLOG)?)?,
                jobspec: needed(Key::JOBSPEC, text(Key::JOBSPEC)?)?,
                resources: text(Key::R)?,
            })
        };
        match job() {
            Ok(job) => self.jobs.push(job),
            Err(reason) => self.unusable.push((id, reason)),
        }
    }
}

/// Reads the jobs of an archive.
///
/// # Errors
/// As [`restore`](super::restore) when the archive is damaged. Then nothing is returned, since jobs
/// would be missing.
pub fn of_archive(file: &Path) -> Result<RecordedJobs, ArchiveError> {
    let mut found = Found::default();
    entries::read(file, &mut found)?;
    let mut jobs = RecordedJobs::default();
    for (id, values) in found.0 {
        jobs.add(JobId::new(id), values);
    }
    Ok(jobs)
}

#[derive(Default)]
struct Found(BTreeMap<u64, Values>);

impl Visitor for Found {
    fn wants(&self, key: &Key) -> bool {
        key.job_id().is_some() && RecordedJobs::KEYS.contains(&key.name())
    }

    fn add(&mut self, key: Key, value: Vec<u8>) -> Result<(), ArchiveError> {
        if let Some(id) = key.job_id() {
            let values = self.0.entry(id).or_default();
            if values.insert(key.name().to_owned(), value).is_some() {
                return Err(StoreError::Sequence { key: key.to_string(), seq: 0 }.into());
            }
        }
        Ok(())
    }

    fn skip(&mut self, _: String) {}
}
