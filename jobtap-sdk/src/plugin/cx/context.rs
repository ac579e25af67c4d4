//! The context of a handler: reads, and the calls that its topic allows.

use std::borrow::Cow;

use serde_json::Value;

use super::annotations::Annotations;
use super::arguments::{
    IsActiveJob, IsAddedDependency, IsEventName, IsJobFlag, IsJobspecPath, IsJson, IsText,
};
use super::call::Call;
use super::jobs::{
    ActiveJob, AddedDependency, AsActiveJob, AsJob, AsPendingJob, CleanupJob, JobRef,
};
use super::jobspec_path::JobspecPath;
use super::token::Token;
use crate::array::Progress;
use crate::host::{
    CallError, Command, Detail, EventName, Exception, Host, Level, Perilog, Priority,
};
use crate::job::{Job, JobFlag, JobId, Signal, Timestamp, Uid, Urgency};
use crate::queue::Queues;
use crate::resource::{Idset, ResourceSet};
use crate::topic::{
    AllowsDependencyAdd, AllowsEpilog, AllowsFatal, AllowsJobspecUpdate, AllowsProlog, OwnTopic,
    TopicSet, WithoutJob,
};

/// The context of a handler: what it can read from the host, and what it can ask for.
///
/// `T` is the topic, or the tuple of topics in the order of `#[on]`. A call exists only for topics that
/// allow it:
///
/// ```compile_fail
/// # use jobtap_core::prelude::*;
/// fn validate(cx: Cx<'_, JobValidate>) {
///     let _ = cx.prolog_start("scratch"); // a prolog can't be started from `JobValidate`
/// }
/// ```
///
/// A call is carried out at the end of the callback, before the next plugin is called and before the
/// job's own action; the jobs and the plugin's data show it to the same callback at once (see [`Job`]).
/// When the handler returns an error, its jobspec updates are dropped and its other calls are carried
/// out. When it panics, all are dropped.
pub struct Cx<'a, T: TopicSet> {
    call: Call<'a, T>,
}

impl<'a, T: TopicSet> Cx<'a, T> {
    pub(crate) fn new(call: Call<'a, T>) -> Self {
        Self { call }
    }

    pub(crate) fn host(&self) -> &'a dyn Host {
        self.call.args.host
    }

    pub(crate) fn detail(&self) -> Detail<'a> {
        self.call.args.detail
    }
}

/// Reads, and calls on the instance. Every topic allows them.
impl<'a, T: TopicSet> Cx<'a, T> {
    /// The time of this callback. All callbacks with the same cause, such as one submission, have the same time.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn waited(job: &Job, cx: &Cx<'_, JobStateRun>) -> f64 {
    ///     cx.now() - job.t_submit()
    /// }
    /// ```
    pub fn now(&self) -> Timestamp {
        self.host().now()
    }

    /// The user who owns the instance.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn validate(job: &Job, cx: &Cx<'_, JobValidate>) -> Result<(), Reject> {
    ///     match job.jobspec().attribute("alloc-bypass") {
    ///         Some(_) if job.userid() != cx.owner() => Err(Reject::new("not for guests")),
    ///         _ => Ok(()),
    ///     }
    /// }
    /// ```
    pub fn owner(&self) -> Uid {
        self.host().owner()
    }

    /// When the instance's resources expire (RFC 20 `expiration`), and with them every job; `None` when
    /// they don't expire.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn fits(jobspec: &Jobspec, cx: &Cx<'_, JobValidate>) -> bool {
    ///     cx.instance_expiration().is_none_or(|end| cx.now() + jobspec.duration() <= end)
    /// }
    /// ```
    pub fn instance_expiration(&self) -> Option<Timestamp> {
        self.instance_resources().expiration().map(Timestamp::from_secs)
    }

