//! What handlers return, and how it becomes the [`Outcome`] that a host reads.

use serde::Serialize;
use serde_json::{Map, Value};

use super::failure::{EpilogFailed, HandlerError, PrologFailed, Reject};
use super::update::Update;
use crate::host::values::allocation::Plan;
use crate::host::{ConfError, Failure, Outcome, Priority};
use crate::plugin::cx::annotations::Annotations;
use crate::plugin::cx::arguments::IsJson;
use crate::resource::ResourceSet;
use crate::topic::{
    PluginQuery, ReturnsAnnotations, ReturnsConf, ReturnsEnd, ReturnsFault, ReturnsPlan,
    ReturnsPriority, ReturnsQuery, ReturnsResources, ReturnsUnit, ReturnsUpdate, ReturnsVerdict,
    TopicSet,
};

/// What a plugin reports for `jobtap plugin query NAME`. The manager adds the keys `name` and `path`.
///
/// ```
/// use jobtap_core::plugin::QueryData;
///
/// let data = QueryData::new().with("jobs", 3).with("limit", 10);
/// assert_eq!(data.into_map().len(), 2);
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QueryData(Map<String, Value>);

impl QueryData {
    /// No keys but those of the manager.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a key.
    pub fn with(mut self, key: impl Into<String>, value: impl IsJson) -> Self {
        self.0.insert(key.into(), value.into_json());
        self
    }

    /// The fields of a struct, or the entries of a map.
    ///
    /// # Errors
    /// When `data` is not written as a JSON object.
    pub fn of(data: &impl Serialize) -> Result<Self, HandlerError> {
        match serde_json::to_value(data)? {
            Value::Object(map) => Ok(Self(map)),
            _ => Err(HandlerError::new("query data is an object: take a struct or a map")),
        }
    }

    /// The report as a JSON object.
    pub fn into_map(self) -> Map<String, Value> {
        self.0
    }
}

/// Types that a handler of topic `T` may return.
#[diagnostic::on_unimplemented(
    message = "a handler of `{T}` can't return `{Self}`",
    label = "not a return type of this topic",
    note = "return `()`, `Priority` where a priority is asked, `Annotations`, `Update` from `job.update.KEY`, `Plan` from `allocation.plan`, `QueryData` from `plugin.query`, the `answer` of a topic of your own, or a `Result` of one of them: with `Reject` in gates (`job.validate`, `job.dependency.SCHEME`), `ConfError` in `conf.update`, `HandlerError` elsewhere"
)]
pub trait IntoOutcome<T: TopicSet> {
    /// Converts the return value.
    ///
    /// # Errors
    /// The handler's own error.
    fn into_outcome(self) -> Result<Outcome, Failure>;
}

impl<T: ReturnsUnit> IntoOutcome<T> for () {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        Ok(Outcome::default())
    }
}

impl<T: ReturnsPriority> IntoOutcome<T> for Priority {
    #[inline]
    fn into_outcome(self) -> Result<Outcome, Failure> {
        Ok(Outcome::priority(self))
    }
}

impl<T: ReturnsAnnotations> IntoOutcome<T> for Annotations {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        Ok(Outcome::with(|more| more.annotations = Some(self.into_map())))
    }
}

impl<T: ReturnsPriority + ReturnsAnnotations> IntoOutcome<T> for (Priority, Annotations) {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        let mut outcome = Outcome::with(|more| more.annotations = Some(self.1.into_map()));
        outcome.priority = self.0;
        Ok(outcome)
    }
}

impl<T: ReturnsResources> IntoOutcome<T> for ResourceSet {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        Ok(Outcome::with(|more| more.resources = Some(self)))
    }
}

impl<T: ReturnsUpdate> IntoOutcome<T> for Update {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        Ok(Outcome::with(|more| more.update = Some(self.0)))
    }
}

impl<T: ReturnsPlan> IntoOutcome<T> for Plan {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        Ok(Outcome::with(|more| more.plan = Some(self)))
    }
}

impl<T: ReturnsQuery> IntoOutcome<T> for QueryData {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        Ok(Outcome::with(|more| more.query = Some(self.into_map())))
    }
}

/// `None` decides nothing.
impl<T: TopicSet, O: IntoOutcome<T>> IntoOutcome<T> for Option<O> {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        self.map_or_else(|| Ok(Outcome::default()), O::into_outcome)
    }
}

impl<T: TopicSet, O: IntoOutcome<T>, E: IntoFailure<T>> IntoOutcome<T> for Result<O, E> {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        match self {
            Ok(value) => value.into_outcome(),
            Err(error) => Err(error.into_failure()),
        }
    }
}

/// Types that a handler of topic `T` may fail with.
#[diagnostic::on_unimplemented(
    message = "a handler of `{T}` can't fail with `{Self}`",
    label = "not an error type of this topic",
    note = "use `Reject` in gates (`job.validate`, `job.dependency.SCHEME`, `job.update.KEY`), `ConfError` in `conf.update`, `HandlerError` elsewhere; `?` converts any `std::error::Error` into them, and `.or_reject()?` or `.or_error()?` any other error"
)]
pub trait IntoFailure<T: TopicSet> {
    /// Converts the error.
    fn into_failure(self) -> Failure;
}

impl<T: ReturnsVerdict> IntoFailure<T> for Reject {
    fn into_failure(self) -> Failure {
        Failure::Reject(self.text().to_owned())
    }
}

impl<T: ReturnsConf> IntoFailure<T> for ConfError {
    fn into_failure(self) -> Failure {
        Failure::Reject(self.text().to_owned())
    }
}

impl<T: ReturnsFault> IntoFailure<T> for HandlerError {
    fn into_failure(self) -> Failure {
        Failure::Error(self.text().to_owned())
    }
}

/// Exists for the compile error of its bound: no prolog is started for a handler that is not `async`.
impl<T: ReturnsEnd> IntoFailure<T> for PrologFailed {
    fn into_failure(self) -> Failure {
        Failure::Error(self.text().to_owned())
    }
}

/// Exists for the compile error, as for [`PrologFailed`].
impl<T: ReturnsEnd> IntoFailure<T> for EpilogFailed {
    fn into_failure(self) -> Failure {
        Failure::Error(self.text().to_owned())
    }
}

impl IntoFailure<PluginQuery> for HandlerError {
    fn into_failure(self) -> Failure {
        Failure::Error(self.text().to_owned())
    }
}
