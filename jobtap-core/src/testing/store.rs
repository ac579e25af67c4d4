//! The store of a manager under test.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::engine::{
    ALLOCATION_LOG, ArrayKey, INSTANCE_DATA, JobLog, RESOURCE_LOG, RETAINED, StoredJob, Write,
};
use crate::job::JobId;

/// All committed data.
#[derive(Debug, Default, Clone)]
pub(super) struct MemoryStore {
    logs: BTreeMap<(JobId, JobLog), Vec<String>>,
    values: BTreeMap<(JobId, String), String>,
    instance: BTreeMap<String, String>,
    summaries: BTreeMap<JobId, String>,
}

impl MemoryStore {
    pub(super) fn commit(&mut self, writes: Vec<Write>) {
        for write in writes {
            match write {
                Write::Append { id, log, seq, lines: new } => {
                    let lines = self.logs.entry((id, log)).or_default();
                    assert_eq!(lines.len() as u64, seq, "the engine skipped a line of {id}");
                    let new = String::from_utf8_lossy(&new);
                    lines.extend(new.split_inclusive('\n').map(str::to_owned));
                }
                Write::Put { id, key, value } => {
                    self.values.insert((id, key.into_owned()), value);
                }
                Write::Share { id, key, with } => {
                    let value = self.instance.get(&with).cloned();
                    assert!(value.is_some(), "the engine shares {with}, which isn't stored");
                    self.values.extend(value.map(|value| ((id, key.to_owned()), value)));
                }
                Write::Accepted { .. } => {}
                Write::Inactive { id, summary } => {
                    self.summaries.insert(id, summary);
                }
                Write::Remove { id } => {
                    self.summaries.remove(&id);
                    self.logs.retain(|(job, _), _| *job != id);
                    self.values.retain(|(job, _), _| *job != id);
                }
                Write::AppendInstance { key, seq, line } => {
                    let log = self.instance.entry(key).or_default();
                    assert_eq!(log.lines().count() as u64, seq, "the engine skipped a line");
                    log.push_str(&line);
                }
                Write::PutInstance { key, value } => {
                    self.instance.insert(key, value);
                }
                Write::RemoveInstance { key } => {
                    self.instance.remove(&key);
                }
            }
        }
    }

    /// The lines of one of a job's logs.
    pub(super) fn log(&self, id: JobId, log: JobLog) -> &[String] {
        self.logs.get(&(id, log)).map_or(&[], Vec::as_slice)
    }

    /// The value of a key of RFC 16, of a job or of the instance.
    pub(super) fn kvs(&self, key: &str) -> Option<String> {
        let of_job = key.strip_prefix("job.").and_then(|rest| {
            // A job's directory has four groups of hexadecimal digits.
            let (end, _) = rest.match_indices('.').nth(3)?;
            let (id, name) = (rest.get(..end)?.parse().ok()?, rest.get(end + 1..)?);
            match name {
                "eventlog" => Some(self.log(id, JobLog::Main).concat()),
                name => self.values.get(&(id, name.to_owned())).cloned(),
            }
        });
        of_job.or_else(|| self.instance.get(key).cloned())
    }

    /// The checkpoint of the job manager.
    pub(super) fn checkpoint(&self) -> Value {
        let text = self.instance.get("checkpoint.job-manager");
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// The `resource.eventlog`.
    pub(super) fn resource_log(&self) -> &str {
        self.instance.get(RESOURCE_LOG).map_or("", String::as_str)
    }

    /// The `allocation.eventlog`.
    pub(super) fn allocation_log(&self) -> &str {
        self.instance.get(ALLOCATION_LOG).map_or("", String::as_str)
    }

    /// The data that plugins stored on the instance, by plugin.
    pub(super) fn instance_data(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.instance.iter();
        pairs.filter_map(|(key, text)| Some((key.strip_prefix(INSTANCE_DATA)?, text.as_str())))
    }

    /// The resources that plugins retain, by job and plugin.
    pub(super) fn retained(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.instance.iter();
        pairs.filter_map(|(key, text)| Some((key.strip_prefix(RETAINED)?, text.as_str())))
    }

    /// The value of an instance key.
    pub(super) fn instance(&self, key: &str) -> &str {
        self.instance.get(key).map_or("", String::as_str)
    }

    /// The arrays, in the order of their ids.
    pub(super) fn arrays(&self) -> Vec<JobId> {
        let mut ids: Vec<JobId> =
            self.instance.keys().filter_map(|key| ArrayKey::array_of_log(key)).collect();
        ids.sort_unstable();
        ids
    }

    /// All jobs by ascending id.
    pub(super) fn jobs(&self) -> Vec<StoredJob> {
        self.ids().map(|id| self.job(id)).collect()
    }

    /// The summary of an inactive job.
    pub(super) fn summary(&self, id: JobId) -> Option<&str> {
        self.summaries.get(&id).map(String::as_str)
    }

    /// The ids of all jobs in ascending order.
    pub(super) fn ids(&self) -> impl Iterator<Item = JobId> + '_ {
        let keys = self.logs.keys();
        keys.filter(|(_, log)| *log == JobLog::Main).map(|(id, _)| *id)
    }

    /// The JSON value under a key of a job.
    pub(super) fn value(&self, id: JobId, key: &str) -> Option<Value> {
        let text = self.values.get(&(id, key.to_owned()))?;
        serde_json::from_str(text).ok()
    }

    fn job(&self, id: JobId) -> StoredJob {
        let value = |key: &str| self.values.get(&(id, key.to_owned())).cloned();
        let from = (id, "data.".to_owned());
        let mut data = Map::new();
        for ((job, key), text) in self.values.range(from..) {
            let (true, Some(plugin)) = (*job == id, key.strip_prefix("data.")) else {
                break;
            };
            let stored = serde_json::from_str(text).unwrap_or(Value::Null);
            data.insert(plugin.to_owned(), stored);
        }
        StoredJob {
            id,
            eventlog: self.log(id, JobLog::Main).concat(),
            jobspec: value("jobspec").unwrap_or_default(),
            resources: value("R"),
            exec_lines: self.log(id, JobLog::Exec).len() as u64,
            data,
            annotations: value("annotations")
                .and_then(|text| serde_json::from_str(&text).ok())
                .unwrap_or_default(),
        }
    }
}