    /// All resources of the instance (RFC 20), including excluded and drained nodes and resources in use.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn whole_machine(r: &ResourceSet, cx: &Cx<'_, JobStateRun>) -> bool {
    ///     r.nnodes() == cx.instance_resources().nnodes()
    /// }
    /// ```
    pub fn instance_resources(&self) -> &'a ResourceSet {
        self.host().instance_resources()
    }

    /// The instance's queues (RFC 33): their names, whether they are enabled and started, their
    /// requirements and limits.
    ///
    /// ```
    /// use jobtap_core::prelude::*;
    ///
    /// #[derive(Default)]
    /// struct NightShift;
    ///
    /// #[jobtap_plugin(name = "night-shift")]
    /// impl NightShift {
    ///     /// Moves long jobs to the queue `night`, if it is enabled.
    ///     #[on("job.validate")]
    ///     fn validate(&self, job: &Job, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
    ///         let night = cx.queues().get("night").filter(|queue| queue.is_enabled());
    ///         if let Some(night) = night
    ///             && job.jobspec().duration() > 8.0 * 3600.0
    ///         {
    ///             cx.jobspec_update(path!("attributes.system.queue"), "night")?;
    ///             if let Some(constraint) = night.constraint() {
    ///                 cx.jobspec_update(path!("attributes.system.constraints"), constraint)?;
    ///             }
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), jobtap_core::testing::Refused> {
    /// use jobtap_core::testing::{TestJob, TestManager};
    ///
    /// let mut m = TestManager::new()
    ///     .plugin::<NightShift>()
    ///     .config(serde_json::json!({"queues": {"day": {}, "night": {}}}))
    ///     .start();
    /// let id = m.submit(TestJob::new().queue("day").duration(36_000.0))?;
    /// assert_eq!(m.job(id).jobspec().queue(), Some("night"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn queues(&self) -> &'a Queues {
        self.host().queues()
    }

    /// Looks up a job by its id: active, or inactive and not yet purged.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn state_of(id: JobId, cx: &Cx<'_, Service>) -> Result<String, ServiceError> {
    ///     Ok(cx.job(id)?.state().to_string())
    /// }
    /// ```
    ///
    /// # Errors
    /// [`CallError::UnknownJob`] when no job has this id.
    pub fn job(&self, id: JobId) -> Result<JobRef<'a>, CallError> {
        self.host().job(id).map(JobRef::new).ok_or(CallError::UnknownJob(id))
    }

    /// How far the elements of a job array have come; `None` if no array has this id. An array is no job; its elements
    /// become jobs when their turn comes, and [`Element`](crate::array::Element) says which array a job belongs to.
    ///
    /// **Hosts**: jobtap's manager. Others have no arrays.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// use jobtap_core::array::Element;
    ///
    /// fn is_last(job: &Job, cx: &Cx<'_, JobStateInactive>) -> bool {
    ///     let array = Element::of(job.jobspec().value()).and_then(|place| cx.array(place.array));
    ///     array.is_some_and(|array| array.is_over())
    /// }
    /// ```
    pub fn array(&self, id: JobId) -> Option<Progress> {
        self.host().array(id)
    }

    /// All active jobs, in the order of their ids. This visits each of them: a plugin that needs a count at each
    /// submission counts jobs at their events instead. While inactive jobs are introduced at a restart, jobs with
    /// greater ids are not there yet.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn running(cx: &Cx<'_, Service>) -> usize {
    ///     cx.active_jobs().filter(|job| job.state() == State::Run).count()
    /// }
    /// ```
    pub fn active_jobs(&self) -> impl Iterator<Item = JobRef<'a>> {
        let host = self.host();
        host.active_jobs().into_iter().filter_map(|id| host.job(id).map(JobRef::new))
    }

    /// The jobs that became inactive at this time or later, the latest first, without purged jobs. Only our
    /// manager has such jobs; other hosts return none.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn failed_lately(cx: &Cx<'_, Service>) -> usize {
    ///     let since = Timestamp::from_secs(cx.now().as_secs() - 600.0);
    ///     cx.ended_jobs(since).filter(|job| job.result() == Some(JobResult::Failed)).count()
    /// }
    /// ```
    pub fn ended_jobs(&self, since: Timestamp) -> impl Iterator<Item = JobRef<'a>> {
        let host = self.host();
        host.ended_jobs(since).into_iter().filter_map(|id| host.job(id).map(JobRef::new))
    }

    /// Looks up an active job by its id. Calls on jobs other than the handler's own take it.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn tell(id: JobId, cx: &Cx<'_, Service>) -> Result<(), ServiceError> {
    ///     Ok(cx.memo(cx.active_job(id)?, "from", "the help desk")?)
    /// }
    /// ```
    ///
    /// # Errors
    /// [`CallError::UnknownJob`] when there is no such job, [`CallError::NotActive`] when it is inactive
    /// or not accepted yet.
    pub fn active_job(&self, id: JobId) -> Result<ActiveJob<'a>, CallError> {
        self.job(id)?.active().ok_or(CallError::NotActive(id))
    }

    /// Drains nodes: they get no new jobs until an administrator undrains them; running jobs go on. A node
    /// that is drained already keeps its reason and time. Ranks that the instance doesn't have are
    /// logged.
    ///
    /// **Hosts**: jobtap's manager, Flux.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn inspect(job: &Job, r: &ResourceSet, cx: Cx<'_, JobStateRun>) {
    ///     cx.drain(&r.ranks(), format!("to be inspected after job {}", job.id()));
    /// }
    /// ```
    pub fn drain(&self, ranks: &Idset, reason: impl Into<String>) {
        let (ranks, reason) = (ranks.clone(), reason.into());
        self.host().push(Command::Drain { ranks, reason });
    }

    /// Calls `job.priority.get` on all plugins for each job in PRIORITY and SCHED: call it when something
    /// has changed that the priorities of many jobs depend on.
    ///
    /// **Hosts**: jobtap's manager, Flux.
    pub fn reprioritize_all(&self) {
        self.host().push(Command::ReprioritizeAll);
    }

    /// Writes a line to the manager's log, prefixed with the plugin's name.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn inactive(job: &Job, cx: Cx<'_, JobStateInactive>) {
    ///     cx.log(Level::Info, format!("{} is inactive: {:?}", job.id(), job.result()));
    /// }
    /// ```
    pub fn log(&self, level: Level, text: impl Into<String>) {
        self.host().push(Command::Log { level, text: text.into() });
    }

    /// Writes a line to the manager's log, prefixed with a job's id instead of the plugin's name: for
    /// what the job caused, such as the output of its prolog.
    ///
    /// ```
    /// use jobtap_core::prelude::*;
    ///
    /// #[derive(Default)]
    /// struct Watch;
    ///
    /// #[jobtap_plugin(name = "watch")]
    /// impl Watch {
    ///     #[on("job.state.run")]
    ///     fn run(&self, job: &Job, cx: Cx<'_, JobStateRun>) {
    ///         cx.log_of(job.id(), Level::Info, "runs");
    ///     }
    /// }
    /// ```
    pub fn log_of(&self, job: JobId, level: Level, text: impl Into<String>) {
        self.host().push(Command::LogForJob { job, level, text: text.into() });
    }
}

