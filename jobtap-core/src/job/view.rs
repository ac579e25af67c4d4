//! A job as plugins see it.
//!
//! The engine owns every [`Job`] and lends it to handlers. Plugins can't construct one, so a `&Job`
//! proves that the job exists (see [`JobRef`](crate::plugin::JobRef)).

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thin_vec::ThinVec;

use super::asked::Asked;
use super::{Annotations, Flags, JobId, JobResult, State, Times, Timestamp, Uid, Unread, Urgency};
use crate::eventlog::{EventEntry, KNOWN_EVENTS};
use crate::jobspec::Jobspec;
use crate::resource::ResourceSet;

/// The current state of a job: id, user, jobspec, urgency, priority, resources (RFC 21).
///
/// What a callback asks for is carried out after it; the job shows it to that callback at once: posted
/// events, urgency, flags, memos, dependencies and the jobspec. Its state and priority stay as they are.
///
/// A `Job` can't be cloned, because a copy would soon be outdated. Use [`JobInfo`] where an owned
/// snapshot is needed.
///
/// ```
/// # use jobtap_core::prelude::*;
/// fn score(job: &Job) -> f64 {
///     let waited = job.jobspec().duration() / 3600.0;
///     match job.jobspec().queue() {
///         Some("debug") => 1e6,
///         _ => f64::from(job.urgency().value()) * 1000.0 - waited,
///     }
/// }
/// ```
#[derive(Debug)]
pub struct Job {
    pub(crate) id: JobId,
    pub(crate) userid: Uid,
    pub(crate) urgency: Urgency,
    pub(crate) flags: Flags,
    pub(crate) state: State,
    pub(crate) priority: Option<u32>,
    pub(crate) t_submit: Timestamp,
    pub(crate) jobspec: Jobspec,
    pub(crate) resources: Unread<Option<Arc<ResourceSet>>>,
    pub(crate) end_event: Unread<Option<Arc<EventEntry>>>,
    pub(crate) dependencies: ThinVec<KnownDependency>,
    pub(crate) annotations: Annotations,
    pub(crate) logged: LoggedEvents,
    pub(crate) times: Times,
    /// What the callback that runs now has asked for. The engine forgets it after the callback.
    pub(crate) asked: Asked,
}

/// A dependency of a job by its description. It stays known after its removal, so that a description
/// can be added once per job only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownDependency {
    pub(crate) description: Box<str>,
    pub(crate) open: bool,
}

/// The names of the events in a job's eventlog. Names that the manager knows take one bit each, since
/// every job has this value for its whole life.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoggedEvents {
    known: u32,
    #[serde(default, skip_serializing_if = "ThinVec::is_empty")]
    others: ThinVec<Box<str>>,
}

impl LoggedEvents {
    pub(crate) fn add(&mut self, name: &str) {
        match Self::bit(name) {
            Some(bit) => self.known |= bit,
            None if self.has(name) => {}
            None => self.others.push(name.into()),
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        match Self::bit(name) {
            Some(bit) => self.known & bit != 0,
            None => self.others.iter().any(|other| **other == *name),
        }
    }

    fn bit(name: &str) -> Option<u32> {
        KNOWN_EVENTS.iter().position(|known| *known == name).map(|index| 1 << index)
    }
}

impl Job {
    /// A copy of the job with another jobspec.
    pub(crate) fn with_jobspec(&self, jobspec: Jobspec) -> Self {
        Self {
            jobspec,
            resources: self.resources.clone(),
            end_event: self.end_event.clone(),
            dependencies: self.dependencies.clone(),
            annotations: self.annotations.clone(),
            logged: self.logged.clone(),
            times: self.times.clone(),
            asked: Asked::default(),
            ..*self
        }
    }

    /// The job's id.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// The user who submitted it.
    pub fn userid(&self) -> Uid {
        self.userid
    }

    /// The urgency, 0 to 31 (RFC 30).
    #[inline]
    pub fn urgency(&self) -> Urgency {
        self.asked.urgency().unwrap_or(self.urgency)
    }

    /// The submit flags.
    pub fn flags(&self) -> Flags {
        self.flags | self.asked.flags()
    }

    /// The state, after the event that led to this callback was applied.
    pub fn state(&self) -> State {
        self.state
    }

    /// The priority; `None` until it is set for the first time.
    pub fn priority(&self) -> Option<u32> {
        self.priority
    }

    /// The time of submission.
    pub fn t_submit(&self) -> Timestamp {
        self.t_submit
    }

    /// When the job got its resources: the time of the `alloc` event, Flux's `t_run`. `None` before.
    pub fn t_alloc(&self) -> Option<Timestamp> {
        self.times.run()
    }

    /// When its tasks were started: the time of the `start` event. `None` before, and for a job that ended
    /// without having started. Prologs can delay it after [`t_alloc`](Self::t_alloc).
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// /// The seconds that a job had its nodes, and those of them in which it ran.
    /// fn used(job: &Job) -> Option<(f64, f64)> {
    ///     let end = job.t_cleanup()?.as_secs();
    ///     let had = end - job.t_alloc()?.as_secs();
    ///     let ran = job.t_start().map_or(0.0, |start| end - start.as_secs());
    ///     Some((had, ran))
    /// }
    /// ```
    pub fn t_start(&self) -> Option<Timestamp> {
        self.times.start()
    }

