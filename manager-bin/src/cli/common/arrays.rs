//! Jobs that users name: by the id of a job or of a job array, in the forms of this manager and of Slurm. `7` is the job
//! or the whole array, `7_3`, `7_[1-4]` and `ƒ2oLkTLb[1-4]` are elements of an array.

use std::fmt;
use std::str::FromStr;

use jobtap_core::array::Element;
use jobtap_core::job::JobId;
use jobtap_core::resource::Idset;
use serde_json::Value;

use super::ids::Target;
use super::indexes::{IndexError, Indexes};
use super::message::CliError;
use crate::client::{Client, RpcError};
use crate::rpc::errno::ENOENT;
use crate::rpc::services::job_info::Lookup;
use crate::rpc::services::job_list::{Elements, GetArray, ListElements};
use crate::rpc::services::job_manager::{Raise, RaiseElements};

/// The number of jobs that are asked for at once.
const AT_ONCE: usize = 256;

/// An element in Slurm's form: `7_3`.
pub(in crate::cli) fn shown(Element { array, index }: Element) -> String {
    format!("{}_{index}", array.as_u64())
}

/// What a word of the command line names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Named {
    pub(in crate::cli) id: JobId,
    which: Which,
    typed: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Which {
    /// The job, or the whole array.
    Whole,
    /// The elements with these indexes.
    Elements(Idset),
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
        let bracketed = text.strip_suffix(']').and_then(|text| text.split_once('['));
        let (id, indexes) = match (bracketed, text.split_once('_')) {
            // `7_[1-4]` has both.
            (Some((id, list)), _) => (id.strip_suffix('_').unwrap_or(id), Some(list)),
            (None, Some((id, list))) => (id, Some(list)),
            (None, None) => (text, None),
        };
        let which = match indexes {
            None | Some("*") => Which::Whole,
            Some(list) => {
                let wrong = |error| NamedError::Indexes { typed: typed.clone(), error };
                Which::Elements(Indexes::parse(list).map_err(wrong)?.all)
            }
        };
        let id = id.parse().map_err(|_| NamedError::Id(text.to_owned()))?;
        Ok(Self { id, which, typed })
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.typed)
    }
}

/// A request to cancel what a word names.
pub(in crate::cli) enum Cancel {
    /// A job, or a whole array.
    Whole(Raise),
    /// Elements of an array.
    Elements(RaiseElements),
}

impl Cancel {
    /// Sends the request.
    pub(in crate::cli) async fn send(self, client: &Client) -> Result<(), RpcError> {
        match self {
            Self::Whole(raise) => client.call(raise).await.map(drop),
            Self::Elements(raise) => client.call(raise).await.map(drop),
        }
    }
}

impl Named {
    /// The job with this id.
    pub(in crate::cli) fn job(id: JobId) -> Self {
        Self { id, which: Which::Whole, typed: id.as_u64().to_string() }
    }

    /// The elements of an array with these indexes.
    pub(in crate::cli) fn elements(id: JobId, indexes: Idset) -> Self {
        let typed = format!("{}_[{indexes}]", id.as_u64());
        Self { id, which: Which::Elements(indexes), typed }
    }

    /// Whether a job with this id, at this place in an array, is meant.
    pub(in crate::cli) fn means(&self, job: JobId, place: Option<Element>) -> bool {
        let is_in = |place: Element| place.array == self.id;
        match &self.which {
            Which::Whole => job == self.id || place.is_some_and(is_in),
            Which::Elements(indexes) => {
                place.is_some_and(|place| is_in(place) && indexes.contains(place.index))
            }
        }
    }

    /// The indexes, if elements are named.
    pub(in crate::cli) fn indexes(&self) -> Option<&Idset> {
        match &self.which {
            Which::Whole => None,
            Which::Elements(indexes) => Some(indexes),
        }
    }

    /// The request to cancel it.
    pub(in crate::cli) fn cancel(&self, note: String) -> Cancel {
        let raise = Raise::cancel(self.id, note);
        match &self.which {
            Which::Whole => Cancel::Whole(raise),
            Which::Elements(indexes) => {
                Cancel::Elements(RaiseElements { raise, indexes: indexes.clone() })
            }
        }
    }

    /// The jobs. Elements of an array that aren't jobs yet are left out.
    ///
    /// # Errors
    /// The array has no element with an index, or can't be read.
    pub(in crate::cli) async fn jobs(&self, client: &Client) -> Result<Vec<JobId>, CliError> {
        let found = self.found(client, false).await?;
        Ok(found.map_or_else(|| vec![self.id], |elements| elements.jobs.into_values().collect()))
    }

    /// The elements of an array that aren't jobs yet; none if it is no array.
    ///
    /// # Errors
    /// The array can't be read.
    pub(in crate::cli) async fn waiting(&self, client: &Client) -> Result<Idset, RpcError> {
        match client.call(GetArray { id: self.id }).await {
            Ok(array) => Ok(match self.indexes() {
                None => array.waiting,
                Some(indexes) => array.waiting.intersection(indexes),
            }),
            Err(error) if error.errno == ENOENT => Ok(Idset::new()),
            Err(error) => Err(error),
        }
    }