/// Calls on the handler's own job, which only some topics allow.
// The bound is on each method and not on the block: with a bound on the block, the compiler would report that
// there is no such method, without the message about the missing capability.
impl<'a, T: TopicSet> Cx<'a, T> {
    pub(super) fn current(&self) -> Result<JobId, CallError> {
        self.call.args.job.map(Job::id).ok_or(CallError::NoCurrentJob)
    }

    /// Adds a dependency to the current job, which stays in DEPEND until it is removed.
    ///
    /// The description names the dependency within its job and works once: adding one that is there
    /// already, or was removed before, has no effect. So a handler that is called again after a restart can add
    /// it again without a check.
    ///
    /// **Hosts**: jobtap's manager, Flux.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn depend(job: &Job, cx: Cx<'_, JobStateDepend>) -> Result<(), HandlerError> {
    ///     if job.jobspec().attribute("data").is_some() {
    ///         cx.dependency_add("data")?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// [`CallError::WrongState`] when the job has left DEPEND.
    pub fn dependency_add(&self, description: impl IsText) -> Result<AddedDependency<'a>, CallError>
    where
        T: AllowsDependencyAdd,
    {
        self.add_dependency(self.current()?, description.into_text())
    }

    /// Starts a prolog: the current job's tasks are not started until the token is finished.
    ///
    /// **Hosts**: jobtap's manager, Flux, Slurm's PrEp (with a difference).
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn run(cx: Cx<'_, JobStateRun>, remote: Remote<()>) -> Result<(), HandlerError> {
    ///     let token = cx.prolog_start("settle")?;
    ///     remote.at(cx.now() + 5.0, move |_, _| token.finish(0));
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// [`CallError::Started`] when the start of the job was requested already.
    pub fn prolog_start(&self, description: impl IsText) -> Result<Token, CallError>
    where
        T: AllowsProlog,
    {
        self.open(self.current()?, Perilog::Prolog, description.into_text())
    }

    /// Starts an epilog: the current job's resources are not freed until the token is finished.
    ///
    /// **Hosts**: jobtap's manager, Flux, Slurm's PrEp (with a difference).
    ///
    /// # Errors
    /// [`CallError::WrongState`] when the job isn't in CLEANUP.
    pub fn epilog_start(&self, description: impl IsText) -> Result<Token, CallError>
    where
        T: AllowsEpilog,
    {
        self.open(self.current()?, Perilog::Epilog, description.into_text())
    }

    /// Changes one value of the current job's jobspec. All changes of a callback become one
    /// `jobspec-update` event; they are dropped when the handler returns an error.
    ///
    /// **Hosts**: jobtap's manager, Flux, Slurm's job_submit (with a difference).
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn validate(cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
    ///     Ok(cx.jobspec_update(path!("attributes.system.queue"), "batch")?)
    /// }
    /// ```
    ///
    /// # Errors
    /// [`CallError::Jobspec`] when an inner part of the path isn't an object. In `job.update`, and in
    /// `job.validate` of a user's update, also when the job has its resources already.
    pub fn jobspec_update(
        &self,
        path: impl IsJobspecPath,
        value: impl IsJson,
    ) -> Result<(), CallError>
    where
        T: AllowsJobspecUpdate,
    {
        let path: JobspecPath = path.value();
        let (job, path) = (self.current()?, path.as_str().to_owned());
        let updates = [(path, value.into_json())].into_iter().collect();
        self.host().call(Command::UpdateJobspec { job, updates })
    }

    /// Ends the current job with a fatal exception of type `kind`, at topics where the job is active. At other
    /// topics, call [`fail_job`](Self::fail_job).
    ///
    /// **Hosts**: jobtap's manager, Flux.
    ///
    /// ```compile_fail,E0277
    /// # use jobtap_core::prelude::*;
    /// fn updated(cx: Cx<'_, JobUpdate>) -> Result<(), HandlerError> {
    ///     Ok(cx.fail("site", "no")?) // the job may be one that isn't accepted yet
    /// }
    /// ```
    ///
    /// # Errors
    /// When the job is not active, which the topic rules out.
    pub fn fail(&self, kind: impl IsText, note: impl IsText) -> Result<(), CallError>
    where
        T: AllowsFatal,
    {
        let exception = Exception::fatal(kind.into_text(), note.into_text());
        self.host().call(Command::Raise { job: self.current()?, exception })
    }
}

/// Calls on a job that the handler names. The type of the argument proves what the call needs of the
/// job: see [`JobRef`].
impl<'a, T: TopicSet> Cx<'a, T> {
    /// Removes a dependency. After the last one the job leaves DEPEND.
    ///
    /// **Hosts**: jobtap's manager, Flux.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn granted(id: JobId, cx: &Cx<'_, Service>) -> Result<(), ServiceError> {
    ///     if let Some(license) = cx.active_job(id)?.dependency("license=matlab") {
    ///         cx.dependency_remove(license);
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn dependency_remove(&self, dependency: impl IsAddedDependency) {
        let AddedDependency { job, description } = dependency.added();
        let (job, description) = (*job, description.to_string());
        self.host().push(Command::RemoveDependency { job, description });
    }

    /// Removes a dependency by its name, if the job still exists and has it; returns whether it had. For handlers that
    /// have kept the id and the name since an earlier callback, such as those of timers.
    ///
    /// **Hosts**: jobtap's manager, Flux.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # #[derive(Default)]
    /// # struct Site;
    /// fn release_in_an_hour(job: &Job, cx: &Cx<'_, JobNew>, remote: &Remote<Site>) {
    ///     let id = job.id();
    ///     remote.at(cx.now() + 3600.0, move |_, cx| {
    ///         cx.dependency_remove_of(id, "not-before");
    ///     });
    /// }
    /// ```
    pub fn dependency_remove_of(&self, job: JobId, description: &str) -> bool {
        let held = self.job(job).ok().and_then(|job| job.dependency(description));
        let is_held = held.is_some();
        held.into_iter().for_each(|held| self.dependency_remove(held));
        is_held
    }

    /// Adds a dependency to a job that was looked up; otherwise like [`dependency_add`](Self::dependency_add).
    ///
    /// **Hosts**: jobtap's manager, Flux.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn add(id: JobId, cx: &Cx<'_, Service>) -> Result<(), ServiceError> {
    ///     let job = cx.active_job(id)?.pending().ok_or_else(|| ServiceError::invalid("too late"))?;
    ///     cx.dependency_add_to(job, "data")?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// [`CallError::WrongState`] when the job has left DEPEND.
    pub fn dependency_add_to(
        &self,
        job: impl AsPendingJob<T>,
        description: impl Into<String>,
    ) -> Result<AddedDependency<'a>, CallError> {
        self.add_dependency(job.job_id(), description.into())
    }

    fn add_dependency(&self, job: JobId, name: String) -> Result<AddedDependency<'a>, CallError> {
        let description = name.clone();
        self.host().call(Command::AddDependency { job, description })?;
        Ok(AddedDependency { job, description: Cow::Owned(name) })
    }

