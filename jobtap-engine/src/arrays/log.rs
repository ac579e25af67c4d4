//! The events in the eventlog of an array.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::array::ElementsError;
use crate::eventlog::{Context, EventEntry, LogError};
use crate::job::{JobId, JobResult, Timestamp, Uid, Urgency};
use crate::resource::Idset;

/// The array was accepted.
const SUBMIT: &str = "submit";
/// What has become of elements.
const ELEMENTS: &str = "elements";
/// The urgency of the elements that wait has changed.
const URGENCY: &str = "urgency";
/// The dependencies of the array are satisfied: further elements have none.
const DEPEND: &str = "depend";

/// An event of an array.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ArrayEvent {
    /// As the event of a job.
    Submit(Submit),
    Elements(Box<Changes>),
    Urgency(Changed),
    Depend,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Submit {
    pub(super) userid: Uid,
    pub(super) urgency: Urgency,
    pub(super) flags: u32,
    /// Whether plugins have changed the environment of the elements, so that `J` doesn't have it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) new_environment: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Changed {
    pub(super) urgency: Urgency,
    pub(super) userid: Uid,
}

/// Elements by what has become of them since the last event. All are indexes, as users know them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Changes {
    /// Those that have become jobs.
    #[serde(default, skip_serializing_if = "Idset::is_empty")]
    pub(super) made: Idset,
    /// Their jobs, in the order of the indexes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) jobs: Vec<JobId>,
    /// Those whose jobs have ended, by result.
    #[serde(default, skip_serializing_if = "Idset::is_empty")]
    pub(super) completed: Idset,
    #[serde(default, skip_serializing_if = "Idset::is_empty")]
    pub(super) failed: Idset,
    #[serde(default, skip_serializing_if = "Idset::is_empty")]
    pub(super) canceled: Idset,
    #[serde(default, skip_serializing_if = "Idset::is_empty")]
    pub(super) timeout: Idset,
    /// Those that were canceled before they became jobs.
    #[serde(default, skip_serializing_if = "Idset::is_empty")]
    pub(super) dropped: Idset,
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Those whose jobs have ended with this result.
    pub(super) fn with(&mut self, result: JobResult) -> &mut Idset {
        match result {
            JobResult::Completed => &mut self.completed,
            JobResult::Failed => &mut self.failed,
            JobResult::Canceled => &mut self.canceled,
            JobResult::Timeout => &mut self.timeout,
        }
    }

    /// Those that have ended, by result.
    pub(super) fn ended(&self) -> [(JobResult, &Idset); 4] {
        [
            (JobResult::Completed, &self.completed),
            (JobResult::Failed, &self.failed),
            (JobResult::Canceled, &self.canceled),
            (JobResult::Timeout, &self.timeout),
        ]
    }
}

impl ArrayEvent {
    /// The entry of the eventlog.
    pub(super) fn entry(&self, now: Timestamp) -> EventEntry {
        let (name, context) = match self {
            Self::Submit(submit) => (SUBMIT, serde_json::to_value(submit)),
            Self::Elements(changes) => (ELEMENTS, serde_json::to_value(changes)),
            Self::Urgency(changed) => (URGENCY, serde_json::to_value(changed)),
            Self::Depend => return EventEntry::new(now, DEPEND, None),
        };
        let context = match context {
            Ok(Value::Object(context)) => context,
            _ => Map::new(),
        };
        EventEntry::new(now, name, Some(context))
    }

    /// The event of an entry; `None` for one that this version doesn't know.
    pub(super) fn read(entry: &EventEntry) -> Result<Option<Self>, ArrayLogError> {
        let context = || {
            let members = entry.context.iter().flat_map(Context::iter);
            Value::Object(members.map(|(key, value)| (key.to_owned(), value.clone())).collect())
        };
        let damaged = |error| ArrayLogError::Event(entry.name.to_string(), error);
        match entry.name.as_str() {
            SUBMIT => serde_json::from_value(context()).map(Self::Submit),
            ELEMENTS => serde_json::from_value(context()).map(Self::Elements),
            DEPEND => Ok(Self::Depend),
            URGENCY => serde_json::from_value(context()).map(Self::Urgency),
            _ => return Ok(None),
        }
        .map(Some)
        .map_err(damaged)
    }
}

/// An array in the store can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ArrayLogError {
    /// A line is no event.
    #[error(transparent)]
    Log(#[from] LogError),
    /// An event says something else than such events say.
    #[error("the event {0} can't be read: {1}")]
    Event(String, serde_json::Error),
    /// The first event is missing.
    #[error("there is no event submit")]
    NoSubmit,
    /// The elements can't be read.
    #[error("elements: {0}")]
    Elements(serde_json::Error),
    /// The elements don't fit the jobspec.
    #[error(transparent)]
    Unfit(#[from] ElementsError),
    /// The jobspec can't be read.
    #[error("jobspec: {0}")]
    Jobspec(#[from] crate::jobspec::JobspecError),
}
