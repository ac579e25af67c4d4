//! Updates of a jobspec after submission: the changes that were made, the request of a user, and a
//! plugin's decision about it.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::failure::Reject;
use crate::eventlog::Context;
use crate::host::{UpdateDecision, UpdateRequest};
use crate::plugin::cx::arguments::{IsJobspecPath, IsJson};
use crate::plugin::cx::jobspec_path::JobspecPath;

/// The changes of a jobspec, at topic `job.update`: new values by dotted path, as in the context of the
/// `jobspec-update` event (RFC 21).
///
/// ```
/// # use jobtap_core::prelude::*;
/// # #[derive(Default)]
/// # struct Watch;
/// #[jobtap_plugin(name = "watch")]
/// impl Watch {
///     #[on("job.update")]
///     fn updated(&self, job: &Job, updates: Updates<'_>, cx: Cx<'_, JobUpdate>) {
///         if let Some(duration) = updates.get("attributes.system.duration") {
///             cx.log(Level::Info, format!("{} now has {duration} s", job.id()));
///         }
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Updates<'a>(pub(crate) &'a Context);

impl<'a> Updates<'a> {
    /// The new value at a path such as `attributes.system.duration`.
    pub fn get(&self, path: &str) -> Option<&'a Value> {
        self.0.get(path)
    }

    /// All changes, by path.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.0.iter()
    }
}

impl UpdateRequest {
    /// Reads the value as the type of its key.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn duration(request: &UpdateRequest) -> Result<Update, Reject> {
    ///     let seconds: f64 = request.read()?;
    ///     Reject::when(seconds > 3600.0, "no more than an hour")?;
    ///     Ok(Update::allow())
    /// }
    /// ```
    ///
    /// # Errors
    /// When the value is not a `V`. The text is Flux's, which names no reason.
    pub fn read<V: DeserializeOwned>(&self) -> Result<V, Reject> {
        V::deserialize(&self.value).map_err(|_| Reject::new("plugin args unpack failed"))
    }
}

/// A plugin's approval of an [`UpdateRequest`]. To refuse it, return a [`Reject`](crate::plugin::Reject).
///
/// ```
/// use jobtap_core::prelude::*;
///
/// #[derive(Default)]
/// struct Names;
///
/// #[jobtap_plugin(name = "names")]
/// impl Names {
///     #[on("job.update.attributes.system.job.name")]
///     fn rename(&self, request: &UpdateRequest) -> Result<Update, Reject> {
///         match request.value.as_str() {
///             Some(name) if !name.is_empty() => Ok(Update::allow().validated()),
///             _ => Err(Reject::new("a job's name is a string")),
///         }
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Update(pub(super) UpdateDecision);

impl Update {
    /// Allows the change if the changed jobspec passes `job.validate`.
    pub fn allow() -> Self {
        Self::default()
    }

    /// Allows the change without `job.validate`. That topic is skipped only when every key of the request
    /// is allowed in this way.
    pub fn validated(mut self) -> Self {
        self.0.validated = true;
        self
    }

    /// Allows the change only if the changed jobspec fits the instance's resources.
    pub fn needs_feasibility(mut self) -> Self {
        self.0.feasibility = true;
        self
    }

    /// Makes one more change. It overrides what the user requested at that path, and other plugins don't
    /// decide on it.
    pub fn also(mut self, path: impl IsJobspecPath, value: impl IsJson) -> Self {
        let path: JobspecPath = path.value();
        self.0.further.insert(path.as_str().to_owned(), value.into_json());
        self
    }
}