    /// Raises an exception that does not end the job. [`fail`](Self::fail) ends it.
    ///
    /// **Hosts**: jobtap's manager, Flux.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn run(job: &Job, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
    ///     const NOTE: Severity = severity!(7);
    ///     Ok(cx.raise(job, Exception::new(NOTE, "quota", "90 % of the bank's hours are used"))?)
    /// }
    /// ```
    ///
    /// # Errors
    /// When the job is not active, which the type of `job` rules out.
    pub fn raise(&self, job: impl AsActiveJob<T>, exception: Exception) -> Result<(), CallError> {
        self.host().call(Command::Raise { job: job.job_id(), exception })
    }

    /// Ends a job that was looked up with a fatal exception of type `kind`; otherwise like [`fail`](Self::fail).
    ///
    /// **Hosts**: jobtap's manager, Flux.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn evict(id: JobId, cx: &Cx<'_, Service>) -> Result<(), ServiceError> {
    ///     cx.fail_job(cx.active_job(id)?, "evicted", "the machine is needed");
    ///     Ok(())
    /// }
    /// ```
    pub fn fail_job(
        &self,
        job: impl IsActiveJob,
        kind: impl Into<String>,
        note: impl Into<String>,
    ) {
        let exception = Exception::fatal(kind, note);
        self.host().push(Command::Raise { job: job.job_id(), exception });
    }

