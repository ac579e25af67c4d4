//! The context of a handler: reads, and the calls that its topic allows.

use std::borrow::Cow;

use serde_json::Value;

use super::arguments::{IsEventName, IsHeld, IsJobFlag, IsJobspecPath, IsJson, IsLiveJob, IsText};
use super::call::Call;
use super::jobs::{AsJob, AsLiveJob, AsPendingJob, EndingJob, Held, JobRef, LiveJob};
use super::jobspec_path::JobspecPath;
use super::token::Token;
use crate::host::{
    CallError, Command, EventName, Exception, Host, JobFlag, Level, Perilog, Priority,
};
use crate::job::{Job, JobId, Signal, Timestamp, Uid, Urgency};
use crate::queue::Queues;
use crate::resource::{Idset, ResourceSet};
use crate::topic::{
    AllowsDependencyAdd, AllowsEpilog, AllowsFatal, AllowsJobspecUpdate, AllowsProlog, OwnTopic,
    TopicSet, WithoutJob,
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
}

/// Reads of the instance and of jobs, and calls on the instance, which every topic allows.
impl<'a, T: TopicSet> Cx<'a, T> {
    /// The time of this callback, UNIX seconds.
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
        self.host().instance_resources()
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
        self.host().queues()
    }

    /// A job by its id: an active one, or an inactive one that isn't purged yet.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn state_of(id: JobId, cx: &Cx<'_, Service>) -> Result<String, ServiceError> {
    ///     Ok(cx.job(id)?.state().to_string())
    /// }
    /// ```
    ///
    /// # Errors
    /// [`CallError::UnknownJob`].
    pub fn job(&self, id: JobId) -> Result<JobRef<'a>, CallError> {
        self.host().job(id).map(JobRef::new).ok_or(CallError::UnknownJob(id))
    }

    /// A job by its id, as calls take it: one that was accepted and is not over.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn tell(id: JobId, cx: &Cx<'_, Service>) -> Result<(), ServiceError> {
    ///     Ok(cx.memo(cx.live(id)?, "from", "the help desk")?)
    /// }
    /// ```
    ///
    /// # Errors
    /// [`CallError::UnknownJob`], [`CallError::Over`].
    pub fn live(&self, id: JobId) -> Result<LiveJob<'a>, CallError> {
        self.job(id)?.live().ok_or(CallError::Over(id))
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
        self.host().push(Command::Drain { ranks, reason });
    }

    /// Asks all plugins again, by `job.priority.get`, for each job in PRIORITY and SCHED.
    pub fn reprioritize_all(&self) {
        self.host().push(Command::ReprioritizeAll);
    }

    /// Writes a line to the manager's log, with the plugin's name.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn inactive(job: &Job, cx: Cx<'_, JobStateInactive>) {
    ///     cx.log(Level::Info, format!("{} is over: {:?}", job.id(), job.result()));
    /// }
    /// ```
    pub fn log(&self, level: Level, text: impl Into<String>) {
        self.host().push(Command::Log { level, text: text.into() });
    }

    /// Writes a line about a job to the manager's log, with the job's id in the place of the plugin's
    /// name: for what is of the job's doing, such as the output of what runs for it.
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
        self.host().push(Command::LogOf { job, level, text: text.into() });
    }
}

/// Calls that only some topics allow. The bound is on each method and not on the block, since only
/// then the compiler shows the message of the missing capability.
impl<'a, T: TopicSet> Cx<'a, T> {
    pub(super) fn current(&self) -> Result<JobId, CallError> {
        self.call.args.job.map(Job::id).ok_or(CallError::NoCurrentJob)
    }

    /// Holds the current job in DEPEND until the same description is removed.
    ///
    /// A description names the dependency within its job and works once: adding one that holds
    /// already, or that was removed before, has no effect. So a handler that is called again after
    /// a restart just adds again.
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
    /// When the job is past DEPEND.
    pub fn dependency_add(&self, description: impl IsText) -> Result<Held<'a>, CallError>
    where
        T: AllowsDependencyAdd,
    {
        self.hold(self.current()?, description.into_text())
    }

    /// Holds the start of the current job until the token is finished.
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
    /// When the job's start was requested already.
    pub fn prolog_start(&self, description: impl IsText) -> Result<Token, CallError>
    where
        T: AllowsProlog,
    {
        self.open(self.current()?, Perilog::Prolog, description.into_text())
    }

