//! A user's request to change a jobspec, and a plugin's decision about it.

use serde_json::{Map, Value};

use super::service::Cred;

/// A user's request to change one key of a jobspec, as a parameter of handlers of `job.update.KEY`.
///
/// ```
/// # use jobtap_core::prelude::*;
/// fn bank(request: &UpdateRequest) -> Result<Update, Reject> {
///     Reject::when(!request.cred.owner, format!("only the owner can change {}", request.key))?;
///     Ok(Update::allow())
/// }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateRequest {
    /// The user who sent the request.
    pub cred: Cred,
    /// The dotted path of the key, such as `attributes.system.duration`.
    pub key: String,
    /// The new value.
    pub value: Value,
}

/// A plugin's approval of an [`UpdateRequest`]. A refusal is a [`Failure::Reject`](crate::host::Failure::Reject).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UpdateDecision {
    /// This key needs no `job.validate`, which is skipped only when this is set for all keys of the request.
    pub validated: bool,
    /// The changed jobspec must fit the instance's resources.
    pub feasibility: bool,
    /// Further changes, by path. They override what the user requested there.
    pub further: Map<String, Value>,
}

impl UpdateDecision {
    /// Adds the decision of a later plugin about the same key.
    pub(in crate::host) fn merge(&mut self, later: UpdateDecision) {
        self.validated |= later.validated;
        self.feasibility |= later.feasibility;
        self.further.extend(later.further);
    }
}
