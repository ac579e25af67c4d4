//! The context of a handler: reads, and the calls that its topic allows.

use std::borrow::Cow;

use serde_json::Value;

use super::call::Call;
use super::given::{IsEventName, IsHeld, IsJobFlag, IsJobspecPath, IsJson, IsLiveJob, IsText};
use super::jobs::{AsJob, AsLiveJob, AsPendingJob, EndingJob, Held};
use super::jobspec_path::JobspecPath;
use super::token::Token;
use crate::host::{CallError, Command, EventName, Exception, Host, JobFlag, Perilog, Priority};
use crate::job::{Job, JobId, Urgency};
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

    /// Removes a dependency. When it was the last one the job moves on.
    pub fn dependency_remove(&self, held: impl IsHeld) {
        let Held { job, description } = held.held();
        let (job, description) = (*job, description.to_string());
        self.call.args.host.push(Command::RemoveDependency { job, description });
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
        self.call.args.host.call(Command::AddDependency { job, description })?;
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
        self.call.args.host.call(Command::Raise { job: job.job_id(), exception })
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
        self.call.args.host.push(Command::Raise { job: job.job_id(), exception });
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
        self.open(job.id(), Perilog::Epilog, description.into())
    }

    fn open(&self, job: JobId, perilog: Perilog, name: String) -> Result<Token, CallError> {
        let description = name.clone();
        self.call.args.host.call(match perilog {
            Perilog::Prolog => Command::StartProlog { job, description },
            Perilog::Epilog => Command::StartEpilog { job, description },
        })?;
        Ok(Token::new(perilog, job, name, self.call.args.host.remote()))
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
        self.call.args.host.call(Command::Memo { job: job.job_id(), memo })
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
        self.call.args.host.call(Command::Reprioritize { job: job.job_id(), priority })
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
        self.call.args.host.call(Command::PostEvent { job, name, context })
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
        self.call.args.host.call(Command::SetFlag { job: job.job_id(), flag })
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
        self.call.args.host.call(Command::UpdateJobspec { job: job.job_id(), updates })
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
        let answers = self.call.args.host.call_topic(O::NAME, None, topic)?;
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
        let answers = self.call.args.host.call_topic(O::NAME, Some(job.job_id()), topic)?;
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
        self.call.args.host.call(Command::Reopen { job, perilog, description })?;
        Ok(Token::new(perilog, job, name, self.call.args.host.remote()))
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
    pub fn fail(&self, kind: impl IsText, note: impl IsText) -> Result<(), CallError>
    where
        T: AllowsFatal,
    {
        let exception = Exception::fatal(kind.into_text(), note.into_text());
        self.call.args.host.call(Command::Raise { job: self.current()?, exception })
    }
}