    /// Holds the release of the current job's resources until the token is finished.
    ///
    /// # Errors
    /// When the job isn't in CLEANUP.
    pub fn epilog_start(&self, description: impl IsText) -> Result<Token, CallError>
    where
        T: AllowsEpilog,
    {
        self.open(self.current()?, Perilog::Epilog, description.into_text())
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
    pub fn fail(&self, kind: impl IsText, note: impl IsText) -> Result<(), CallError>
    where
        T: AllowsFatal,
    {
        let exception = Exception::fatal(kind.into_text(), note.into_text());
        self.host().call(Command::Raise { job: self.current()?, exception })
    }
}

/// Calls on a job that the handler names. What such a call takes is proof of what it needs of the job:
/// see [`JobRef`].
impl<'a, T: TopicSet> Cx<'a, T> {
    /// Removes a dependency. When it was the last one the job moves on.
    pub fn dependency_remove(&self, held: impl IsHeld) {
        let Held { job, description } = held.held();
        let (job, description) = (*job, description.to_string());
        self.host().push(Command::RemoveDependency { job, description });
    }

    /// Adds a dependency to another job, as [`dependency_add`](Self::dependency_add) does to the
    /// current one.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn wait(id: JobId, cx: &Cx<'_, Service>) -> Result<(), ServiceError> {
    ///     let job = cx.live(id)?.pending().ok_or_else(|| ServiceError::invalid("too late"))?;
    ///     cx.dependency_add_to(job, "data")?;
    ///     Ok(())
    /// }
    /// ```
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
        self.host().call(Command::AddDependency { job, description })?;
        Ok(Held { job, description: Cow::Owned(name) })
    }

