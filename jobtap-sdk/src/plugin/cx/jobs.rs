//! Jobs as arguments of calls. The type of such a job proves what the call needs: that the job exists,
//! is active, is pending, or is in CLEANUP.
//!
//! A job is borrowed from the host, which changes no job while a handler runs. So what was true when
//! the value was made is true for the whole callback.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::eventlog::EventEntry;
use crate::job::{Flags, Job, JobId, JobInfo, JobResult, State, Timestamp, Uid, Urgency};
use crate::jobspec::Jobspec;
use crate::resource::ResourceSet;
use crate::slurm::JobRecord;
use crate::topic::{HasActiveJob, HasPendingJob, TopicSet};

/// A job that exists: active, or inactive and not yet purged. [`Cx::job`](crate::plugin::Cx::job)
/// returns it for an id.
///
/// It has the getters of a [`Job`] but does not convert into one. A handler's `&Job` proves more by its
/// topic (in `job.state.run`, that the job is active), while a job that was looked up may be in any
/// state.
///
/// ```compile_fail,E0308
/// # use jobtap_core::prelude::*;
/// fn note(job: &Job, cx: &Cx<'_, JobNew>) {
///     let _ = cx.subscribe(job);
/// }
///
/// fn other(cx: &Cx<'_, JobNew>, id: JobId) -> Result<(), CallError> {
///     Ok(note(&cx.job(id)?, cx)) // expected `&Job`, found `&JobRef<'_>`
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct JobRef<'a>(&'a Job);

/// A job that was accepted and is not inactive: in DEPEND, PRIORITY, SCHED, RUN or CLEANUP.
/// [`Cx::active_job`](crate::plugin::Cx::active_job) returns it for an id.
///
/// ```
/// # use jobtap_core::prelude::*;
/// fn hurry(id: JobId, cx: &Cx<'_, Service>) -> Result<(), ServiceError> {
///     let job = cx.active_job(id)?; // or: "job ƒ3 is inactive or not accepted yet"
///     Ok(cx.reprioritize(job, Priority::new(1_000_000))?)
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ActiveJob<'a>(&'a Job);

/// A job in DEPEND, PRIORITY or SCHED. It has no resources yet, so its jobspec can still be changed.
/// [`ActiveJob::pending`] returns it.
///
/// ```
/// # use jobtap_core::prelude::*;
/// fn to_night(id: JobId, cx: &Cx<'_, Service>) -> Result<(), ServiceError> {
///     match cx.active_job(id)?.pending() {
///         Some(job) => Ok(cx.jobspec_update_of(job, path!("attributes.system.queue"), "night")?),
///         None => Err(ServiceError::invalid("the job has its resources already")),
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct PendingJob<'a>(&'a Job);

/// A job in CLEANUP, for which an epilog can still be started. [`ActiveJob::cleanup`] returns it.
///
/// ```
/// # use jobtap_core::prelude::*;
/// fn scrub(id: JobId, cx: &Cx<'_, Later>) -> Result<(), CallError> {
///     if let Some(job) = cx.active_job(id)?.cleanup() {
///         cx.epilog_start_of(job, "scrub")?.finish(0);
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct CleanupJob<'a>(&'a Job);

/// A dependency that was added to a job and is not removed yet.
///
/// [`Job::dependency`] finds it, [`Cx::dependency_add`](crate::plugin::Cx::dependency_add) returns it,
/// and [`Cx::dependency_remove`](crate::plugin::Cx::dependency_remove) takes it. It is valid for one
/// callback. A later callback looks the dependency up again, since it may be removed by then.
///
/// ```
/// # use jobtap_core::prelude::*;
/// fn done(cx: &Cx<'_, Later>, id: JobId) -> Result<(), CallError> {
///     let job = cx.active_job(id)?;
///     if let Some(license) = job.dependency("license=matlab") {
///         cx.dependency_remove(license);
///     }
///     Ok(())
/// }
/// ```
///
/// ```compile_fail,E0521
/// # use jobtap_core::prelude::*;
/// struct Licences { out: Vec<AddedDependency<'static>> }
///
/// impl Licences {
///     fn add(&mut self, cx: &Cx<'_, JobStateDepend>) -> Result<(), CallError> {
///         self.out.push(cx.dependency_add("license")?);
///         Ok(())
///     }
/// }
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct AddedDependency<'a> {
    pub(crate) job: JobId,
    pub(crate) description: Cow<'a, str>,
}

impl AddedDependency<'_> {
    /// The dependency's name within its job.
    pub fn description(&self) -> &str {
        &self.description
    }
}

impl<'a> JobRef<'a> {
    pub(crate) fn new(job: &'a Job) -> Self {
        Self(job)
    }

    /// The job as an active one; `None` when it is inactive or not accepted yet.
    pub fn active(self) -> Option<ActiveJob<'a>> {
        let active = !matches!(self.0.state(), State::New | State::Inactive);
        active.then_some(ActiveJob(self.0))
    }
}

