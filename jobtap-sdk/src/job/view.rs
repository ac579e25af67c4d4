//! A job as plugins see it.
//!
//! The engine owns every [`Job`] and lends it to handlers. Plugins can't construct one, so a `&Job`
//! proves that the job exists (see [`JobRef`](crate::plugin::JobRef)).

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thin_vec::ThinVec;

use super::overlay::Overlay;
use super::{Annotations, Flags, JobId, JobResult, State, Times, Timestamp, Uid, Unread, Urgency};
use crate::eventlog::{Event, EventEntry, Name};
use crate::jobspec::Jobspec;
use crate::resource::ResourceSet;

/// The current state of a job: id, user, jobspec, urgency, priority, resources (RFC 21).
///
/// Changes that a callback asks for are carried out after it, but the callback sees them at once: posted events,
/// urgency, flags, memos, dependencies and the jobspec. The state and priority don't change during a callback.
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
    kept: Kept,
    /// The changes that the current callback has asked for. The engine clears them after the callback.
    overlay: Overlay,
}

/// What a host keeps of a job: all that its methods show, without the changes of the current callback.
#[doc(hidden)]
#[derive(Debug)]
pub struct Kept {
    pub id: JobId,
    pub userid: Uid,
    pub urgency: Urgency,
    pub flags: Flags,
    pub state: State,
    pub priority: Option<u32>,
    pub t_submit: Timestamp,
    pub jobspec: Jobspec,
    pub resources: Unread<Option<Arc<ResourceSet>>>,
    pub end_event: Unread<Option<Arc<EventEntry>>>,
    pub dependencies: ThinVec<KnownDependency>,
    pub annotations: Annotations,
    pub logged: LoggedEvents,
    pub times: Times,
}

impl Kept {
    /// Sets R without its `scheduling` key, which is private to the scheduler and can be large; the stored R keeps
    /// it. Flux hides it from plugins, too.
    pub fn set_resources(&mut self, mut resources: ResourceSet) {
        resources.set_scheduling(None);
        *self.resources = Some(Arc::new(resources));
    }

    /// Like [`set_resources`](Self::set_resources), for an R that has just been written as `text`.
    pub fn set_written_resources(&mut self, resources: ResourceSet, text: &str) {
        let is_all_of_it = resources.scheduling().is_none();
        self.set_resources(resources);
        if is_all_of_it {
            self.resources.note_written(text);
        }
    }
}

/// A dependency of a job by its description. It stays known after its removal, so that a description can be added
/// only once per job.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownDependency {
    pub description: Box<str>,
    pub open: bool,
}

/// The names of the events in a job's eventlog. Names that the manager knows take one bit each, since
/// every job has this value for its whole life.
#[doc(hidden)]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedEvents {
    known: u32,
    #[serde(default, skip_serializing_if = "ThinVec::is_empty")]
    others: ThinVec<Box<str>>,
}

impl LoggedEvents {
    pub fn add(&mut self, name: &Name) {
        match name.bit() {
            Some(bit) => self.known |= bit,
            None if self.has(name) => {}
            None => self.others.push(name.as_str().into()),
        }
    }

    pub fn has(&self, name: &Name) -> bool {
        match name.bit() {
            Some(bit) => self.known & bit != 0,
            None => self.others.iter().any(|other| **other == *name.as_str()),
        }
    }

    fn has_text(&self, text: &str) -> bool {
        match Name::known(text) {
            Some(name) => self.has(&name),
            None => self.others.iter().any(|other| **other == *text),
        }
    }
}

impl Job {
    /// The job of which a host keeps this.
    #[doc(hidden)]
    pub fn from_kept(kept: Kept) -> Self {
        Self { kept, overlay: Overlay::default() }
    }

    /// What the host keeps of it.
    #[doc(hidden)]
    #[inline]
    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Like [`kept`](Self::kept), to change it. Handlers have `&Job`, so only the host can.
    #[doc(hidden)]
    #[inline]
    pub fn kept_mut(&mut self) -> &mut Kept {
        &mut self.kept
    }

    /// What the current callback has asked for.
    #[doc(hidden)]
    #[inline]
    pub fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    /// Forgets what the current callback has asked for.
    #[doc(hidden)]
    pub fn clear_overlay(&mut self) {
        self.overlay = Overlay::default();
    }

    /// A copy of the job with another jobspec.
    #[doc(hidden)]
    pub fn with_jobspec(&self, jobspec: Jobspec) -> Self {
        let kept = &self.kept;
        Self::from_kept(Kept {
            jobspec,
            resources: kept.resources.clone(),
            end_event: kept.end_event.clone(),
            dependencies: kept.dependencies.clone(),
            annotations: kept.annotations.clone(),
            logged: kept.logged.clone(),
            times: kept.times.clone(),
            ..*kept
        })
    }

    /// The job's id.
    #[inline]
    pub fn id(&self) -> JobId {
        self.kept.id
    }