    /// Posts an exception that does not end the job. To end it there is [`fail`](Self::fail).
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn run(job: &Job, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
    ///     const NOTE: Severity = Severity::new(7);
    ///     Ok(cx.raise(job, Exception::new(NOTE, "quota", "90 % of the bank's hours are used"))?)
    /// }
    /// ```
    ///
    /// # Errors
    /// When the job is over, which what is taken as a job rules out.
    pub fn raise(&self, job: impl AsLiveJob<T>, exception: Exception) -> Result<(), CallError> {
        self.host().call(Command::Raise { job: job.job_id(), exception })
    }

    /// Ends a job with a fatal exception of type `kind`, as [`fail`](Self::fail) does the current
    /// one.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn evict(id: JobId, cx: &Cx<'_, Service>) -> Result<(), ServiceError> {
    ///     cx.fail_job(cx.live(id)?, "evicted", "the machine is needed");
    ///     Ok(())
    /// }
    /// ```
    pub fn fail_job(&self, job: impl IsLiveJob, kind: impl Into<String>, note: impl Into<String>) {
        let exception = Exception::fatal(kind, note);
        self.host().push(Command::Raise { job: job.job_id(), exception });
    }

    /// Sets the urgency of a job that has no resources yet, in the name of the instance's owner: 0
    /// holds it, 31 expedites it, whatever its priority (RFC 30).
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

    /// Leaves a note on a job for its user, which outlives the manager; shown among its annotations
    /// under `user`. Null removes it.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn depend(job: &Job, cx: Cx<'_, JobStateDepend>) -> Result<(), HandlerError> {
    ///     Ok(cx.memo(job, "licences", "matlab is in use, about an hour")?)
    /// }
    /// ```
    ///
    /// # Errors
    /// When the job is over, which what is taken as a job rules out.
    pub fn memo(
        &self,
        job: impl AsLiveJob<T>,
        key: impl Into<String>,
        value: impl IsJson,
    ) -> Result<(), CallError> {
        let memo = [(key.into(), value.into_json())].into_iter().collect();
        self.host().call(Command::Memo { job: job.job_id(), memo })
    }

    /// Sets the priority of a job in PRIORITY or SCHED; in other states there is no effect.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn new_job(job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
    ///     Ok(cx.reprioritize(job, Priority::new(7))?)
    /// }
    /// ```
    ///
    /// # Errors
    /// When the job is over, which what is taken as a job rules out.
    pub fn reprioritize(
        &self,
        job: impl AsLiveJob<T>,
        priority: Priority,
    ) -> Result<(), CallError> {
        self.host().call(Command::Reprioritize { job: job.job_id(), priority })
    }

    /// Delivers this job's events to the plugin's `job.event.*` handlers, until the job is over or
    /// the plugin is unloaded. Subscribing twice is the same as once.
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
    /// When the job is over, which what is taken as a job rules out.
    pub fn subscribe(&self, job: impl AsLiveJob<T>) -> Result<(), CallError> {
        self.host().call(Command::Subscribe { job: job.job_id() })
    }

    /// Ends [`subscribe`](Self::subscribe); no error when there was none.
    pub fn unsubscribe(&self, job: impl AsJob) {
        self.host().push(Command::Unsubscribe { job: job.job_id() });
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
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn run(job: &Job, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
    ///     Ok(cx.set_flag(job, JobFlag::Immutable)?) // Its user can't change it any more.
    /// }
    /// ```
    ///
    /// # Errors
    /// When the job is over, which what is taken as a job rules out.
    pub fn set_flag(&self, job: impl AsLiveJob<T>, flag: impl IsJobFlag) -> Result<(), CallError> {
        let flag: JobFlag = flag.value();
        self.host().call(Command::SetFlag { job: job.job_id(), flag })
    }

    /// Changes one place of another job's jobspec, as [`jobspec_update`](Self::jobspec_update) does
    /// for the current one. `job.validate` is not asked.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn extend(id: JobId, cx: &Cx<'_, Service>) -> Result<(), ServiceError> {
    ///     let job = cx.live(id)?.pending().ok_or_else(|| ServiceError::invalid("it has begun"))?;
    ///     Ok(cx.jobspec_update_of(job, path!("attributes.system.duration"), 7200)?)
    /// }
    /// ```
    ///
    /// # Errors
    /// When the path goes through something that isn't an object.
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

    /// Calls a topic of an author's own on all plugins that handle it, in load order, and gives what
    /// they answer. They are called now, within this callback.
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
    /// [`CallError::Reentrant`] when one of them is being called already, this plugin included;
    /// [`CallError::Topic`] when one fails.
    pub fn call<O: OwnTopic + WithoutJob>(&self, topic: &O) -> Result<Vec<O::Answer>, CallError> {
        let answers = self.host().call_topic(O::NAME, None, topic)?;
        Ok(answers.into_iter().filter_map(|a| a.downcast().ok().map(|a| *a)).collect())
    }

    /// The same for a topic about a job.
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
        let answers = self.host().call_topic(O::NAME, Some(job.job_id()), topic)?;
        Ok(answers.into_iter().filter_map(|a| a.downcast().ok().map(|a| *a)).collect())
    }

    /// Takes over a prolog of this plugin that was open when the manager ended, or when the plugin
    /// was reloaded. Call it in `job.new`: what isn't taken over has failed after that.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # #[derive(Default)]
    /// # struct Gate { open: Vec<Token> }
    /// # impl Gate {
    /// fn new_job(&mut self, job: &Job, cx: Cx<'_, JobNew>) {
    ///     // After a restart; of other jobs there is nothing to take over.
    ///     if let Ok(token) = cx.prolog_reopen(job, "gate") {
    ///         self.open.push(token);
    ///     }
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`CallError::NotOpen`].
    pub fn prolog_reopen(
        &self,
        job: impl AsLiveJob<T>,
        description: impl Into<String>,
    ) -> Result<Token, CallError> {
        self.reopen(job.job_id(), Perilog::Prolog, description.into())
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
        self.reopen(job.job_id(), Perilog::Epilog, description.into())
    }

    fn reopen(&self, job: JobId, perilog: Perilog, name: String) -> Result<Token, CallError> {
        let description = name.clone();
        self.host().call(Command::Reopen { job, perilog, description })?;
        Ok(Token::new(perilog, job, name, self.host().remote()))
    }

    /// Sends a signal to the tasks of a job; no effect when it has none, or they have ended. It is sent
    /// once, after what this callback changes is stored: a manager that is killed in between doesn't
    /// send it.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # use jobtap_core::job::Signal;
    /// fn exception(job: &Job, cx: Cx<'_, JobEvent>) -> Result<(), HandlerError> {
    ///     Ok(cx.signal(cx.live(job.id())?, Signal::TERM)?)
    /// }
    /// ```
    ///
    /// # Errors
    /// When the job is over, which what is taken as a job rules out.
    pub fn signal(&self, job: impl AsLiveJob<T>, signal: Signal) -> Result<(), CallError> {
        self.host().call(Command::Signal { job: job.job_id(), signal })
    }

    /// Ends a job with a fatal exception, as [`fail_job`](Self::fail_job) does, and holds its resources
    /// by an epilog from that moment on: when a prolog has failed, say, and what it did is to be undone.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// fn lost(job: LiveJob<'_>, cx: &Cx<'_, JobEvent>) -> Result<Token, CallError> {
    ///     cx.fail_job_with_epilog(job, "site.unmount", "site", "the file system is lost")
    /// }
    /// ```
    ///
    /// # Errors
    /// When the job has no resources yet.
    pub fn fail_job_with_epilog(
        &self,
        job: impl IsLiveJob,
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
