//! The requests, prologs and epilogs that have not ended.

use futures_util::future::AbortHandle;
use jobtap_core::host::{Handlers, PluginKey, RequestKey, SlurmRequest};
use jobtap_core::job::{Job, JobId};
use jobtap_core::plugin::Priority;
use jobtap_core::slurm::SlurmError;
use jobtap_core::topic::TopicId;

use super::messages::{Answer, Reply};
use crate::daemon::PrepEnd;

/// A request on which the plugins are deciding.
pub(super) struct Chain {
    pub(super) request: SlurmRequest,
    pub(super) topic: TopicId,
    /// The job to be modified; `None` for a submission, whose job is in the mirror.
    pub(super) job: Option<Job>,
    pub(super) handlers: Handlers,
    pub(super) next: usize,
    /// The plugin whose asynchronous handler the request waits for, and the handle that aborts its work.
    pub(super) awaited: Option<(PluginKey, Option<AbortHandle>)>,
    pub(super) messages: Vec<String>,
    /// The priority that the last plugin has set.
    pub(super) priority: Priority,
    pub(super) refusal: Option<SlurmError>,
    pub(super) reply: Reply<Answer>,
}

impl Chain {
    pub(super) fn refuse(&mut self, error: SlurmError) {
        self.refusal.get_or_insert(error);
    }
}

/// A prolog or epilog that has not ended.
pub(super) struct Prep {
    pub(super) key: RequestKey,
    pub(super) serial: u64,
    pub(super) job: JobId,
    pub(super) topic: TopicId,
    /// Set while handlers are still being called: then it hasn't ended even if `open` is empty.
    pub(super) calling: bool,
    pub(super) open: Vec<Open>,
    pub(super) failure: Option<String>,
    pub(super) is_cancelled: bool,
    pub(super) timer: Option<tokio::task::AbortHandle>,
    pub(super) reply: Reply<PrepEnd>,
}

/// An asynchronous handler that has not ended.
pub(super) struct Open {
    pub(super) plugin: PluginKey,
    pub(super) description: String,
    pub(super) abort: Option<AbortHandle>,
    /// It keeps running when the job is canceled.
    pub(super) runs_on: bool,
}
