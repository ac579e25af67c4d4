//! A user's request to change a jobspec, and what a plugin decided about it.

use serde_json::{Map, Value};

use super::service::Cred;

/// A user's request to change one key of a jobspec, for `job.update.KEY`.
///
/// ```
/// # use jobtap_core::prelude::*;
/// fn bank(request: &UpdateRequest) -> Result<Update, Reject> {
///     Reject::when(!request.cred.owner, format!("{} is the owner's to change", request.key))?;
///     Ok(Update::allow())
/// }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateRequest {
    /// Who asks.
    pub cred: Cred,
    /// Dotted path such as `attributes.system.duration`.
    pub key: String,
    /// What it is to become.
    pub value: Value,
}

/// A plugin's yes to an [`UpdateRequest`]; the no is a [`Failure::Reject`](super::Failure::Reject).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UpdateDecision {
    /// This key needs no `job.validate`. It is left out only when all keys of the request say so.
    pub validated: bool,
    /// The changed jobspec must fit the instance's resources.
    pub feasibility: bool,
    /// Changes that come with it, by path. They override what the user asked for there.
    pub further: Map<String, Value>,
}

impl UpdateDecision {
    /// Adds what a later plugin says of the same key.
    pub(super) fn merge(&mut self, later: UpdateDecision) {
        self.validated |= later.validated;
        self.feasibility |= later.feasibility;
        self.further.extend(later.further);
    }
}
