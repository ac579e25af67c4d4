//! A user's change of a jobspec while the plugins decide on it.

use std::collections::VecDeque;

use serde_json::{Map, Value};

use crate::host::{Cred, ReplyTo};
use crate::job::JobId;

/// A `job-manager.update` request in progress.
#[derive(Debug)]
pub(in crate::engine) struct JobspecUpdate {
    pub(in crate::engine) reply: ReplyTo,
    pub(in crate::engine) cred: Cred,
    pub(in crate::engine) id: JobId,
    /// All new values by path: those that the user asked for, and those that plugins added.
    pub(in crate::engine) updates: Map<String, Value>,
    /// Keys that plugins have still to decide on.
    pub(in crate::engine) undecided: VecDeque<String>,
    /// Changes that plugins added; they are merged once all keys are decided.
    pub(in crate::engine) added: Map<String, Value>,
    /// Every plugin so far has said that the change needs no `job.validate`.
    pub(in crate::engine) validated: bool,
    /// A plugin has asked for a check of feasibility.
    pub(in crate::engine) feasibility: bool,
    pub(in crate::engine) stage: UpdateStage,
}

/// What the plugins are being asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum UpdateStage {
    /// `job.update.KEY` for one key after the other.
    Keys,
    /// `job.validate` with the changed jobspec.
    Validate,
}