    /// The user who submitted it.
    #[inline]
    pub fn userid(&self) -> Uid {
        self.kept.userid
    }

    /// The urgency, 0 to 31 (RFC 30).
    #[inline]
    pub fn urgency(&self) -> Urgency {
        self.overlay.urgency().unwrap_or(self.kept.urgency)
    }

    /// The submit flags.
    #[inline]
    pub fn flags(&self) -> Flags {
        self.kept.flags | self.overlay.flags()
    }

    /// The state, after the event that led to this callback was applied.
    #[inline]
    pub fn state(&self) -> State {
        self.kept.state
    }

    /// The priority; `None` until it is set for the first time.
    #[inline]
    pub fn priority(&self) -> Option<u32> {
        self.kept.priority
    }

    /// The time of submission.
    #[inline]
    pub fn t_submit(&self) -> Timestamp {
        self.kept.t_submit
    }

    /// When the job got its resources: the time of the `alloc` event, Flux's `t_run`. `None` before.
    pub fn t_alloc(&self) -> Option<Timestamp> {
        self.kept.times.run()
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
        self.kept.times.start()
    }

    /// When the job entered CLEANUP: when its tasks finished, or when a fatal exception ended it. `None`
    /// before.
    pub fn t_cleanup(&self) -> Option<Timestamp> {
        self.kept.times.cleanup()
    }

    /// When the job became inactive. `None` before.
    pub fn t_inactive(&self) -> Option<Timestamp> {
        self.kept.times.inactive()
    }

    /// The jobspec with all updates applied, without the environment.
    #[inline]
    pub fn jobspec(&self) -> &Jobspec {
        self.overlay.jobspec().unwrap_or(&self.kept.jobspec)
    }

    /// The resources that are allocated to the job, without R's `scheduling` key; `None` before the `alloc` event.
    /// They stay available when the job is inactive.
    pub fn resources(&self) -> Option<&ResourceSet> {
        self.kept.resources.as_deref()
    }

    /// The event that moved the job to CLEANUP: `finish`, or the first fatal `exception`.
    pub fn end_event(&self) -> Option<&EventEntry> {
        self.kept.end_event.as_deref()
    }

    /// The descriptions of the dependencies that the job is still waiting for.
    pub fn dependencies(&self) -> impl Iterator<Item = &str> {
        let open = self.kept.dependencies.iter().filter(|known| {
            known.open && self.overlay.dependency(&known.description) != Some(false)
        });
        let is_new =
            |name: &&str| self.kept.dependencies.iter().all(|known| *known.description != **name);
        open.map(|known| &*known.description)
            .chain(self.overlay.added_dependencies().filter(is_new))
    }

    /// The annotations, which are shown to users and not kept in the eventlog. `sched` belongs to the
    /// scheduler and `user` to the user.
    pub fn annotations(&self) -> &Map<String, Value> {
        self.overlay.annotations().unwrap_or(&self.kept.annotations)
    }

    /// Whether the job's eventlog has an event of this name, also from before a restart.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// use jobtap_core::eventlog::Name;
    ///
    /// fn holds_resources(job: &Job) -> bool {
    ///     job.event_posted(Name::Alloc) && !job.event_posted(Name::Free)
    /// }
    /// ```
    pub fn event_posted(&self, name: impl AsRef<str>) -> bool {
        self.kept.logged.has_text(name.as_ref()) || self.overlay.has_event(name.as_ref())
    }

    /// Whether a fatal exception has ended the job.
    #[doc(hidden)]
    pub fn is_ended_by_exception(&self) -> bool {
        self.kept.end_event.as_deref().is_some_and(|end| end.name == Name::Exception)
    }

    /// Like [`event_posted`](Self::event_posted).
    #[doc(hidden)]
    pub fn has_event(&self, name: &Name) -> bool {
        self.kept.logged.has(name) || self.overlay.has_event(name)
    }

    /// The result according to the [end event](Self::end_event); `None` before CLEANUP.
    ///
    /// `finish` with status 0 means completed, an exception of type `cancel` canceled, and one of type `timeout`
    /// timed out; anything else means failed. Listings also show a failed job as canceled or timed out if such an
    /// exception came after `finish`, while its epilog ran.
    pub fn result(&self) -> Option<JobResult> {
        let end = self.kept.end_event.as_deref()?;
        Some(match end.event() {
            Ok(Event::Finish { status: 0 }) => JobResult::Completed,
            Ok(Event::Exception(raised)) => JobResult::of_exception(raised.kind),
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
    /// When it got its resources, if it had any.
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
            id: job.id(),
            userid: job.userid(),
            urgency: job.urgency(),
            state: job.state(),
            priority: job.priority(),
            t_submit: job.t_submit(),
            t_alloc: job.t_alloc(),
            t_start: job.t_start(),
            jobspec: job.jobspec().clone(),
            resources: (*job.kept.resources).clone(),
        }
    }
}
