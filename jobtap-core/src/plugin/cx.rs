//! The context of a handler: reads, and the calls that its topic allows.

use std::borrow::Cow;

use serde_json::Value;

use super::bracket::Bracket;
use super::call::Call;
use super::event_name::EventName;
use super::exception::Exception;
use super::given::{IsEventName, IsHeld, IsJobFlag, IsJobspecPath, IsLiveJob};
use super::host::{CallError, Command, Host, JobFlag};
use super::jobs::{AsJob, AsLiveJob, AsPendingJob, EndingJob, Held, JobRef, LiveJob};
use super::jobspec_path::JobspecPath;
use super::outcome::Priority;
use super::token::Token;
use crate::job::{Job, JobId, Timestamp, Uid, Urgency};
use crate::queue::Queues;
use crate::resource::{Idset, ResourceSet};
use crate::topic::{
    AllowsDependencyAdd, AllowsEpilog, AllowsFatal, AllowsJobspecUpdate, AllowsProlog, HasJob,
    OwnTopic, TopicSet, WithoutJob,
};

/// The context of a handler on topic `T`, or on a tuple of topics in the order of `#[on]`.
///
/// Calls take effect at the end of the callback, before the next plugin is called; reads see them
/// at once. A call that the topic can't allow doesn't exist for its `Cx`:
///
/// ```compile_fail
/// # use jobtap_core::prelude::*;
/// fn validate(cx: Cx<'_, JobValidate>) {
///     let _ = cx.prolog_start("scratch"); // a prolog can't be started from `JobValidate`
/// }
/// ```
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

    /// The time of this callback, UNIX seconds.
    pub fn now(&self) -> Timestamp {
        self.call.args.host.now()
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
        self.call.args.host.owner()
    }

    /// When the instance's own resources end, and with them every job (RFC 20 `expiration`); `None`
    /// when they have no end.
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

    /// All resources of the instance (RFC 20), excluded and drained nodes and those in use among them.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn whole_machine(r: &ResourceSet, cx: &Cx<'_, JobStateRun>) -> bool {
    ///     r.nnodes() == cx.instance_resources().nnodes()
    /// }
    /// ```
    pub fn instance_resources(&self) -> &'a ResourceSet {
        self.call.args.host.instance_resources()
    }

    /// A job by its id: an active one, or an inactive one that isn't purged yet.
    ///
    /// # Errors
    /// [`CallError::UnknownJob`].
    pub fn job(&self, id: JobId) -> Result<JobRef<'a>, CallError> {
        self.call.args.host.job(id).map(JobRef::new).ok_or(CallError::UnknownJob(id))
    }

    /// The instance's queues (RFC 33): which there are, whether they take and start jobs, what they
    /// require and limit.
    ///
    /// ```
    /// use jobtap_core::prelude::*;
    ///
    /// #[derive(Default)]
    /// struct NightShift;
    ///
    /// #[jobtap_plugin(name = "night-shift")]
    /// impl NightShift {
    ///     /// Long jobs go to the night, where there is such a queue and it takes them.
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
    /// # fn main() -> Result<(), String> {
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
        self.call.args.host.queues()
    }

    /// A job by its id, as calls take it: one that was accepted and is not over.
    ///
    /// # Errors
    /// [`CallError::UnknownJob`], [`CallError::Over`].
    pub fn live(&self, id: JobId) -> Result<LiveJob<'a>, CallError> {
        self.job(id)?.live().ok_or(CallError::Over(id))
    }

    /// Removes a dependency. When it was the last one the job moves on.
    pub fn dependency_remove(&self, held: impl IsHeld) {
        let Held { job, description } = held.held();
        let (job, description) = (*job, description.to_string());
        self.call.args.host.push(Command::RemoveDependency { job, description });
    }

    /// Holds the current job in DEPEND until the same description is removed.
    ///
    /// A description names the dependency within its job and works once: adding one that holds
    /// already, or that was removed before, has no effect. So a handler that is called again after
    /// a restart just adds again.
    ///
    /// # Errors
    /// When the job is past DEPEND.
    pub fn dependency_add(&self, description: impl Into<String>) -> Result<Held<'a>, CallError>
    where
        T: AllowsDependencyAdd,
    {
        self.hold(self.current()?, description.into())
    }

    /// Adds a dependency to another job, as [`dependency_add`](Self::dependency_add) does to the
    /// current one.
    ///
    /// # Errors
    /// When the job is past DEPEND.
    pub fn dependency_add_to(
        &self,
        job: impl AsPendingJob<T>,
        description: impl Into<String>,
    ) -> Result<Held<'a>, CallError> {
        self.hold(job.job_id(), description.into())
    }

    fn hold(&self, job: JobId, name: String) -> Result<Held<'a>, CallError> {
        let description = name.clone();
        self.call.args.host.call(Command::AddDependency { job, description })?;
        Ok(Held { job, description: Cow::Owned(name) })
    }

    /// Posts an exception that does not end the job. To end it there is [`fail`](Self::fail).
    ///
    /// # Errors
    /// When the job is over, which what is taken as a job rules out.
    pub fn raise(&self, job: impl AsLiveJob<T>, exception: Exception) -> Result<(), CallError> {
        self.call.args.host.call(Command::Raise { job: job.job_id(), exception })
    }

    /// Ends a job with a fatal exception of type `kind`, as [`fail`](Self::fail) does the current
    /// one.
    pub fn fail_job(&self, job: impl IsLiveJob, kind: impl Into<String>, note: impl Into<String>) {
        let exception = Exception::fatal(kind, note);
        self.call.args.host.push(Command::Raise { job: job.job_id(), exception });
    }

    /// Sets the urgency of a job that has no resources yet, in the name of the instance's owner: 0
    /// holds it, 31 expedites it, whatever its priority (RFC 30).
    pub fn urgency(&self, job: impl AsPendingJob<T>, urgency: Urgency) {
        self.call.args.host.push(Command::SetUrgency { job: job.job_id(), urgency });
    }

    /// Starts an epilog for a job that was looked up, as [`epilog_start`](Self::epilog_start) does
    /// for the current one: when a prolog that was cancelled has ended, say.
    ///
    /// # Errors
    /// When the host refuses.
    pub fn epilog_start_of(
        &self,
        job: EndingJob<'_>,
        description: impl Into<String>,
    ) -> Result<Token, CallError> {
        self.open(job.id(), Bracket::Epilog, description.into())
    }

    fn open(&self, job: JobId, bracket: Bracket, name: String) -> Result<Token, CallError> {
        let description = name.clone();
        self.call.args.host.call(match bracket {
            Bracket::Prolog => Command::StartProlog { job, description },
            Bracket::Epilog => Command::StartEpilog { job, description },
        })?;
        Ok(Token::new(bracket, job, name, self.call.args.host.remote()))
    }

    /// Leaves a note on a job for its user, which outlives the manager; shown among its annotations
    /// under `user`. Null removes it.
    ///
    /// # Errors
    /// When the job is over, which what is taken as a job rules out.
    pub fn memo(
        &self,
        job: impl AsLiveJob<T>,
        key: impl Into<String>,
        value: impl Into<Value>,
    ) -> Result<(), CallError> {
        let memo = [(key.into(), value.into())].into_iter().collect();
        self.call.args.host.call(Command::Memo { job: job.job_id(), memo })
    }

    /// Sets the priority of a job in PRIORITY or SCHED; in other states there is no effect.
    ///
    /// # Errors
    /// When the job is over, which what is taken as a job rules out.
    pub fn reprioritize(
        &self,
        job: impl AsLiveJob<T>,
        priority: Priority,
    ) -> Result<(), CallError> {
        self.call.args.host.call(Command::Reprioritize { job: job.job_id(), priority })
    }

    /// Drains nodes: no new jobs there until an administrator undrains them; jobs that run there go
    /// on. Nodes that are drained already keep their reason and time. Ranks that the instance
    /// doesn't have are logged.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn inspect(job: &Job, r: &ResourceSet, cx: Cx<'_, JobStateRun>) {
    ///     cx.drain(&r.ranks(), format!("to be inspected after job {}", job.id()));
    /// }
    /// ```
    pub fn drain(&self, ranks: &Idset, reason: impl Into<String>) {
        let (ranks, reason) = (ranks.clone(), reason.into());
        self.call.args.host.push(Command::Drain { ranks, reason });
    }

    /// Asks all plugins again, by `job.priority.get`, for each job in PRIORITY and SCHED.
    pub fn reprioritize_all(&self) {
        self.call.args.host.push(Command::ReprioritizeAll);
    }

    /// Delivers this job's events to the plugin's `job.event.*` handlers, until the job is over or
    /// the plugin is unloaded. Subscribing twice is the same as once.
    ///
    /// # Errors
    /// When the job is over, which what is taken as a job rules out.
    pub fn subscribe(&self, job: impl AsLiveJob<T>) -> Result<(), CallError> {
        self.call.args.host.call(Command::Subscribe { job: job.job_id() })
    }

    /// Ends [`subscribe`](Self::subscribe); no error when there was none.
    pub fn unsubscribe(&self, job: impl AsJob) {
        self.call.args.host.push(Command::Unsubscribe { job: job.job_id() });
    }

    /// Posts an event of the plugin's own to a job's eventlog. `context` is an object, or null for
    /// none.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// const SEEN: EventName = EventName::new("site.seen");
    ///
    /// fn seen(job: &Job, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
    ///     Ok(cx.post_event(job, SEEN, serde_json::json!({"by": "the night shift"}))?)
    /// }
    /// ```
    ///
    /// # Errors
    /// When the context is neither.
    pub fn post_event(
        &self,
        job: impl AsLiveJob<T>,
        name: impl IsEventName,
        context: impl Into<Value>,
    ) -> Result<(), CallError> {
        let (job, name): (_, EventName) = (job.job_id(), name.value());
        let context = match context.into() {
            Value::Null => None,
            Value::Object(context) => Some(context),
            _ => {
                return Err(CallError::EventContext { job, name: name.as_str().to_owned() });
            }
        };
        self.call.args.host.call(Command::PostEvent { job, name, context })
    }

    /// Sets a flag of a job.
    ///
    /// # Errors
    /// When the job is over, which what is taken as a job rules out.
    pub fn set_flag(&self, job: impl AsLiveJob<T>, flag: impl IsJobFlag) -> Result<(), CallError> {
        let flag: JobFlag = flag.value();
        self.call.args.host.call(Command::SetFlag { job: job.job_id(), flag })
    }

    /// Changes one place of another job's jobspec, as [`jobspec_update`](Self::jobspec_update) does
    /// for the current one. `job.validate` is not asked.
    ///
    /// # Errors
    /// When the path goes through something that isn't an object.
    pub fn jobspec_update_of(
        &self,
        job: impl AsPendingJob<T>,
        path: impl IsJobspecPath,
        value: impl Into<Value>,
    ) -> Result<(), CallError> {
        let path: JobspecPath = path.value();
        let updates = [(path.as_str().to_owned(), value.into())].into_iter().collect();
        self.call.args.host.call(Command::UpdateJobspec { job: job.job_id(), updates })
    }

    /// Calls a topic of an author's own on all plugins that handle it, in load order, and gives what
    /// they answer. They are called now, within this callback.
    ///
    /// # Errors
    /// [`CallError::Reentrant`] when one of them is being called already, this plugin included;
    /// [`CallError::Topic`] when one fails.
    pub fn call<O: OwnTopic + WithoutJob>(&self, topic: &O) -> Result<Vec<O::Answer>, CallError> {
        let answers = self.call.args.host.call_topic(O::NAME, None, topic)?;
        Ok(answers.into_iter().filter_map(|a| a.downcast().ok().map(|a| *a)).collect())
    }

    /// The same for a topic about a job.
    ///
    /// # Errors
    /// Those of [`call`](Self::call).
    pub fn call_for<O: OwnTopic>(
        &self,
        job: impl AsJob,
        topic: &O,
    ) -> Result<Vec<O::Answer>, CallError> {
        let answers = self.call.args.host.call_topic(O::NAME, Some(job.job_id()), topic)?;
        Ok(answers.into_iter().filter_map(|a| a.downcast().ok().map(|a| *a)).collect())
    }

    /// Takes over a prolog of this plugin that was open when the manager ended, or when the plugin
    /// was reloaded. Call it in `job.new`: what isn't taken over has failed after that.
    ///
    /// # Errors
    /// [`CallError::NotOpen`].
    pub fn prolog_reopen(
        &self,
        job: impl AsLiveJob<T>,
        description: impl Into<String>,
    ) -> Result<Token, CallError> {
        self.reopen(job.job_id(), Bracket::Prolog, description.into())
    }

    /// The same for an epilog.
    ///
    /// # Errors
    /// [`CallError::NotOpen`].
    pub fn epilog_reopen(
        &self,
        job: impl AsLiveJob<T>,
        description: impl Into<String>,
    ) -> Result<Token, CallError> {
        self.reopen(job.job_id(), Bracket::Epilog, description.into())
    }

    fn reopen(&self, job: JobId, bracket: Bracket, name: String) -> Result<Token, CallError> {
        let description = name.clone();
        self.call.args.host.call(Command::Reopen { job, bracket, description })?;
        Ok(Token::new(bracket, job, name, self.call.args.host.remote()))
    }
}

