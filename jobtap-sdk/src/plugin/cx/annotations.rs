//! Annotations of jobs: what users see of a job in addition to its eventlog.

use serde_json::{Map, Value};

use super::arguments::IsJson;

/// Annotations of a job: keys and values that `jobtap jobs` can show and that are not kept in the
/// eventlog.
///
/// They are merged into the job's annotations; `null` removes a key. Annotations that a handler returns are
/// lost at a restart of the manager, as in Flux; those of [`Cx::annotate`](crate::plugin::Cx::annotate)
/// survive it.
///
/// ```
/// # use jobtap_core::prelude::*;
/// # #[derive(Default)]
/// # struct Estimate;
/// #[jobtap_plugin(name = "estimate")]
/// impl Estimate {
///     #[on("job.state.sched")]
///     fn sched(&self, job: &Job) -> Annotations {
///         let hours = job.jobspec().duration() / 3600.0;
///         Annotations::new().with("estimate", serde_json::json!({"hours": hours}))
///     }
///
///     #[on("job.state.run")]
///     fn run(&self) -> Annotations {
///         Annotations::new().with("estimate", serde_json::Value::Null) // Removes the key.
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Annotations(Map<String, Value>);

impl Annotations {
    /// No annotations.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a key.
    pub fn with(mut self, key: impl Into<String>, value: impl IsJson) -> Self {
        self.0.insert(key.into(), value.into_json());
        self
    }

    /// The annotations as a JSON object.
    pub fn into_map(self) -> Map<String, Value> {
        self.0
    }
}
