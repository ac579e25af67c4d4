//! A job as the engine keeps it: what plugins see of it, and what the manager needs beside that.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Map, Value};
use thin_vec::ThinVec;

use super::async_work::AsyncWork;
use super::execution::Execution;
use super::holding::Holding;
use super::perilogs::Perilogs;
use super::times::Times;
use crate::engine::api::{Effect, Write};
use crate::engine::events::field;
use crate::eventlog::EventEntry;
use crate::host::PluginKey;
use crate::job::{Flags, Job, JobId, JobResult, State, Timestamp, Uid, Unread, Urgency};
use crate::jobspec::Jobspec;
use crate::resource::ResourceSet;

/// One job.
///
/// What follows from the eventlog is changed by [`apply`](Self::apply) alone, so that a job is the
/// same after a restart. The rest is about the present run of the manager.
#[derive(Debug)]
pub(in crate::engine) struct Record {
    /// The job as plugins see it. From the eventlog.
    pub(in crate::engine) job: Job,
    pub(in crate::engine) admission: Admission,
    pub(in crate::engine) posted: PostedEvents,
    pub(in crate::engine) lines: LogLines,
    /// From the eventlog, but for the owners.
    pub(in crate::engine) perilogs: Perilogs,
    /// Which plugin will remove a dependency, by its description.
    pub(in crate::engine) dependency_owners: ThinVec<(Box<str>, PluginKey)>,
    pub(in crate::engine) async_work: AsyncWork,
    /// From the eventlog.
    pub(in crate::engine) set_flags: SetFlags,
    /// From the eventlog, but for what was lost.
    pub(in crate::engine) holding: Holding,
    pub(in crate::engine) execution: Execution,
    /// Plugins that receive the job's events.
    pub(in crate::engine) subscribers: ThinVec<PluginKey>,
    /// From the eventlog.
    pub(in crate::engine) times: Times,
    /// From the eventlog.
    pub(in crate::engine) wait_status: Option<i32>,
    /// The exception that listings show: the most severe one, and of several the first. From the
    /// eventlog.
    pub(in crate::engine) exception: Unread<Option<Arc<EventEntry>>>,
    /// The data of plugins on the job, by plugin.
    pub(in crate::engine) data: Unread<Map<String, Value>>,
    /// The queue whose counts include the job.
    pub(in crate::engine) counted_in: Option<Arc<str>>,
}

/// Whether the job has passed the gates of its submission.
#[derive(Debug)]
pub(in crate::engine) enum Admission {
    /// Not yet. Nothing of it is stored or shown before it has.
    Pending(HeldBack),
    /// It was refused. Only `job.destroy` still sees it, and nothing of it is stored.
    Rejected,
    /// It has.
    Accepted,
}

/// What is written and shown once a job is accepted.
#[derive(Debug, Default)]
pub(in crate::engine) struct HeldBack {
    pub(in crate::engine) writes: Vec<Write>,
    /// Its events, for watchers of all jobs.
    pub(in crate::engine) published: Vec<Effect>,
}

/// The events of a job that are posted and not applied yet.
#[derive(Debug, Default)]
pub(in crate::engine) struct PostedEvents {
    pub(in crate::engine) queue: VecDeque<EventEntry>,
    /// An event of the job is being worked on, or is on the agenda. What is posted meanwhile waits.
    pub(in crate::engine) busy: bool,
}

impl PostedEvents {
    /// Whether an event of this name waits to be applied.
    pub(in crate::engine) fn contains(&self, name: &str) -> bool {
        self.queue.iter().any(|entry| entry.name == name)
    }
}

/// The number of lines in each of the job's logs, which is the sequence number of the next one.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::engine) struct LogLines {
    pub(in crate::engine) main: u64,
    pub(in crate::engine) exec: u64,
}

/// What `set-flags` events have set, beside the flags that the job itself has.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::engine) struct SetFlags {
    /// A plugin gives the job its resources; the scheduler leaves it alone.
    pub(in crate::engine) alloc_bypass: bool,
    /// Only the instance's owner may change the jobspec.
    pub(in crate::engine) immutable: bool,
}

impl Record {
    /// A submission that has not passed its gates.
    pub(in crate::engine) fn submitted(id: JobId, jobspec: Jobspec) -> Self {
        Self::new(id, jobspec, Admission::Pending(HeldBack::default()))
    }

    /// A job from the store, before its eventlog is replayed.
    pub(in crate::engine) fn stored(id: JobId, jobspec: Jobspec) -> Self {
        Self::new(id, jobspec, Admission::Accepted)
    }

    fn new(id: JobId, jobspec: Jobspec, admission: Admission) -> Self {
        let job = Job {
            id,
            // The `submit` event says these.
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
            posted: Default::default(),
        };
        Self {
            job,
            admission,
            posted: PostedEvents::default(),
            lines: LogLines::default(),
            perilogs: Perilogs::default(),
            dependency_owners: ThinVec::new(),
            async_work: AsyncWork::default(),
            set_flags: SetFlags::default(),
            holding: Holding::default(),
            execution: Execution::default(),
            subscribers: ThinVec::new(),
            times: Times::default(),
            wait_status: None,
            exception: Unread::default(),
            data: Unread::default(),
            counted_in: None,
        }
    }

    /// Whether the job was accepted. Before that, clients cannot know of it.
    pub(in crate::engine) fn is_accepted(&self) -> bool {
        matches!(self.admission, Admission::Accepted)
    }

    /// Gives back memory that only a job at work needs. A hundred thousand jobs may be pending.
    pub(in crate::engine) fn shrink(&mut self) {
        self.job.jobspec.close();
        if self.posted.queue.is_empty() {
            self.posted.queue = VecDeque::new();
        }
    }

    /// Whether no event and no asynchronous handler is at work on the job.
    pub(in crate::engine) fn is_idle(&self) -> bool {
        !self.posted.busy && self.posted.queue.is_empty() && self.async_work.is_empty()
    }

    /// Whether an event of this name is in the log or waits to be applied.
    pub(in crate::engine) fn has_event(&self, name: &str) -> bool {
        self.job.event_posted(name) || self.posted.contains(name)
    }

    /// What the job holds of its R.
    pub(in crate::engine) fn held(&self) -> Option<&ResourceSet> {
        self.holding.of(self.job.resources.as_deref())
    }

    /// How the job came out; `None` until it is inactive.
    pub(in crate::engine) fn result(&self) -> Option<JobResult> {
        if self.job.state != State::Inactive {
            return None;
        }
        let severity = |e: &EventEntry| field(e, "severity").and_then(Value::as_i64);
        let fatal = self.exception.as_deref().filter(|e| severity(e) == Some(0));
        if self.wait_status == Some(0) && fatal.is_none() {
            return Some(JobResult::Completed);
        }
        Some(match fatal.and_then(|e| field(e, "type")).and_then(Value::as_str) {
            Some("cancel") => JobResult::Canceled,
            Some("timeout") => JobResult::Timeout,
            _ => JobResult::Failed,
        })
    }
}