    /// Sets the urgency of a pending job as if the instance's owner did: 0 holds the job, 31 expedites
    /// it, whatever priority the plugins compute (RFC 30).
    ///
    /// **Hosts**: jobtap's manager, Flux.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn hold(job: &Job, cx: Cx<'_, JobStateSched>) -> Result<(), HandlerError> {
    ///     cx.urgency(job, Urgency::HOLD);
    ///     Ok(())
    /// }
    /// ```
    pub fn urgency(&self, job: impl AsPendingJob<T>, urgency: Urgency) {
        self.host().push(Command::SetUrgency { job: job.job_id(), urgency });
    }

    /// Starts an epilog for a job that was looked up, for example when a canceled prolog has finished; otherwise
    /// like [`epilog_start`](Self::epilog_start).
    ///
    /// **Hosts**: jobtap's manager, Flux, Slurm's PrEp (with a difference).
    ///
    /// # Errors
    /// [`CallError::WrongState`] when the job isn't in CLEANUP.
    pub fn epilog_start_of(
        &self,
        job: CleanupJob<'_>,
        description: impl Into<String>,
    ) -> Result<Token, CallError> {
        self.open(job.id(), Perilog::Epilog, description.into())
    }

    fn open(&self, job: JobId, perilog: Perilog, name: String) -> Result<Token, CallError> {
        let description = name.clone();
        self.host().call(match perilog {
            Perilog::Prolog => Command::StartProlog { job, description },
            Perilog::Epilog => Command::StartEpilog { job, description },
        })?;
        Ok(Token::new(perilog, job, name, self.host().remote()))
    }

    /// Sets a memo on a job, a note for its user that is kept with the job. It is shown among the job's
    /// annotations under `user`, whether a callback or later work sets it. Null removes it.
    ///
    /// **Hosts**: jobtap's manager, Flux.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn depend(job: &Job, cx: Cx<'_, JobStateDepend>) -> Result<(), HandlerError> {
    ///     Ok(cx.memo(job, "licences", "matlab is in use, about an hour")?)
    /// }
    /// ```
    ///
    /// # Errors
    /// When the job is not active, which the type of `job` rules out.
    pub fn memo(
        &self,
        job: impl AsActiveJob<T>,
        key: impl Into<String>,
        value: impl IsJson,
    ) -> Result<(), CallError> {
        let memo = [(key.into(), value.into_json())].into_iter().collect();
        self.host().call(Command::Memo { job: job.job_id(), memo })
    }

    /// Changes the expiration of a running job: posts `resource-update` (RFC 21), as an update of its duration
    /// does. The jobspec stays as it is. UNIX time 0 lets the job run without an expiration; a time in the past
    /// ends it with a timeout. Plugins that [subscribe](Self::subscribe) to the job see it as
    /// `job.event.resource-update`.
    ///
    /// **Hosts**: jobtap's manager, Flux.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// /// Gives a job another ten minutes.
    /// fn extend(id: JobId, cx: &Cx<'_, Service>) -> Result<(), ServiceError> {
    ///     let job = cx.active_job(id)?;
    ///     if let Some(end) = job.resources().and_then(ResourceSet::expiration) {
    ///         cx.set_expiration(job, Timestamp::from_secs(end + 600.0))?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// [`CallError::WrongState`] when the job isn't in RUN.
    pub fn set_expiration(&self, job: impl AsActiveJob<T>, at: Timestamp) -> Result<(), CallError> {
        self.host().call(Command::SetExpiration { job: job.job_id(), at })
    }

