//! A request in Slurm's terms, on its way through the handlers of all plugins.
//!
//! A chain is not a [`Frame`](super::Frame): its job may not exist yet, and it pauses at each asynchronous handler,
//! since the next handler is called with that handler's answer.

use serde_json::{Map, Value};

use super::Progress;
use crate::api::{Cred, ReplyTo, RequestError, Submission};
use crate::host::{AbortHandle, Handlers, PluginKey, SlurmRequest};
use crate::job::{Flags, JobId, Urgency};
use crate::slurm::JobDescriptor;
use crate::topic::TopicId;

/// A request in progress. [`Plugins`](crate::plugins::Plugins) owns it while plugins decide on it;
/// the agenda only has its key.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) topic: TopicId,
    pub(crate) reply: ReplyTo,
    pub(crate) cred: Cred,
    /// What the handlers see and change.
    pub(crate) request: SlurmRequest,
    /// The descriptor as it was requested, to tell what the handlers have changed.
    pub(crate) before: Box<JobDescriptor>,
    /// The handlers at the time of the request.
    pub(crate) handlers: Handlers,
    pub(crate) progress: Progress,
    /// The plugin whose asynchronous handler has yet to answer.
    pub(crate) awaited: Option<PluginKey>,
    /// Aborts the work of that handler.
    pub(crate) abort: Option<AbortHandle>,
    /// Messages from the plugins to the user.
    pub(crate) messages: Vec<String>,
    /// Why the request is refused.
    pub(crate) refusal: Option<RequestError>,
    pub(crate) purpose: ChainPurpose,
}

/// What a request asks for; it determines what follows when all handlers have accepted the request.
#[derive(Debug)]
pub(crate) enum ChainPurpose {
    /// `job-ingest.submit`.
    Submit { submission: Box<Submission>, urgency: Urgency, flags: Flags },
    /// `job-manager.update`.
    Update { id: JobId, updates: Map<String, Value> },
    /// `job-manager.urgency`.
    Urgency { id: JobId, urgency: Urgency },
    /// `job-manager.urgency` on an array, shown as one about this job.
    ArrayUrgency { array: JobId, shown: JobId, urgency: Urgency },
}

impl Chain {
    /// The job that the request is about, if it exists.
    pub(crate) fn job(&self) -> Option<JobId> {
        match self.purpose {
            ChainPurpose::Submit { .. } => None,
            ChainPurpose::Update { id, .. }
            | ChainPurpose::Urgency { id, .. }
            | ChainPurpose::ArrayUrgency { shown: id, .. } => Some(id),
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
