//! A dispatch in progress: one topic, on its way through the handlers of all plugins.

use std::sync::Arc;

use super::{Attributions, JobspecUpdate, SubmissionStep};
use crate::eventlog::EventEntry;
use crate::host::{BoundHandler, Detail, Handlers, Outcome, PluginKey};
use crate::job::{Job, JobId, State};
use crate::jobspec::Dependency;
use crate::plugin::Node;
use crate::plugin::UpdateRequest;
use crate::shadows::ShadowCalls;
use crate::topic::TopicId;

/// A dispatch that has not begun, of a topic that reports something that has happened to a job.
///
/// This is the usual case. It becomes a [`Frame`] only when a handler asks for something or fails.
/// It is small because the agenda may have a hundred thousand of them.
#[derive(Debug)]
pub(crate) struct PendingDispatch {
    pub(crate) topic: TopicId,
    pub(crate) job: JobId,
    pub(crate) cause: Cause,
}

/// The event that caused a dispatch.
#[derive(Debug, Clone, Default)]
pub(crate) enum Cause {
    /// No event caused it: the job is introduced, its priority is asked for, or it is removed.
    #[default]
    None,
    /// The event moved the job out of this state.
    State(State, Arc<EventEntry>),
    /// The topic is about this event.
    Event(Arc<EventEntry>),
    /// The event changed the jobspec.
    Updates(Arc<EventEntry>),
}

impl Cause {
    pub(crate) fn detail(&self) -> Detail<'_> {
        match self {
            Cause::None => Detail::None,
            Cause::State(prev, entry) => Detail::State { prev: Some(*prev), entry: Some(entry) },
            Cause::Event(entry) => Detail::Event(entry),
            Cause::Updates(entry) => entry.context.as_ref().map_or(Detail::None, Detail::Updates),
        }
    }
}

/// How far a dispatch has come, and what has been decided so far.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The index of the handler that is called next.
    pub(crate) next: usize,
    /// The number of called handlers that can decide something. Handlers of `job.*` only observe.
    pub(crate) deciders: usize,
    pub(crate) outcome: Outcome,
    /// Which plugin has said what; usually nothing.
    pub(crate) attributions: Option<Box<Attributions>>,
}

/// What a dispatch is about, besides its job.
#[derive(Debug)]
pub(crate) enum Subject {
    Cause(Cause),
    Dependency(Dependency),
    UpdateRequest(UpdateRequest),
    Node(Node),
}

/// What a dispatch is for; it determines what follows when all handlers have been called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Report something that has happened. The returned priority and annotations are applied to the
    /// job.
    Notify,
    /// Introduce a job to one plugin. What its handlers return is ignored.
    Introduce,
    /// Let a submission pass to this step, or reject it.
    Gate(SubmissionStep),
    /// Ask for a dependency again after a restart. A refusal becomes an exception.
    Recheck,
    /// `job.priority.get`: apply a changed priority.
    PriorityGet,
    /// Decide on a user's change to a jobspec.
    Update,
}

/// A dispatch in progress.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) topic: TopicId,
    pub(crate) job: JobId,
    pub(crate) subject: Subject,
    /// The job as it would be after an update; handlers see this instead of the job itself.
    pub(crate) trial: Option<Box<Job>>,
    /// The user's update that this dispatch is part of.
    pub(crate) update: Option<Box<JobspecUpdate>>,
    /// The handlers as they were when the frame was put on the agenda: plugins that are loaded or
    /// removed meanwhile do not change the list, and `next` of [`Progress`] stays valid. A
    /// [`PendingDispatch`] looks its handlers up when its turn comes: it has called none before.
    pub(crate) handlers: Option<Handlers>,
    pub(crate) progress: Progress,
    /// Plugins whose asynchronous handlers have yet to give their verdict.
    pub(crate) awaited: Vec<PluginKey>,
    /// Why a gate refused.
    pub(crate) refusal: Option<String>,
    pub(crate) purpose: Purpose,
    /// The shadows that are called alongside these handlers.
    pub(crate) shadow_calls: Option<Box<ShadowCalls>>,
}

impl Frame {
    /// A frame without handlers yet.
    pub(crate) fn new(topic: TopicId, job: JobId, purpose: Purpose) -> Self {
        Self {
            topic,
            job,
            subject: Subject::Cause(Cause::None),
            trial: None,
            update: None,
            handlers: None,
            progress: Progress::default(),
            awaited: Vec::new(),
            refusal: None,
            purpose,
            shadow_calls: None,
        }
    }

    pub(crate) fn detail(&self) -> Detail<'_> {
        match &self.subject {
            Subject::Cause(cause) => cause.detail(),
            Subject::Dependency(dependency) => Detail::Dependency(dependency),
            Subject::UpdateRequest(request) => Detail::UpdateRequest(request),
            Subject::Node(node) => Detail::Node(node),
        }
    }

    /// Skips all remaining handlers.
    pub(crate) fn stop(&mut self) {
        self.progress.next = usize::MAX;
    }

    /// The handler that was called last.
    pub(crate) fn last(&self) -> Option<&BoundHandler> {
        self.handlers.as_ref()?.get(self.progress.next.checked_sub(1)?)
    }

    /// The topic's name; in a topic family, with the member in place of `*`, such as
    /// `job.event.alloc`.
    pub(crate) fn full_topic(&self) -> String {
        let member = match &self.subject {
            Subject::Cause(Cause::Event(entry)) => &*entry.name,
            Subject::Dependency(dependency) => &dependency.scheme,
            Subject::UpdateRequest(request) => &request.key,
            Subject::Cause(_) | Subject::Node(_) => return self.topic.name().to_owned(),
        };
        self.topic.name().replace('*', member)
    }
}