    /// Stores a JSON value below the `guest` directory of a job (RFC 16), where its user and its tasks can read
    /// it: `jobtap job info ID guest.tools.NAME.KEY`. The key is `application.KEY`, or `tools.NAME.KEY` with a
    /// name of the plugin's own. It becomes durable together with the events of this callback. The manager never
    /// reads it again; what the plugin itself needs after a restart belongs in [`Data`](crate::plugin::Data).
    ///
    /// **Hosts**: jobtap's manager.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn run(job: &Job, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
    ///     Ok(cx.guest_put(job, "tools.burst-buffer.path", "/bb/0007")?)
    /// }
    /// ```
    ///
    /// # Errors
    /// [`CallError::GuestKey`] for any other key.
    pub fn guest_put(
        &self,
        job: impl AsActiveJob<T>,
        key: impl Into<String>,
        value: impl IsJson,
    ) -> Result<(), CallError> {
        let (job, key, value) = (job.job_id(), key.into(), value.into_json());
        self.host().call(Command::PutGuest { job, key, value })
    }

    /// Merges annotations into those of a job, which `jobtap jobs` shows and watchers of all jobs see. They
    /// outlive a restart, unlike those that a handler returns. Objects are merged key by key; null removes a
    /// key. `sched` belongs to the scheduler and `user` to the user.
    ///
    /// In Flux they appear under their own key only for the job of the current callback. From later work, such as
    /// a timer or a future, and for another job, Flux shows them below `user`, as it shows a memo:
    /// `user.licences` in the example. A plugin that shows something from later work in several hosts sets a
    /// [memo](Self::memo), which appears below `user` in each.
    ///
    /// **Hosts**: jobtap's manager, Flux (with a difference).
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # #[derive(Default)]
    /// # struct Licences;
    /// fn show(id: JobId, remote: Remote<Licences>) {
    ///     remote.after(60.0, move |_, cx| {
    ///         if let Ok(job) = cx.active_job(id) {
    ///             let _ = cx.annotate(job, Annotations::new().with("licences", "matlab is in use"));
    ///         }
    ///     });
    /// }
    /// ```
    ///
    /// # Errors
    /// When the job is not active, which the type of `job` rules out.
    pub fn annotate(
        &self,
        job: impl AsActiveJob<T>,
        annotations: Annotations,
    ) -> Result<(), CallError> {
        let annotations = annotations.into_map();
        self.host().call(Command::Annotate { job: job.job_id(), annotations })
    }

    /// Sets the priority of a job in PRIORITY or SCHED; in other states it has no effect.
    ///
    /// **Hosts**: jobtap's manager, Flux.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn new_job(job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
    ///     Ok(cx.reprioritize(job, Priority::new(7))?)
    /// }
    /// ```
    ///
    /// # Errors
    /// When the job is not active, which the type of `job` rules out.
    pub fn reprioritize(
        &self,
        job: impl AsActiveJob<T>,
        priority: Priority,
    ) -> Result<(), CallError> {
        self.host().call(Command::Reprioritize { job: job.job_id(), priority })
    }

    /// Delivers this job's events to the plugin's `job.event.*` handlers, until the job is inactive or the
    /// plugin is removed. Subscribing twice is the same as once.
    ///
    /// **Hosts**: jobtap's manager, Flux.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # #[derive(Default)]
    /// # struct Starts { started: u64 }
    /// #[jobtap_plugin(name = "starts")]
    /// impl Starts {
    ///     #[on("job.new")]
    ///     fn new_job(&self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
    ///         Ok(cx.subscribe(job)?)
    ///     }
    ///
    ///     #[on("job.event.start")]
    ///     fn started(&mut self) {
    ///         self.started += 1;
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// When the job is not active, which the type of `job` rules out.
    pub fn subscribe(&self, job: impl AsActiveJob<T>) -> Result<(), CallError> {
        self.host().call(Command::Subscribe { job: job.job_id() })
    }

    /// Undoes [`subscribe`](Self::subscribe); no effect without a subscription.
    pub fn unsubscribe(&self, job: impl AsJob) {
        self.host().push(Command::Unsubscribe { job: job.job_id() });
    }

