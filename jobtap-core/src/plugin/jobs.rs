//! Jobs as calls take them: proofs of what a call needs of its job.
//!
//! The job of a callback is borrowed from the host, which changes nothing while a handler runs. So a
//! value that was got by looking at the job stays true for the whole callback, and a call that takes
//! it can't be made on a job for which it is meaningless.

use std::borrow::Cow;
use std::ops::Deref;

use crate::job::{Job, JobId, State};
use crate::topic::{HasLiveJob, HasPendingJob, TopicSet};

/// A job that exists, as [`Cx::job`](super::Cx::job) gives it for an id: active, or inactive and not
/// yet purged.
#[derive(Debug, Clone, Copy)]
pub struct JobRef<'a>(&'a Job);

/// A job that was accepted and is not over, as [`Cx::live`](super::Cx::live) gives it for an id.
#[derive(Debug, Clone, Copy)]
pub struct LiveJob<'a>(&'a Job);

/// A live job that has no resources yet: its jobspec can still be changed.
#[derive(Debug, Clone, Copy)]
pub struct PendingJob<'a>(&'a Job);

/// A job in CLEANUP: an epilog can still hold its resources.
#[derive(Debug, Clone, Copy)]
pub struct EndingJob<'a>(&'a Job);

/// A dependency that holds a job: got from [`Job::dependency`] or
/// [`Cx::dependency_add`](super::Cx::dependency_add), given to
/// [`Cx::dependency_remove`](super::Cx::dependency_remove).
///
/// ```
/// # use jobtap_core::prelude::*;
/// fn done(cx: &Cx<'_, Later>, id: JobId) -> Result<(), CallError> {
///     let job = cx.live(id)?;
///     if let Some(held) = job.dependency("license=matlab") {
///         cx.dependency_remove(held);
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Held<'a> {
    pub(crate) job: JobId,
    pub(crate) description: Cow<'a, str>,
}

impl Held<'_> {
    /// The dependency's name within its job.
    pub fn description(&self) -> &str {
        &self.description
    }
}

impl<'a> JobRef<'a> {
    pub(crate) fn new(job: &'a Job) -> Self {
        Self(job)
    }

    /// The job as one that calls can be made on; `None` when it is over, or not accepted yet.
    pub fn live(self) -> Option<LiveJob<'a>> {
        let live = !matches!(self.0.state(), State::New | State::Inactive);
        live.then_some(LiveJob(self.0))
    }
}

impl<'a> LiveJob<'a> {
    /// The job as one that has no resources yet; `None` from RUN on.
    pub fn pending(self) -> Option<PendingJob<'a>> {
        let pending = matches!(self.0.state(), State::Depend | State::Priority | State::Sched);
        pending.then_some(PendingJob(self.0))
    }

    /// The job as one that has ended and is being cleaned up; `None` before CLEANUP.
    pub fn ending(self) -> Option<EndingJob<'a>> {
        (self.0.state() == State::Cleanup).then_some(EndingJob(self.0))
    }
}

impl<'a> From<&'a Job> for JobRef<'a> {
    fn from(job: &'a Job) -> Self {
        Self(job)
    }
}

impl Job {
    /// The dependency of this description, if it holds the job.
    pub fn dependency(&self, description: &str) -> Option<Held<'_>> {
        if !matches!(self.state, State::New | State::Depend) {
            return None;
        }
        let open = self.dependencies.iter().filter(|held| held.open);
        let held = open.map(|held| &*held.description).find(|held| *held == description)?;
        Some(Held { job: self.id, description: Cow::Borrowed(held) })
    }
}

macro_rules! jobs {
    ($($name:ident)*) => { $(
        impl Deref for $name<'_> {
            type Target = Job;

            fn deref(&self) -> &Job {
                self.0
            }
        }

        impl AsJob for $name<'_> {
            fn as_job(&self) -> &Job {
                self.0
            }
        }
    )* };
}
jobs!(JobRef LiveJob PendingJob EndingJob);

/// What calls take that only need a job that exists: the handler's `&Job`, or one found by its id.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a job",
    label = "a job that is known to exist is asked for",
    note = "pass the handler's `&Job`, or look one up by its id: `cx.job(id)?`"
)]
pub trait AsJob {
    /// The job.
    fn as_job(&self) -> &Job;
}

impl AsJob for &Job {
    fn as_job(&self) -> &Job {
        self
    }
}

/// What calls take that need a job that is not over: the handler's `&Job` at the topics where it
/// can't be, or a [`LiveJob`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` may be over, or be no job at all",
    label = "a job that is not over is asked for",
    note = "pass the handler's `&Job`, or look one up by its id: `cx.live(id)?`; of a `JobRef` it is `job.live()`"
)]
pub trait AsLiveJob<T: TopicSet> {
    /// Its id.
    fn live_id(&self) -> JobId;
}

impl<T: HasLiveJob> AsLiveJob<T> for &Job {
    fn live_id(&self) -> JobId {
        self.id
    }
}

/// What calls take that need a job without resources yet: the handler's `&Job` at the topics where it
/// has none, or a [`PendingJob`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` may have its resources already, or be over",
    label = "a job that waits for its resources is asked for",
    note = "look it up with `cx.live(id)?` and ask: `job.pending()`"
)]
pub trait AsPendingJob<T: TopicSet> {
    /// Its id.
    fn pending_id(&self) -> JobId;
}

impl<T: HasPendingJob> AsPendingJob<T> for &Job {
    fn pending_id(&self) -> JobId {
        self.id
    }
}

impl<T: TopicSet> AsPendingJob<T> for PendingJob<'_> {
    fn pending_id(&self) -> JobId {
        self.0.id
    }
}

impl<T: TopicSet> AsLiveJob<T> for LiveJob<'_> {
    fn live_id(&self) -> JobId {
        self.0.id
    }
}

impl<T: TopicSet> AsLiveJob<T> for PendingJob<'_> {
    fn live_id(&self) -> JobId {
        self.0.id
    }
}

impl<T: TopicSet> AsLiveJob<T> for EndingJob<'_> {
    fn live_id(&self) -> JobId {
        self.0.id
    }
}