    /// The elements of an array that are jobs, `active` ones or all; `None` if it is no array.
    ///
    /// # Errors
    /// As those of [`jobs`](Self::jobs).
    pub(in crate::cli) async fn found(
        &self,
        client: &Client,
        active: bool,
    ) -> Result<Option<Elements>, CliError> {
        let missing = |index: &dyn fmt::Display| {
            CliError::failure(format!("{self}: there is no job {}_{index}", self.id.as_u64()))
        };
        let (id, indexes) = (self.id, self.indexes().cloned());
        let found = match client.call(ListElements { id, indexes, active }).await {
            Ok(found) => found,
            Err(error) if error.errno == ENOENT => {
                return match self.indexes() {
                    None => Ok(None),
                    Some(indexes) => Err(missing(indexes)),
                };
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(indexes) = self.indexes() {
            let all = client.call(GetArray { id }).await?.indexes;
            if let Some(index) = indexes.difference(&all).first() {
                return Err(missing(&index));
            }
        }
        Ok(Some(found))
    }
}

/// The one job that a word names, by its id or as an element of an array.
///
/// # Errors
/// The word is no id, there is no such element, or the element isn't a job yet.
pub(in crate::cli) async fn target(typed: &str, client: &Client) -> Result<Target, CliError> {
    if !typed.ends_with(']') {
        return Target::parse(typed);
    }
    let named: Named = typed.parse().map_err(CliError::failure)?;
    if named.indexes().is_some_and(|indexes| indexes.len() != 1) {
        return Err(CliError::failure(format!("{typed}: name one element")));
    }
    let id = named.jobs(client).await?.first().copied();
    let waits = || CliError::failure(format!("{typed}: it isn't a job yet: its turn has not come"));
    Ok(Target { id: id.ok_or_else(waits)?, typed: typed.to_owned() })
}

/// Refuses the id of an array where one job is meant.
///
/// # Errors
/// The id is that of an array.
pub(in crate::cli) async fn no_array(target: &Target, client: &Client) -> Result<(), CliError> {
    match client.call(GetArray { id: target.id }).await {
        Err(_) => Ok(()),
        Ok(_) => {
            let typed = &target.typed;
            let text = format!("{typed} is a job array: name an element, such as {typed}[0]");
            Err(CliError::failure(text))
        }
    }
}

/// Replaces elements of arrays in a text of Slurm's dependencies, `afterok:7_1`, by the ids of their jobs.
///
/// # Errors
/// An id is no id, an array has no such element, or the element isn't a job yet.
pub(in crate::cli) async fn without_indexes(
    text: &str,
    client: &Client,
) -> Result<String, CliError> {
    let mut new = String::new();
    for word in text.split_inclusive([',', '?', ':', '+']) {
        let end = word.trim_end_matches([',', '?', ':', '+']).len();
        let (id, separator) = word.split_at_checked(end).unwrap_or_default();
        if !is_indexed(id) {
            new.push_str(word);
            continue;
        }
        let named: Named = id.parse().map_err(CliError::failure)?;
        let ids = named.jobs(client).await?;
        if ids.len() < named.indexes().map_or(0, Idset::len) {
            let text = format!("{id}: it isn't a job yet; depend on the whole array");
            return Err(CliError::failure(text));
        }
        let texts: Vec<String> = ids.iter().map(|id| id.as_u64().to_string()).collect();
        new.push_str(&texts.join(":"));
        new.push_str(separator);
    }
    Ok(new)
}

/// Whether a text names elements of an array by their indexes.
pub(in crate::cli) fn is_indexed(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('_').is_some_and(|(id, index)| digits(id) && index != "*")
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
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_name_arrays_and_their_elements() {
        let jobspec = json!({"attributes": {"system": {"slurm":
            {"array_job_id": 7, "array_task_id": 3}}}});
        let third = Element::of(&jobspec);
        let named = |text: &str| {
            let named: Named = text.parse().unwrap();
            [(JobId::new(9), third), (JobId::new(7), None), (JobId::new(8), None)]
                .map(|(job, place)| named.means(job, place))
        };
        for whole in ["7", "7_*", "ƒ8", "0x7"] {
            assert_eq!(named(whole), [true, true, false], "{whole}");
        }
        for elements in ["7_3", "7_[1,3-5]", "ƒ8[3]", "7[0-9]"] {
            assert_eq!(named(elements), [true, false, false], "{elements}");
        }
        assert_eq!(named("9"), [true, false, false]);
        assert_eq!(named("7_4"), [false, false, false]);
        for (text, wrong) in [
            ("7_x", "Invalid job id: 7_x: 'x' is not an index: use N, N-M or N-M:STEP"),
            ("7[]", "Invalid job id: 7[]: '' is not an index: use N, N-M or N-M:STEP"),
            ("a b", "Invalid job id: a b"),
            ("_3", "Invalid job id: _3"),
        ] {
            assert_eq!(text.parse::<Named>().unwrap_err().to_string(), wrong);
        }
    }

    #[test]
    fn only_numbers_with_an_index_are_elements_of_arrays() {
        assert!(is_indexed("7_3") && is_indexed("7_[1-2]"));
        assert!(!is_indexed("7") && !is_indexed("7_*") && !is_indexed("a_3") && !is_indexed(""));
    }
}