/// Calls that only some topics allow. The bound is on each method and not on the block, since only
/// then the compiler shows the message of the missing capability.
impl<T: TopicSet> Cx<'_, T> {
    fn current(&self) -> Result<JobId, CallError> {
        self.call.args.job.map(Job::id).ok_or(CallError::NoCurrentJob)
    }

    /// Holds the start of the current job until the token is finished.
    ///
    /// # Errors
    /// When the job's start was requested already.
    pub fn prolog_start(&self, description: impl Into<String>) -> Result<Token, CallError>
    where
        T: AllowsProlog,
    {
        self.open(self.current()?, Bracket::Prolog, description.into())
    }

    /// Holds the release of the current job's resources until the token is finished.
    ///
    /// # Errors
    /// When the job isn't in CLEANUP.
    pub fn epilog_start(&self, description: impl Into<String>) -> Result<Token, CallError>
    where
        T: AllowsEpilog,
    {
        self.open(self.current()?, Bracket::Epilog, description.into())
    }

    /// Changes one place of the current job's jobspec. All changes of a callback become one
    /// `jobspec-update` event; they are dropped when the handler fails.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn validate(cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
    ///     Ok(cx.jobspec_update(path!("attributes.system.queue"), "batch")?)
    /// }
    /// ```
    ///
    /// # Errors
    /// When the path goes through something that isn't an object, and in `job.update` and in
    /// `job.validate` of a user's update when the job is allocated already.
    pub fn jobspec_update(
        &self,
        path: impl IsJobspecPath,
        value: impl Into<Value>,
    ) -> Result<(), CallError>
    where
        T: AllowsJobspecUpdate,
    {
        let path: JobspecPath = path.value();
        let (job, path) = (self.current()?, path.as_str().to_owned());
        let updates = [(path, value.into())].into_iter().collect();
        self.call.args.host.call(Command::UpdateJobspec { job, updates })
    }

    /// Ends the current job with a fatal exception of type `kind`, at topics where it is accepted and
    /// not over; elsewhere there is [`fail_job`](Self::fail_job).
    ///
    /// ```compile_fail,E0277
    /// # use jobtap_core::prelude::*;
    /// fn updated(cx: Cx<'_, JobUpdate>) -> Result<(), HandlerError> {
    ///     Ok(cx.fail("site", "no")?) // the job may be one that isn't accepted yet
    /// }
    /// ```
    ///
    /// # Errors
    /// When the job is over, which the topic rules out.
    pub fn fail(&self, kind: impl Into<String>, note: impl Into<String>) -> Result<(), CallError>
    where
        T: HasJob + AllowsFatal,
    {
        let exception = Exception::fatal(kind, note);
        self.call.args.host.call(Command::Raise { job: self.current()?, exception })
    }
}
