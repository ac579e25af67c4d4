//! A job as the engine keeps it: what plugins see, and what else the manager needs.

use std::num::NonZeroU32;
use std::sync::Arc;

use serde_json::{Map, Value};
use thin_vec::ThinVec;

use super::allocation::JobAllocation;
use super::async_work::AsyncWork;
use super::execution::Execution;
use super::pending_events::PendingEvents;
use super::perilogs::Perilogs;
use crate::api::{JobLog, Write};
use crate::eventlog::{EventEntry, Name};
use crate::host::PluginKey;
use crate::job::{Flags, Job, JobId, JobResult, State, Timestamp, Uid, Urgency};
use crate::jobspec::Jobspec;
use crate::kept::{Kept, Unread};
use crate::resource::ResourceSet;

/// One job.
///
/// Only [`apply`](Self::apply) changes what follows from the eventlog, so that a job is the same after a restart.
/// Two things don't follow from it: R (`job.resources`), which is set before `alloc` is posted and is stored under a
/// key of its own, and annotations that plugins return, which are not logged (RFC 21). The rest is about the present
/// run of the manager.
#[derive(Debug)]
pub(crate) struct Record {
    /// The job as plugins see it. From the eventlog.
    pub(crate) job: Job,
    pub(crate) admission: Admission,
    pub(crate) pending_events: PendingEvents,
    pub(crate) lines: LogLines,
    /// Follows from the eventlog, except for the owners.
    pub(crate) perilogs: Perilogs,
    /// The plugin that will remove each dependency, by the dependency's description.
    pub(crate) dependency_owners: ThinVec<(Box<str>, PluginKey)>,
    pub(crate) async_work: AsyncWork,
    /// From the eventlog.
    pub(crate) set_flags: SetFlags,
    /// Follows from the eventlog, except that a restart may lose the resources.
    pub(crate) allocation: JobAllocation,
    pub(crate) execution: Execution,
    /// Plugins that receive the job's events.
    pub(crate) subscribers: ThinVec<PluginKey>,
    /// From the eventlog.
    pub(crate) wait_status: Option<i32>,
    /// The exception that listings show: the first of the most severe ones. From the eventlog.
    pub(crate) exception: Unread<Option<Arc<EventEntry>>>,
    /// The durable data of plugins on the job, by plugin.
    pub(crate) data: Unread<Map<String, Value>>,
    /// The annotations that outlive a restart.
    pub(crate) stored_annotations: Option<Box<Map<String, Value>>>,
    /// The volatile data, which a restart loses.
    pub(crate) volatile_data: Option<Box<Map<String, Value>>>,
    /// The queue whose counts include the job.
    pub(crate) counted_in: Option<CountedQueue>,
}

/// Whether the job has passed the gates of its submission.
#[derive(Debug)]
pub(crate) enum Admission {
    /// Not yet. Until it has, nothing about the job is stored or shown.
    Pending(Box<HeldBack>),
    /// It was refused. Only `job.destroy` still sees it, and nothing about it is stored.
    Rejected,
    /// It has.
    Accepted,
}

/// What is written and shown once a job is accepted.
#[derive(Debug, Default)]
pub(crate) struct HeldBack {
    pub(crate) writes: Vec<Write>,
    /// Its events, for watchers, each with its log and its position in it.
    pub(crate) events: Vec<(JobLog, u64, Arc<EventEntry>)>,
}

/// The number of lines in each of the job's logs, which is the sequence number of the next one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LogLines {
    pub(crate) main: u64,
    pub(crate) exec: u64,
}

/// What `set-flags` events have set, besides the flags in the job itself.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SetFlags {
    /// A plugin gives the job its resources; the scheduler leaves it alone.
    pub(crate) alloc_bypass: bool,
    /// Only the instance's owner may change the jobspec.
    pub(crate) immutable: bool,
}

/// The index of a queue's counts. Every job stores one, so it must be smaller than the queue's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CountedQueue(pub(super) NonZeroU32);

impl CountedQueue {
    pub(super) fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

impl Record {
    /// A submission that has not passed its gates.
    pub(crate) fn submitted(id: JobId, jobspec: Jobspec) -> Self {
        Self::new(id, jobspec, Admission::Pending(Box::default()))
    }