    /// Posts an event of the plugin's own to a job's eventlog. `context` is an object, or null for no
    /// context.
    ///
    /// **Hosts**: jobtap's manager, Flux.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// const SEEN: EventName = event_name!("site.seen");
    ///
    /// fn seen(job: &Job, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
    ///     Ok(cx.post_event(job, SEEN, serde_json::json!({"by": "the night shift"}))?)
    /// }
    /// ```
    ///
    /// # Errors
    /// [`CallError::EventContext`] when the context is neither an object nor null.
    pub fn post_event(
        &self,
        job: impl AsActiveJob<T>,
        name: impl IsEventName,
        context: impl IsJson,
    ) -> Result<(), CallError> {
        let (job, name): (_, EventName) = (job.job_id(), name.value());
        let context = match context.into_json() {
            Value::Null => None,
            Value::Object(context) => Some(context),
            _ => {
                return Err(CallError::EventContext { job, name: name.as_str().to_owned() });
            }
        };
        self.host().call(Command::PostEvent { job, name, context })
    }

    /// Sets a flag of a job.
    ///
    /// **Hosts**: jobtap's manager, Flux.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn run(job: &Job, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
    ///     Ok(cx.set_flag(job, JobFlag::Immutable)?) // Its user can't change it any more.
    /// }
    /// ```
    ///
    /// # Errors
    /// When the job is not active, which the type of `job` rules out.
    pub fn set_flag(
        &self,
        job: impl AsActiveJob<T>,
        flag: impl IsJobFlag,
    ) -> Result<(), CallError> {
        let flag: JobFlag = flag.value();
        self.host().call(Command::SetFlag { job: job.job_id(), flag })
    }

    /// Changes one value of a pending job's jobspec. `job.validate` is not called.
    ///
    /// **Hosts**: jobtap's manager, Flux, Slurm's job_submit (with a difference).
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn extend(id: JobId, cx: &Cx<'_, Service>) -> Result<(), ServiceError> {
    ///     let job = cx.active_job(id)?.pending().ok_or_else(|| ServiceError::invalid("too late"))?;
    ///     Ok(cx.jobspec_update_of(job, path!("attributes.system.duration"), 7200)?)
    /// }
    /// ```
    ///
    /// # Errors
    /// [`CallError::Jobspec`] when an inner part of the path isn't an object.
    pub fn jobspec_update_of(
        &self,
        job: impl AsPendingJob<T>,
        path: impl IsJobspecPath,
        value: impl IsJson,
    ) -> Result<(), CallError> {
        let path: JobspecPath = path.value();
        let updates = [(path.as_str().to_owned(), value.into_json())].into_iter().collect();
        self.host().call(Command::UpdateJobspec { job: job.job_id(), updates })
    }

    /// Calls an author's own topic on all plugins that handle it, in stack order, and returns their
    /// answers. The handlers are called at once, within this callback.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// #[topic("site.holiday", answer = bool)]
    /// struct Holiday;
    ///
    /// fn priority(cx: Cx<'_, JobStatePriority>) -> Result<Priority, HandlerError> {
    ///     let holiday = cx.call(&Holiday)?.contains(&true);
    ///     Ok(if holiday { Priority::new(100) } else { Priority::UNCHANGED })
    /// }
    /// ```
    ///
    /// # Errors
    /// [`CallError::Reentrant`] when a plugin that handles the topic is being called already, which
    /// includes this one; [`CallError::Topic`] when a handler fails.
    pub fn call<O: OwnTopic + WithoutJob>(&self, topic: &O) -> Result<Vec<O::Answer>, CallError> {
        // The answers have this type: a handler of another topic of the same name fails on the payload.
        let answers = self.host().call_own_topic(O::NAME, None, topic)?;
        Ok(answers.into_iter().filter_map(|a| a.downcast().ok().map(|a| *a)).collect())
    }

    /// The same as [`call`](Self::call) for a topic that is about a job.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// #[topic("site.share", job, answer = f64)]
    /// struct Share;
    ///
    /// fn priority(job: &Job, cx: Cx<'_, JobStatePriority>) -> Result<Priority, HandlerError> {
    ///     let shares = cx.call_for(job, &Share)?;
    ///     Ok(Priority::clamped(1e6 * shares.iter().sum::<f64>()))
    /// }
    /// ```
    ///
    /// # Errors
    /// Those of [`call`](Self::call).
    pub fn call_for<O: OwnTopic>(
        &self,
        job: impl AsJob,
        topic: &O,
    ) -> Result<Vec<O::Answer>, CallError> {
        let answers = self.host().call_own_topic(O::NAME, Some(job.job_id()), topic)?;
        Ok(answers.into_iter().filter_map(|a| a.downcast().ok().map(|a| *a)).collect())
    }

    /// Takes over a prolog of this plugin that was open when the manager stopped, or when the plugin was
    /// reloaded. Call it in `job.new`: a prolog that isn't taken over there fails.
    ///
    /// **Hosts**: jobtap's manager, Flux.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # #[derive(Default)]
    /// # struct Gate { open: Vec<Token> }
    /// # impl Gate {
    /// fn new_job(&mut self, job: &Job, cx: Cx<'_, JobNew>) {
    ///     // Succeeds after a restart only: a new job has no open prolog.
    ///     if let Ok(token) = cx.prolog_reopen(job, "gate") {
    ///         self.open.push(token);
    ///     }
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`CallError::NotOpen`] when this plugin has no open prolog of this description on the job.
    pub fn prolog_reopen(
        &self,
        job: impl AsActiveJob<T>,
        description: impl Into<String>,
    ) -> Result<Token, CallError> {
        self.reopen(job.job_id(), Perilog::Prolog, description.into())
    }

