//! What a plugin tells of itself, for `plugin.query`.

use serde::Serialize;
use serde_json::{Map, Value};

use super::failure::HandlerError;
use super::given::IsJson;

/// The answer to `jobtap plugin query NAME`: keys beside the `name` and `path` that the manager
/// fills in.
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
    /// Nothing but what the manager fills in.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more key.
    pub fn with(mut self, key: impl Into<String>, value: impl IsJson) -> Self {
        self.0.insert(key.into(), value.into_json());
        self
    }

    /// The fields of a struct.
    ///
    /// # Errors
    /// When it isn't written as an object.
    pub fn of(data: &impl Serialize) -> Result<Self, HandlerError> {
        match serde_json::to_value(data)? {
            Value::Object(map) => Ok(Self(map)),
            _ => Err(HandlerError::new("query data is an object: take a struct or a map")),
        }
    }

    /// The keys.
    pub fn into_map(self) -> Map<String, Value> {
        self.0
    }
}
