//! A user's change to a jobspec, while the plugins decide on it.

use std::collections::VecDeque;

use serde_json::{Map, Value};

use crate::host::ReplyTo;
use crate::job::JobId;
use crate::plugin::Cred;

/// A `job-manager.update` request in progress.
#[derive(Debug)]
pub(crate) struct JobspecUpdate {
    pub(crate) reply: ReplyTo,
    /// Messages from plugins to the user so far.
    pub(crate) messages: Vec<String>,
    pub(crate) cred: Cred,
    pub(crate) id: JobId,
    /// All new values by path: those that the user asked for, and those that plugins added.
    pub(crate) updates: Map<String, Value>,
    /// Keys that plugins have yet to decide on.
    pub(crate) undecided: VecDeque<String>,
    /// Changes that plugins added; they are merged once all keys are decided.
    pub(crate) added: Map<String, Value>,
    /// Every plugin so far has said that the change needs no `job.validate`.
    pub(crate) validated: bool,
    /// A plugin has asked for a feasibility check.
    pub(crate) feasibility: bool,
    pub(crate) stage: UpdateStage,
}

/// What the plugins are being asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpdateStage {
    /// `job.update.KEY` for one key after the other.
    Keys,
    /// `job.validate` with the changed jobspec.
    Validate,
}
