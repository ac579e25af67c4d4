//! Jobs as calls take them: proofs of what a call needs of its job.
//!
//! The job of a callback is borrowed from the host, which changes nothing while a handler runs. So a
//! value that was got by looking at the job stays true for the whole callback, and a call that takes
//! it can't be made on a job for which it is meaningless.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::eventlog::EventEntry;
use crate::job::{Flags, Job, JobId, JobInfo, JobResult, State, Timestamp, Uid, Urgency};
use crate::jobspec::Jobspec;
use crate::resource::ResourceSet;
use crate::topic::{HasLiveJob, HasPendingJob, TopicSet};

/// A job that exists, as [`Cx::job`](crate::plugin::Cx::job) gives it for an id: active, or inactive and not
/// yet purged.
///
/// Like the others here it has the reads of a [`Job`] but is not one: a handler's `&Job` is taken as it
/// is where its topic proves enough of it, and a job that was looked up is another one.
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

/// A job that was accepted and is not over, as [`Cx::live`](crate::plugin::Cx::live) gives it for an id.
///
/// ```
/// # use jobtap_core::prelude::*;
/// fn hurry(id: JobId, cx: &Cx<'_, Service>) -> Result<(), ServiceError> {
///     let job = cx.live(id)?; // or: "job ƒ3 is over, or not accepted yet"
///     Ok(cx.reprioritize(job, Priority::new(1_000_000))?)
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct LiveJob<'a>(&'a Job);

/// A live job that has no resources yet: its jobspec can still be changed.
///
/// ```
/// # use jobtap_core::prelude::*;
/// fn to_night(id: JobId, cx: &Cx<'_, Service>) -> Result<(), ServiceError> {
///     match cx.live(id)?.pending() {
///         Some(job) => Ok(cx.jobspec_update_of(job, path!("attributes.system.queue"), "night")?),
///         None => Err(ServiceError::invalid("it has its resources already")),
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct PendingJob<'a>(&'a Job);

/// A job in CLEANUP: an epilog can still hold its resources.
///
/// ```
/// # use jobtap_core::prelude::*;
/// fn scrub(id: JobId, cx: &Cx<'_, Later>) -> Result<(), CallError> {
///     if let Some(job) = cx.live(id)?.ending() {
///         cx.epilog_start_of(job, "scrub")?.finish(0);
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct EndingJob<'a>(&'a Job);

/// A dependency that holds a job: got from [`Job::dependency`] or
/// [`Cx::dependency_add`](crate::plugin::Cx::dependency_add), given to
/// [`Cx::dependency_remove`](crate::plugin::Cx::dependency_remove). It lasts as long as the callback; what
/// comes later looks the dependency up again, which may be gone by then.
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
///
/// ```compile_fail,E0521
/// # use jobtap_core::prelude::*;
/// struct Licences { out: Vec<Held<'static>> }
///
/// impl Licences {
///     fn hold(&mut self, cx: &Cx<'_, JobStateDepend>) -> Result<(), CallError> {
///         self.out.push(cx.dependency_add("license")?);
///         Ok(())
///     }
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

impl From<JobRef<'_>> for JobInfo {
    fn from(job: JobRef<'_>) -> Self {
        Self::from(job.0)
    }
}

macro_rules! reads {
    ($($job:ident)*; $reads:tt) => { $( reads!(@ $job $reads); )* };
    (@ $job:ident { $( $name:ident($($arg:ident: $type:ty)?) -> $read:ty; )* }) => {
        impl<'a> $job<'a> { $(
            #[doc = concat!("As [`Job::", stringify!($name), "`].")]
            pub fn $name(self $(, $arg: $type)?) -> $read {
                self.0.$name($($arg)?)
            }
        )* }
    };
}

reads! { JobRef LiveJob PendingJob EndingJob; {
    id() -> JobId;
    userid() -> Uid;
    urgency() -> Urgency;
    flags() -> Flags;
    state() -> State;
    priority() -> Option<u32>;
    t_submit() -> Timestamp;
    jobspec() -> &'a Jobspec;
    resources() -> Option<&'a ResourceSet>;
    end_event() -> Option<&'a EventEntry>;
    dependencies() -> impl Iterator<Item = &'a str>;
    dependency(description: &str) -> Option<Held<'a>>;
    annotations() -> &'a Map<String, Value>;
    event_posted(name: &str) -> bool;
    result() -> Option<JobResult>;
} }

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
        impl Identified for $name<'_> {
            fn job_id(&self) -> JobId {
                self.0.id
            }
        }

        impl AsJob for $name<'_> {}
    )* };
}
jobs!(JobRef LiveJob PendingJob EndingJob);

macro_rules! live_jobs {
    ($($name:ident)*) => { $(
        impl<'a> From<$name<'a>> for JobRef<'a> {
            fn from(job: $name<'a>) -> Self {
                Self(job.0)
            }
        }
    )* };
}
live_jobs!(LiveJob PendingJob EndingJob);

impl Identified for &Job {
    fn job_id(&self) -> JobId {
        self.id
    }
}

mod sealed {
    use super::JobId;

    /// Keeps proofs of jobs to those that the SDK gives.
    pub trait Identified {
        fn job_id(&self) -> JobId;
    }
}
pub(super) use sealed::Identified;

/// What calls take that only need a job that exists: the handler's `&Job`, or one found by its id.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a job",
    label = "a job that is known to exist is asked for",
    note = "pass the handler's `&Job`, or look one up by its id: `cx.job(id)?`"
)]
pub trait AsJob: Identified {}

impl AsJob for &Job {}

/// What calls take that need a job that is not over: the handler's `&Job` at the topics where it
/// can't be, or a [`LiveJob`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` may be over, or be no job at all",
    label = "a job that is not over is asked for",
    note = "pass the handler's `&Job`, or look one up by its id: `cx.live(id)?`; of a `JobRef` it is `job.live()`"
)]
pub trait AsLiveJob<T: TopicSet>: Identified {}

impl<T: HasLiveJob> AsLiveJob<T> for &Job {}

impl<T: TopicSet> AsLiveJob<T> for LiveJob<'_> {}

impl<T: TopicSet> AsLiveJob<T> for PendingJob<'_> {}

impl<T: TopicSet> AsLiveJob<T> for EndingJob<'_> {}

/// What calls take that need a job without resources yet: the handler's `&Job` at the topics where it
/// has none, or a [`PendingJob`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` may have its resources already, or be over",
    label = "a job that waits for its resources is asked for",
    note = "look it up with `cx.live(id)?` and ask: `job.pending()`"
)]
pub trait AsPendingJob<T: TopicSet>: Identified {}

impl<T: HasPendingJob> AsPendingJob<T> for &Job {}

impl<T: TopicSet> AsPendingJob<T> for PendingJob<'_> {}
