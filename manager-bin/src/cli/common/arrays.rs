//! Job arrays of `sbatch` by Slurm's ids. An array is a job for each of its indexes, and its id is that of the first
//! one: `7` names the whole array, `7_3` and `7_[1-4]` jobs of it.
//!
//! A job says in its jobspec which array it belongs to, so the others are found among the jobs that the same user has
//! submitted after the first.

use std::fmt;
use std::str::FromStr;

use jobtap_core::job::JobId;
use jobtap_core::jobspec::path;
use serde_json::{Value, json};

use super::indexes::{IndexError, Indexes};
use super::message::CliError;
use crate::client::Client;
use crate::rpc::services::job_info::Lookup;
use crate::rpc::services::job_list::{Constraint, List, ListId};

/// The schemes of dependencies on a job that Slurm has words for.
const SCHEMES: [&str; 4] = ["afterstart", "afterany", "afterok", "afternotok"];

/// The number of other jobs, submitted between those of an array, that are searched.
const BETWEEN: usize = 1000;

/// The number of jobs that are asked for at once.
const AT_ONCE: usize = 256;

/// What a jobspec says about the array that its job belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) struct Place {
    /// The array; `None` in its first job.
    array: Option<JobId>,
    pub(in crate::cli) index: u32,
    count: usize,
}

impl Place {
    /// The place that `attributes.system.slurm` of the jobspec names, if the job belongs to an array.
    pub(in crate::cli) fn of_jobspec(jobspec: &Value) -> Option<Self> {
        let number = |key: &str| {
            path::get(jobspec, &format!("attributes.system.slurm.{key}")).and_then(Value::as_u64)
        };
        Some(Self {
            array: number("array_job_id").map(JobId::new),
            index: number("array_task_id")?.try_into().ok()?,
            count: number("array_task_cnt")?.try_into().ok()?,
        })
    }

    /// The id of the array, for the job with this id.
    pub(in crate::cli) fn array(&self, job: JobId) -> JobId {
        self.array.unwrap_or(job)
    }

    /// The job with this id in Slurm's form: `7_3`.
    pub(in crate::cli) fn shown(&self, job: JobId) -> String {
        format!("{}_{}", self.array(job).as_u64(), self.index)
    }
}

/// A job of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    id: JobId,
    index: u32,
}

/// Jobs that the user names by an id of this manager or of Slurm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Named {
    id: JobId,
    which: Which,
    typed: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Which {
    /// The job with this id, in a form that Slurm doesn't have.
    Job,
    /// The whole array, or the job if it is in none.
    All,
    /// Those with these indexes.
    Indexes(Indexes),
}

/// A text that names no jobs.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::cli) enum NamedError {
    #[error("Invalid job id: {0}")]
    Id(String),
    #[error("Invalid job id: {typed}: {error}")]
    Indexes { typed: String, error: IndexError },
}

impl FromStr for Named {
    type Err = NamedError;

    fn from_str(text: &str) -> Result<Self, NamedError> {
        let typed = text.to_owned();
        let (id, indexes) = match text.split_once('_') {
            Some((id, indexes)) => (id, Some(indexes)),
            None => (text, None),
        };
        let invalid = |_| NamedError::Id(text.to_owned());
        let which = match indexes {
            None if text.bytes().all(|byte| byte.is_ascii_digit()) => Which::All,
            None => Which::Job,
            Some("*") => Which::All,
            Some(list) => {
                let bare = list.strip_prefix('[').and_then(|list| list.strip_suffix(']'));
                let indexes = Indexes::parse(bare.unwrap_or(list));
                let wrong = |error| NamedError::Indexes { typed: typed.clone(), error };
                Which::Indexes(indexes.map_err(wrong)?)
            }
        };
        Ok(Self { id: id.parse().map_err(invalid)?, which, typed })
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.typed)
    }
}

impl Named {
    /// Whether a job with this id, at this place in an array, is meant.
    pub(in crate::cli) fn means(&self, job: JobId, place: Option<Place>) -> bool {
        let array = place.map_or(job, |place| place.array(job));
        match &self.which {
            Which::Job => job == self.id,
            Which::All => job == self.id || array == self.id,
            Which::Indexes(indexes) => {
                array == self.id && place.is_some_and(|place| indexes.all.contains(&place.index))
            }
        }
    }