    /// A job from the store, before its eventlog is replayed.
    pub(crate) fn stored(id: JobId, jobspec: Jobspec) -> Self {
        Self::new(id, jobspec, Admission::Accepted)
    }

    fn new(id: JobId, jobspec: Jobspec, admission: Admission) -> Self {
        let job = Job::from_kept(Kept {
            id,
            // The `submit` event sets these.
            userid: Uid(0),
            urgency: Urgency::DEFAULT,
            flags: Flags::NONE,
            state: State::New,
            priority: None,
            t_submit: Timestamp::from_secs(0.0),
            jobspec,
            resources: Default::default(),
            end_event: Default::default(),
            dependencies: Default::default(),
            annotations: Default::default(),
            logged: Default::default(),
            times: Default::default(),
        });
        Self {
            job,
            admission,
            pending_events: PendingEvents::default(),
            lines: LogLines::default(),
            perilogs: Perilogs::default(),
            dependency_owners: ThinVec::new(),
            async_work: AsyncWork::default(),
            set_flags: SetFlags::default(),
            allocation: JobAllocation::default(),
            execution: Execution::default(),
            subscribers: ThinVec::new(),
            wait_status: None,
            exception: Unread::default(),
            data: Unread::default(),
            stored_annotations: None,
            volatile_data: None,
            counted_in: None,
        }
    }

    /// Whether the job was accepted. Before that, clients cannot know about it.
    pub(crate) fn is_accepted(&self) -> bool {
        matches!(self.admission, Admission::Accepted)
    }

    /// Frees memory that a job needs only while something happens to it. A hundred thousand jobs may be pending.
    pub(crate) fn shrink(&mut self) {
        self.job.kept_mut().jobspec.close();
        if self.pending_events.is_empty() {
            // Gives back the memory of the empty queue.
            self.pending_events.clear();
        }
    }

    /// Drops what only an active job needs.
    pub(crate) fn drop_active_parts(&mut self) {
        self.subscribers = Default::default();
        self.dependency_owners = Default::default();
        self.execution.simulation = Default::default();
        // An inactive job accepts no events.
        self.pending_events.clear();
    }

    /// Lets a plugin receive the job's events, each once however often it subscribes.
    pub(crate) fn subscribe(&mut self, plugin: PluginKey) {
        if !self.subscribers.contains(&plugin) {
            self.subscribers.push(plugin);
        }
    }

    /// Ends [`subscribe`](Self::subscribe).
    pub(crate) fn unsubscribe(&mut self, plugin: PluginKey) {
        self.subscribers.retain(|subscriber| *subscriber != plugin);
    }

    /// Whether no event and no asynchronous handler is at work on the job.
    pub(crate) fn is_idle(&self) -> bool {
        !self.pending_events.busy && self.pending_events.is_empty() && self.async_work.is_empty()
    }

    /// Whether an event of this name is in the log or waits to be applied.
    pub(crate) fn has_event(&self, name: &Name) -> bool {
        self.job.has_event(name) || self.pending_events.contains(name)
    }

    /// The job's R without the ranks that it has released before the rest.
    ///
    /// This doesn't say whether they are allocated: a grant sets R before `alloc` is applied, and the
    /// pool takes them back after `free` was applied. See [`JobAllocation::is_allocated`].
    pub(crate) fn unreleased_resources(&self) -> Option<&ResourceSet> {
        self.allocation.unreleased(self.job.kept().resources.as_deref())
    }

    /// How the job came out; `None` until it is inactive.
    pub(crate) fn result(&self) -> Option<JobResult> {
        if self.job.state() != State::Inactive {
            return None;
        }
        Some(match self.job.result() {
            // As in Flux, a job whose tasks failed counts as canceled or timed out if that happened later, while its
            // epilog ran. One whose tasks succeeded stays completed.
            None | Some(JobResult::Failed) => {
                let exception = self.exception.as_deref().and_then(EventEntry::fatal_exception);
                exception.map_or(JobResult::Failed, |raised| JobResult::of_exception(raised.kind))
            }
            Some(result) => result,
        })
    }
}
