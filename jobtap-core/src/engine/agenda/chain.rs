//! A request in Slurm's terms, on its way through the handlers of all plugins.
//!
//! It is no [`Frame`](super::Frame): it may be about a job that doesn't exist yet, and it waits for an
//! asynchronous handler at its place, since the next handler is called with what that one answers.

use futures_util::future::AbortHandle;
use serde_json::{Map, Value};

use super::Progress;
use crate::engine::api::{Cred, ReplyTo, RequestError, Submission};
use crate::host::{Handlers, PluginKey, SlurmRequest};
use crate::job::{Flags, JobId, Urgency};
use crate::slurm::JobDescriptor;
use crate::topic::TopicId;

/// A request in progress. The part [`Plugins`](crate::engine::dispatch::plugins::Plugins) has it as long as
/// plugins decide on it, and the agenda only its key.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) topic: TopicId,
    pub(crate) reply: ReplyTo,
    pub(crate) cred: Cred,
    /// What the handlers see and change.
    pub(crate) request: SlurmRequest,
    /// What was asked for, to tell what they have changed.
    pub(crate) before: Box<JobDescriptor>,
    /// The handlers as they were when the request came.
    pub(crate) handlers: Handlers,
    pub(crate) progress: Progress,
    /// The plugin whose asynchronous handler has still to answer.
    pub(crate) awaited: Option<PluginKey>,
    /// Aborts its work.
    pub(crate) abort: Option<AbortHandle>,
    /// What the plugins say to the user.
    pub(crate) messages: Vec<String>,
    /// Why the request is refused.
    pub(crate) refusal: Option<RequestError>,
    pub(crate) purpose: ChainPurpose,
}

/// What a request asks for, and so what follows when all handlers have accepted it.
#[derive(Debug)]
pub(crate) enum ChainPurpose {
    /// `job-ingest.submit`.
    Submit { submission: Box<Submission>, urgency: Urgency, flags: Flags },
    /// `job-manager.update`.
    Update { id: JobId, updates: Map<String, Value> },
    /// `job-manager.urgency`.
    Urgency { id: JobId, urgency: Urgency },
}

impl Chain {
    /// The job that the request is about, if it exists.
    pub(crate) fn job(&self) -> Option<JobId> {
        match self.purpose {
            ChainPurpose::Submit { .. } => None,
            ChainPurpose::Update { id, .. } | ChainPurpose::Urgency { id, .. } => Some(id),
        }
    }

    /// Refuses the request: no other handler is called.
    pub(crate) fn refuse(&mut self, error: RequestError) {
        self.refusal = Some(error);
        self.awaited = None;
        if let Some(abort) = self.abort.take() {
            abort.abort();
        }
    }
}