    /// The jobs.
    ///
    /// # Errors
    /// The array has no job with an index, or can't be read.
    pub(in crate::cli) async fn jobs(&self, client: &Client) -> Result<Vec<JobId>, CliError> {
        let Which::Indexes(indexes) = &self.which else {
            let parts = match self.which {
                Which::All => parts(client, self.id).await,
                _ => Vec::new(),
            };
            return Ok(match parts.is_empty() {
                true => vec![self.id],
                false => parts.iter().map(|part| part.id).collect(),
            });
        };
        let parts = parts(client, self.id).await;
        let job = |index: &u32| {
            // A requeued job has the index of the one that it replaces.
            let part = parts.iter().rev().find(|part| part.index == *index);
            let missing = || {
                CliError::failure(format!("{self}: there is no job {}_{index}", self.id.as_u64()))
            };
            Ok(part.ok_or_else(missing)?.id)
        };
        indexes.all.iter().map(job).collect()
    }
}

/// Replaces the jobs of arrays in a text of Slurm's dependencies, `afterok:7_1`, by their ids. Returns the text, and
/// these ids.
///
/// # Errors
/// An id is no id, or an array has no such job.
pub(in crate::cli) async fn without_indexes(
    text: &str,
    client: &Client,
) -> Result<(String, Vec<JobId>), CliError> {
    let (mut new, mut single) = (String::new(), Vec::new());
    for word in text.split_inclusive([',', '?', ':', '+']) {
        let end = word.trim_end_matches([',', '?', ':', '+']).len();
        let (id, separator) = word.split_at_checked(end).unwrap_or_default();
        if !is_indexed(id) {
            new.push_str(word);
            continue;
        }
        let named: Named = id.parse().map_err(CliError::failure)?;
        let ids = named.jobs(client).await?;
        let texts: Vec<String> = ids.iter().map(|id| id.as_u64().to_string()).collect();
        single.extend(ids);
        new.push_str(&texts.join(":"));
        new.push_str(separator);
    }
    Ok((new, single))
}

/// Whether a text names jobs of an array by their indexes.
pub(in crate::cli) fn is_indexed(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('_').is_some_and(|(id, index)| digits(id) && index != "*")
}

/// The dependencies on the other jobs of the arrays that these dependencies name, except for those on `single` jobs. In
/// Slurm the number of an array stands for all of its jobs.
pub(in crate::cli) async fn others(
    client: &Client,
    dependencies: &[Value],
    single: &[JobId],
) -> Vec<Value> {
    let mut all = Vec::new();
    for dependency in dependencies {
        let text = |key: &str| dependency.get(key).and_then(Value::as_str).unwrap_or_default();
        let scheme = text("scheme");
        let (id, delay) = match text("value").split_once('+') {
            Some((id, delay)) => (id, format!("+{delay}")),
            None => (text("value"), String::new()),
        };
        let first = id.parse().ok().filter(|_| SCHEMES.contains(&scheme));
        let Some(first) = first.filter(|first| !single.contains(first)) else { continue };
        for part in parts(client, first).await.iter().skip(1) {
            all.push(additional(scheme, &format!("{}{delay}", part.id.as_u64())));
        }
    }
    all
}

/// A dependency that follows from the array, and that the user has not requested. The additional key marks it: plugins
/// of Slurm don't see it.
pub(in crate::cli) fn additional(scheme: &str, value: &str) -> Value {
    json!({"scheme": scheme, "value": value, "array": true})
}