    /// The same as [`prolog_reopen`](Self::prolog_reopen) for an epilog.
    ///
    /// **Hosts**: jobtap's manager, Flux.
    ///
    /// # Errors
    /// [`CallError::NotOpen`] when this plugin has no open epilog of this description on the job.
    pub fn epilog_reopen(
        &self,
        job: impl AsActiveJob<T>,
        description: impl Into<String>,
    ) -> Result<Token, CallError> {
        self.reopen(job.job_id(), Perilog::Epilog, description.into())
    }

    /// Gives up a prolog or epilog without finishing it, so that it stays open, and the job keeps waiting, when this
    /// plugin is removed: another load of the plugin takes it over by [`prolog_reopen`](Self::prolog_reopen) or
    /// [`epilog_reopen`](Self::epilog_reopen), in `job.new`. If none does, the job waits until jobtap's manager is started
    /// again, which fails it; in Flux it waits until a plugin takes it over.
    ///
    /// Call it in `unload`: what a removed plugin has open there otherwise fails. A plugin in C leaves its prologs open,
    /// too.
    ///
    /// **Hosts**: jobtap's manager, Flux.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # #[derive(Default)]
    /// # struct Gate { open: Vec<Token> }
    /// # #[jobtap_plugin(name = "gate")]
    /// # impl Gate {
    /// #[on("unload")]
    /// fn unload(&mut self, cx: Cx<'_, Unload>) {
    ///     for token in self.open.drain(..) {
    ///         cx.leave_open(token);
    ///     }
    /// }
    /// # }
    /// ```
    pub fn leave_open(&self, token: Token) {
        let (job, perilog, description) = token.into_parts();
        self.host().push(Command::LeaveOpen { job, perilog, description });
    }

    fn reopen(&self, job: JobId, perilog: Perilog, name: String) -> Result<Token, CallError> {
        let description = name.clone();
        self.host().call(Command::TakeOver { job, perilog, description })?;
        Ok(Token::new(perilog, job, name, self.host().remote()))
    }

    /// Sends a signal to the tasks of a job; no effect when it has none, or they have exited.
    ///
    /// The signal is sent at most once, after the changes of this callback are durable. It is not sent if the
    /// manager is killed in between.
    ///
    /// **Hosts**: jobtap's manager, Flux.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # use jobtap_core::job::Signal;
    /// fn exception(job: &Job, cx: Cx<'_, JobEvent>) -> Result<(), HandlerError> {
    ///     Ok(cx.signal(cx.active_job(job.id())?, Signal::TERM)?)
    /// }
    /// ```
    ///
    /// # Errors
    /// When the job is not active, which the type of `job` rules out.
    pub fn signal(&self, job: impl AsActiveJob<T>, signal: Signal) -> Result<(), CallError> {
        self.host().call(Command::Signal { job: job.job_id(), signal })
    }

    /// Ends a job with a fatal exception, as [`fail_job`](Self::fail_job) does, and starts an epilog in the
    /// same step: for example when a prolog has failed and its effects must be undone before the
    /// resources are freed.
    ///
    /// **Hosts**: jobtap's manager, Flux.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn lost(job: ActiveJob<'_>, cx: &Cx<'_, JobEvent>) -> Result<Token, CallError> {
    ///     cx.fail_job_with_epilog(job, "site.unmount", "site", "the file system is lost")
    /// }
    /// ```
    ///
    /// # Errors
    /// [`CallError::WrongState`] when the job has no resources yet.
    pub fn fail_job_with_epilog(
        &self,
        job: impl IsActiveJob,
        description: impl Into<String>,
        kind: impl Into<String>,
        note: impl Into<String>,
    ) -> Result<Token, CallError> {
        let (job, name) = (job.job_id(), description.into());
        let (description, exception) = (name.clone(), Exception::fatal(kind, note));
        self.host().call(Command::EndWithEpilog { job, description, exception })?;
        Ok(Token::new(Perilog::Epilog, job, name, self.host().remote()))
    }
}
