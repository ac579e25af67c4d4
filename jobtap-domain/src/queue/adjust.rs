//! The changes that a queue makes to a jobspec at submission, before validation: the defaults of the
//! policy, and the properties that the queue requires (Flux's frobnicator plugins `defaults` and
//! `constraints`).

use serde_json::{Map, Value, json};

use super::queues::{Queue, Queues};
use crate::jobspec::Jobspec;
use crate::suggest::nearest;

const DURATION: &str = "attributes.system.duration";
const QUEUE: &str = "attributes.system.queue";
const CONSTRAINTS: &str = "attributes.system.constraints";

/// Why no queue can be determined for a submission.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdjustError {
    /// The queues have names, but neither the jobspec nor the policy names one.
    #[error("no queue specified")]
    NoQueue,
    /// The jobspec names a queue that doesn't exist.
    #[error("Invalid queue '{name}' specified{}", hint(.meant.as_deref()))]
    Invalid {
        /// The name in the jobspec.
        name: String,
        /// The queue that was probably meant.
        meant: Option<String>,
    },
}

fn hint(meant: Option<&str>) -> String {
    meant.map(|meant| format!("; did you mean '{meant}'?")).unwrap_or_default()
}

impl Queues {
    /// Whether there is anything that a submission could get: a queue, or a default of the policy.
    #[doc(hidden)]
    pub fn may_adjust(&self) -> bool {
        let defaults =
            self.policy.default_duration.is_some() || self.policy.default_queue.is_some();
        self.are_named() || defaults
    }

    /// The updates that a submitted jobspec gets, by path; empty if it stays as it is.
    ///
    /// ```
    /// use jobtap_core::jobspec::JobspecBuilder;
    /// use jobtap_core::queue::Queues;
    /// use serde_json::json;
    ///
    /// let config = json!({
    ///     "queues": {"batch": {"requires": ["compute"]}},
    ///     "policy": {"jobspec": {"defaults": {"system": {"queue": "batch", "duration": "1h"}}}},
    /// });
    /// let queues = Queues::read(&config)?;
    /// let changes = queues.adjust(&JobspecBuilder::new(["hostname"]).build()?)?;
    /// assert_eq!(changes["attributes.system.duration"], 3600.0);
    /// assert_eq!(changes["attributes.system.queue"], "batch");
    /// assert_eq!(changes["attributes.system.constraints"], json!({"properties": ["compute"]}));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`AdjustError`] if no queue can be determined.
    pub fn adjust(&self, jobspec: &Jobspec) -> Result<Map<String, Value>, AdjustError> {
        let mut changes = Map::new();
        if !self.may_adjust() {
            return Ok(changes);
        }
        let queue = self.queue_of(jobspec, &mut changes)?;
        let duration = match queue {
            Some(queue) => queue.default_duration(),
            None => self.policy.default_duration,
        };
        if let Some(duration) = duration.filter(|_| jobspec.duration() == 0.0) {
            // Zero means "no limit"; JSON has no infinity.
            let seconds = if duration.is_infinite() { 0.0 } else { duration.as_secs() };
            changes.insert(DURATION.to_owned(), json!(seconds));
        }
        let required = queue.map(|queue| queue.requires()).unwrap_or_default();
        if !required.is_empty() {
            let constraints = with_properties(jobspec.constraints(), required);
            changes.insert(CONSTRAINTS.to_owned(), constraints);
        }
        Ok(changes)
    }

    /// The queue of the job: the one that it names, or the default, which is added to `changes`.
    fn queue_of(
        &self,
        jobspec: &Jobspec,
        changes: &mut Map<String, Value>,
    ) -> Result<Option<Queue<'_>>, AdjustError> {
        if let Some(name) = jobspec.queue() {
            return match self.get(name) {
                // As in Flux, an empty name names no queue but suppresses the default, so the job
                // gets no queue.
                None if name.is_empty() && self.default_name().is_some() => Ok(None),
                None if name.is_empty() => Err(AdjustError::NoQueue),
                Some(queue) => Ok(Some(queue)),
                None => {
                    let meant = nearest(name, self.iter().filter_map(|queue| queue.name()));
                    let meant = meant.map(str::to_owned);
                    Err(AdjustError::Invalid { name: name.to_owned(), meant })
                }
            };
        }
        let Some(name) = self.default_name() else {
            return if self.are_named() { Err(AdjustError::NoQueue) } else { Ok(None) };
        };
        changes.insert(QUEUE.to_owned(), name.into());
        Ok(self.get(name))
    }
}

/// Combines the constraint of a job with the properties that its queue requires.
fn with_properties(constraints: Option<&Value>, required: &[String]) -> Value {
    let properties = json!({ "properties": required });
    match constraints {
        None | Some(Value::Null) => properties,
        Some(Value::Object(own)) if own.is_empty() => properties,
        Some(Value::Object(own)) if own.contains_key("properties") => {
            let mut own = own.clone();
            if let Some(Value::Array(list)) = own.get_mut("properties") {
                for property in required {
                    if !list.iter().any(|item| item == property) {
                        list.push(property.as_str().into());
                    }
                }
            }
            Value::Object(own)
        }
        Some(own) => json!({ "and": [own, properties] }),
    }
}