    /// When the job entered CLEANUP: when its tasks finished, or when a fatal exception ended it. `None`
    /// before.
    pub fn t_cleanup(&self) -> Option<Timestamp> {
        self.times.cleanup()
    }

    /// When the job became inactive. `None` before.
    pub fn t_inactive(&self) -> Option<Timestamp> {
        self.times.inactive()
    }

    /// The jobspec with all updates applied, without the environment.
    pub fn jobspec(&self) -> &Jobspec {
        self.asked.jobspec().unwrap_or(&self.jobspec)
    }

    /// The resources that are allocated to the job, from its `alloc` event on. They stay available when
    /// the job is inactive. R's `scheduling` key is not among them.
    pub fn resources(&self) -> Option<&ResourceSet> {
        self.resources.as_deref()
    }

    /// Takes over R without its `scheduling` key, which is the scheduler's own and can be large; R as it is stored
    /// keeps it. Flux shows plugins the same part.
    pub(crate) fn set_resources(&mut self, mut resources: ResourceSet) {
        resources.set_scheduling(None);
        *self.resources = Some(Arc::new(resources));
    }

    /// As [`set_resources`](Self::set_resources), for R that has just been written as `text`.
    pub(crate) fn set_written_resources(&mut self, resources: ResourceSet, text: &str) {
        let is_all_of_it = resources.scheduling().is_none();
        self.set_resources(resources);
        if is_all_of_it {
            self.resources.note_written(text);
        }
    }

    /// The event that moved the job to CLEANUP: `finish`, or the first fatal `exception`.
    pub fn end_event(&self) -> Option<&EventEntry> {
        self.end_event.as_deref()
    }

    /// The descriptions of the dependencies that the job is still waiting for.
    pub fn dependencies(&self) -> impl Iterator<Item = &str> {
        let open = self
            .dependencies
            .iter()
            .filter(|known| known.open && self.asked.dependency(&known.description) != Some(false));
        let is_new =
            |name: &&str| self.dependencies.iter().all(|known| *known.description != **name);
        open.map(|known| &*known.description).chain(self.asked.added_dependencies().filter(is_new))
    }

    /// The annotations, which are shown to users and not kept in the eventlog. `sched` belongs to the
    /// scheduler and `user` to the user.
    pub fn annotations(&self) -> &Map<String, Value> {
        self.asked.annotations().unwrap_or(&self.annotations)
    }

    /// Whether the job's eventlog has an event of this name, also from before a restart.
    pub fn event_posted(&self, name: &str) -> bool {
        self.logged.has(name) || self.asked.has_event(name)
    }

    /// The result according to the [end event](Self::end_event); `None` before CLEANUP.
    ///
    /// A job with `finish` and status 0 is completed, one with an exception of type `cancel` canceled,
    /// one with an exception of type `timeout` timed out; any other has failed. Listings show a failed job as
    /// canceled or timed out, too, if such an exception came after `finish`, while its epilog ran.
    pub fn result(&self) -> Option<JobResult> {
        let end = self.end_event.as_deref()?;
        Some(match (&*end.name, end.context.as_ref()) {
            ("finish", Some(context))
                if context.get("status").and_then(Value::as_i64) == Some(0) =>
            {
                JobResult::Completed
            }
            ("exception", Some(context)) => {
                let kind = context.get("type").and_then(Value::as_str);
                JobResult::of_exception(kind.unwrap_or_default())
            }
            _ => JobResult::Failed,
        })
    }
}

/// An owned snapshot of a [`Job`], for asynchronous handlers, which outlive the callback.
///
/// ```
/// # use jobtap_core::prelude::*;
/// # #[derive(Default)]
/// # struct Scratch;
/// #[jobtap_plugin(name = "scratch")]
/// impl Scratch {
///     #[on("job.state.run")]
///     async fn prepare(job: JobInfo, remote: Remote<Self>) -> Result<(), PrologFailed> {
///         let make = Process::new("make-scratch").arg(job.userid.to_string());
///         let done = remote.run_process(make).await?;
///         done.success().map_err(|how| PrologFailed::new(format!("job {}: {how}", job.id)))
///     }
/// }
/// ```
#[derive(Debug, Clone)]
pub struct JobInfo {
    /// The job's id.
    pub id: JobId,
    /// The user who submitted it.
    pub userid: Uid,
    /// The urgency when the handler was called.
    pub urgency: Urgency,
    /// The state when the handler was called.
    pub state: State,
    /// The priority at that time.
    pub priority: Option<u32>,
    /// The time of submission.
    pub t_submit: Timestamp,
    /// When it got its resources, if it had.
    pub t_alloc: Option<Timestamp>,
    /// When its tasks were started, if they were.
    pub t_start: Option<Timestamp>,
    /// The jobspec at that time, without the environment.
    pub jobspec: Jobspec,
    /// The resources at that time.
    pub resources: Option<Arc<ResourceSet>>,
}

impl From<&Job> for JobInfo {
    fn from(job: &Job) -> Self {
        Self {
            id: job.id,
            userid: job.userid,
            urgency: job.urgency(),
            state: job.state,
            priority: job.priority,
            t_submit: job.t_submit,
            t_alloc: job.t_alloc(),
            t_start: job.t_start(),
            jobspec: job.jobspec().clone(),
            resources: (*job.resources).clone(),
        }
    }
}