impl<'a> ActiveJob<'a> {
    /// The job as a pending one; `None` in RUN and CLEANUP.
    pub fn pending(self) -> Option<PendingJob<'a>> {
        let pending = matches!(self.0.state(), State::Depend | State::Priority | State::Sched);
        pending.then_some(PendingJob(self.0))
    }

    /// The job as one in CLEANUP; `None` in other states.
    pub fn cleanup(self) -> Option<CleanupJob<'a>> {
        (self.0.state() == State::Cleanup).then_some(CleanupJob(self.0))
    }
}

impl<'a> From<&'a Job> for JobRef<'a> {
    fn from(job: &'a Job) -> Self {
        Self(job)
    }
}

/// The job in Slurm's terms.
impl From<JobRef<'_>> for JobRecord {
    fn from(job: JobRef<'_>) -> Self {
        Self::from_job(job.0)
    }
}

impl From<JobRef<'_>> for JobInfo {
    fn from(job: JobRef<'_>) -> Self {
        Self::from(job.0)
    }
}

macro_rules! reads {
    ($($job:ident)*; $reads:tt) => { $( reads!(@ $job $reads); )* };
    (@ $job:ident { $( $name:ident($($arg:ident: $type:ty)?) -> $read:ty; )* }) => {
        impl<'a> $job<'a> { $(
            #[doc = concat!("See [`Job::", stringify!($name), "`].")]
            pub fn $name(self $(, $arg: $type)?) -> $read {
                self.0.$name($($arg)?)
            }
        )* }
    };
}

reads! { JobRef ActiveJob PendingJob CleanupJob; {
    id() -> JobId;
    userid() -> Uid;
    urgency() -> Urgency;
    flags() -> Flags;
    state() -> State;
    priority() -> Option<u32>;
    t_submit() -> Timestamp;
    t_alloc() -> Option<Timestamp>;
    t_start() -> Option<Timestamp>;
    t_cleanup() -> Option<Timestamp>;
    t_inactive() -> Option<Timestamp>;
    jobspec() -> &'a Jobspec;
    resources() -> Option<&'a ResourceSet>;
    end_event() -> Option<&'a EventEntry>;
    dependencies() -> impl Iterator<Item = &'a str>;
    dependency(description: &str) -> Option<AddedDependency<'a>>;
    annotations() -> &'a Map<String, Value>;
    event_posted(name: impl AsRef<str>) -> bool;
    result() -> Option<JobResult>;
} }

impl Job {
    /// The dependency with this description, if it was added and is not removed yet.
    pub fn dependency(&self, description: &str) -> Option<AddedDependency<'_>> {
        if !matches!(self.state(), State::New | State::Depend) {
            return None;
        }
        let name = self.dependencies().find(|name| *name == description)?;
        Some(AddedDependency { job: self.id(), description: Cow::Borrowed(name) })
    }
}

macro_rules! jobs {
    ($($name:ident)*) => { $(
        impl Identified for $name<'_> {
            fn job_id(&self) -> JobId {
                self.0.id()
            }
        }

        impl AsJob for $name<'_> {}
    )* };
}
jobs!(JobRef ActiveJob PendingJob CleanupJob);

macro_rules! active_jobs {
    ($($name:ident)*) => { $(
        impl<'a> From<$name<'a>> for JobRef<'a> {
            fn from(job: $name<'a>) -> Self {
                Self(job.0)
            }
        }
    )* };
}
active_jobs!(ActiveJob PendingJob CleanupJob);

impl Identified for &Job {
    fn job_id(&self) -> JobId {
        self.id()
    }
}

mod sealed {
    use super::JobId;

    /// Implemented only by the types of this file, so that no other type can serve as a proof.
    pub trait Identified {
        fn job_id(&self) -> JobId;
    }
}
pub(super) use sealed::Identified;

/// A job that exists: the handler's `&Job`, or a job that was looked up by its id.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a job",
    label = "expected a job that is known to exist",
    note = "pass the handler's `&Job`, or look one up by its id: `cx.job(id)?`"
)]
pub trait AsJob: Identified {}

impl AsJob for &Job {}

/// An active job: the handler's `&Job` at topics where it is always active, or an [`ActiveJob`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` may be inactive, or is not a job",
    label = "expected an active job",
    note = "pass the handler's `&Job`, or look one up by its id: `cx.active_job(id)?`; of a `JobRef` it is `job.active()`"
)]
pub trait AsActiveJob<T: TopicSet>: Identified {}

impl<T: HasActiveJob> AsActiveJob<T> for &Job {}

impl<T: TopicSet> AsActiveJob<T> for ActiveJob<'_> {}

impl<T: TopicSet> AsActiveJob<T> for PendingJob<'_> {}

impl<T: TopicSet> AsActiveJob<T> for CleanupJob<'_> {}

/// A pending job: the handler's `&Job` at topics where it is always pending, or a [`PendingJob`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` may have its resources already, or be inactive",
    label = "expected a pending job",
    note = "look it up with `cx.active_job(id)?` and take `job.pending()`"
)]
pub trait AsPendingJob<T: TopicSet>: Identified {}

impl<T: HasPendingJob> AsPendingJob<T> for &Job {}

impl<T: TopicSet> AsPendingJob<T> for PendingJob<'_> {}