/// The jobs of the array whose first job is `first`, in the order of their submission; empty if it isn't the first job
/// of an array.
async fn parts(client: &Client, first: JobId) -> Vec<Part> {
    let place = places(client, &[first]).await.pop().flatten();
    let Some(place) = place.filter(|place| place.array.is_none()) else { return Vec::new() };
    let mut found = vec![Part { id: first, index: place.index }];
    let others = place.count.saturating_sub(1);
    let mut later = later(client, first).await;
    later.truncate(others.saturating_add(BETWEEN));
    for ids in later.chunks(AT_ONCE) {
        for (id, place) in ids.iter().zip(places(client, ids).await) {
            if let Some(place) = place.filter(|place| place.array == Some(first)) {
                found.push(Part { id: *id, index: place.index });
            }
        }
    }
    found
}

/// The jobs of the same user that were submitted after this one, in their order.
async fn later(client: &Client, first: JobId) -> Vec<JobId> {
    let job = client.call(ListId { id: first, attrs: &["userid"] }).await.unwrap_or_default().job;
    let user = job.get("userid").and_then(Value::as_u64).and_then(|user| user.try_into().ok());
    let user = user.unwrap_or_else(|| rustix::process::getuid().as_raw());
    let user = Constraint::Userid(vec![user]);
    let list = List { max_entries: Some(0), constraint: Some(user.into()), ..List::default() };
    let jobs = client.call(list).await.map(|response| response.jobs).unwrap_or_default();
    let ids = jobs.iter().filter_map(|job| job.get("id")?.as_u64()).map(JobId::new);
    let mut ids: Vec<JobId> = ids.filter(|id| *id > first).collect();
    ids.sort_unstable();
    ids
}

/// The places of jobs in their arrays; `None` for a job that is in no array, or that the user may not read.
async fn places(client: &Client, ids: &[JobId]) -> Vec<Option<Place>> {
    let jobspecs = jobspecs(client, ids).await.into_iter();
    jobspecs.map(|jobspec| Place::of_jobspec(&jobspec.ok()?)).collect()
}

/// The jobspecs of jobs with their updates. The error of one is that it doesn't exist, or that the user may not read it.
pub(in crate::cli) async fn jobspecs(
    client: &Client,
    ids: &[JobId],
) -> Vec<Result<Value, CliError>> {
    let mut found = Vec::with_capacity(ids.len());
    for ids in ids.chunks(AT_ONCE) {
        let requests = ids.iter().map(|id| Lookup::key(*id, "jobspec").current());
        for response in client.call_all(requests).await {
            let parse = |text: &str| serde_json::from_str(text).map_err(CliError::failure);
            found.push(response.map_err(CliError::from).and_then(|v| parse(v.get("jobspec"))));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(jobspec: Value) -> Option<Place> {
        Place::of_jobspec(&json!({"attributes": {"system": {"slurm": jobspec}}}))
    }

    #[test]
    fn ids_of_slurm_name_arrays_and_their_jobs() {
        let second = place(json!({"array_job_id": 7, "array_task_id": 3, "array_task_cnt": 2}));
        let first = place(json!({"array_task_id": 1, "array_task_cnt": 2}));
        let named = |text: &str| {
            let named: Named = text.parse().unwrap();
            let jobs = [(JobId::new(7), first), (JobId::new(9), second), (JobId::new(8), None)];
            jobs.map(|(job, place)| named.means(job, place))
        };
        assert_eq!(named("7"), [true, true, false]);
        assert_eq!(named("7_*"), [true, true, false]);
        assert_eq!(named("7_3"), [false, true, false]);
        assert_eq!(named("7_[1,3-5]"), [true, true, false]);
        assert_eq!(named("9"), [false, true, false]);
        // Not in Slurm's form: this job alone.
        assert_eq!(named("0x7"), [true, false, false]);
        for (text, wrong) in [
            ("7_x", "Invalid job id: 7_x: 'x' is not an index: use N, N-M or N-M:STEP"),
            ("a b", "Invalid job id: a b"),
            ("_3", "Invalid job id: _3"),
        ] {
            assert_eq!(text.parse::<Named>().unwrap_err().to_string(), wrong);
        }
    }

    #[test]
    fn only_numbers_with_an_index_are_jobs_of_arrays() {
        assert!(is_indexed("7_3") && is_indexed("7_[1-2]"));
        assert!(!is_indexed("7") && !is_indexed("7_*") && !is_indexed("a_3") && !is_indexed(""));
    }
}
