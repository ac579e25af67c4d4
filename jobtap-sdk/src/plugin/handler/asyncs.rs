//! Asynchronous handlers: an `async fn`, mapped onto the way in which jobs wait at its topic.
//!
//! | topic | while the future runs | when it has finished |
//! |---|---|---|
//! | `job.validate` | the submitter waits for the response | the job is accepted or rejected |
//! | `job.dependency.*`, `job.state.depend` | a dependency keeps the job in DEPEND | the dependency is removed |
//! | `job.state.priority` | the priority is unavailable | the priority is set |
//! | `job.state.run` | a prolog delays the start of the tasks | the prolog is finished |
//! | `job.state.cleanup` | an epilog delays the release of the resources | the epilog is finished |
//! | `slurm.job_submit`, `slurm.job_modify` | the request waits before the next plugin | it goes on or is refused |
//!
//! - With `when = Self::wants`, a job that doesn't concern the handler doesn't wait at all, and has no event of the
//!   handler.
//! - The future starts after the events of the callback are durable, and runs off the manager's thread. It may wait
//!   only through [`Remote`](crate::plugin::Remote), so that virtual time works.
//! - A future that fails or panics ends the job with a fatal exception; from `job.validate` it rejects
//!   the job, and from `job.state.priority` it leaves the job without a priority.
//! - When the job no longer waits for it, because it was canceled for example, the future is dropped at
//!   its next `await`. With `on_cancel = "run-on"` the future of a prolog runs on.
//! - After a restart of the manager, handlers of dependencies and priorities are called again. An interrupted prolog or
//!   epilog counts as failed, unless its handler says `on_restart = "rerun"`.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;

use futures_channel::oneshot;
use futures_util::FutureExt;
use futures_util::future::{AbortHandle, Abortable, Either, select};

use super::failure::{EpilogFailed, HandlerError, PrologFailed, Reject};
use super::service::{IntoReply, or_empty};
use crate::host::{
    AsyncError, AsyncPolicy, CallError, Command, Detail, Exception, Failure, Host, JobWork, Level,
    Outcome, Panicked, PluginFuture, Priority, RemoteHandle, ServiceError, WorkKind, panic_text,
    work_description,
};
use crate::job::{Job, JobId};
use crate::plugin::cx::call::Call;
use crate::topic::{
    HasJob, HasRequest, JobDependency, JobStateCleanup, JobStateDepend, JobStatePriority,
    JobStateRun, JobValidate, TopicId, TopicSet,
};

/// A topic at which a handler may be an `async fn`.
#[diagnostic::on_unimplemented(
    message = "a handler of `{Self}` can't be `async`",
    label = "nothing waits for a handler of this topic",
    note = "`async` works on `job.validate`, `job.dependency.SCHEME`, `job.state.depend`, `.priority`, `.run` and `.cleanup`, `slurm.job_submit` and `slurm.job_modify`; elsewhere start the work through `Remote<Self>`"
)]
pub trait AsyncTopic: TopicSet {
    /// The value that the future computes; `()` where only its end matters.
    type Answer: Send + 'static;

    /// Starts the work of a handler.
    ///
    /// # Errors
    /// When the host refuses it.
    #[doc(hidden)]
    fn start<R, F>(
        call: &Call<'_, Self>,
        handler: &str,
        policy: AsyncPolicy,
        future: F,
    ) -> Result<Outcome, Failure>
    where
        Self: Sized,
        R: IntoAnswer<Self>,
        F: Future<Output = R> + Send + 'static;
}

/// A topic at which a job waits for an asynchronous handler.
trait JobWaits: AsyncTopic + HasJob {
    /// What waits for the future.
    const KIND: WorkKind;

    /// Makes the job wait; `what` is the description in its events.
    fn begin(host: &dyn Host, job: JobId, what: &str) -> Result<Outcome, Failure>;

    /// The commands that end the wait.
    fn end(job: JobId, what: &str, answer: Result<Self::Answer, AsyncError>) -> Vec<Command>;
}

/// Types that an `async` handler of topic `T` may return.
#[diagnostic::on_unimplemented(
    message = "an `async` handler of `{T}` can't return `{Self}`",
    label = "not an answer of this topic",
    note = "return `Result<(), Reject>` from `job.validate`, `job.dependency.SCHEME` and `job.state.depend`, `Priority` from `job.state.priority`, `Result<(), PrologFailed>` from `job.state.run`, `Result<(), EpilogFailed>` from `job.state.cleanup`, `Result<JobDescriptor, SlurmError>` from `slurm.job_submit` and `slurm.job_modify`"
)]
pub trait IntoAnswer<T: AsyncTopic> {
    /// Converts the return value.
    ///
    /// # Errors
    /// The handler's own error.
    fn into_answer(self) -> Result<T::Answer, AsyncError>;
}

/// The answer of a handler that returns nothing, at topics where only the end of the future matters.
#[diagnostic::on_unimplemented(
    message = "an `async` handler of this topic must return `{Self}`",
    label = "returns nothing, and the job would wait for ever",
    note = "write the return type, as in `async fn name(job: JobInfo) -> Priority`"
)]
pub trait BareAnswer {
    /// The answer.
    fn bare() -> Self;
}

impl BareAnswer for () {
    fn bare() -> Self {}
}

impl<T: AsyncTopic> IntoAnswer<T> for ()
where
    T::Answer: BareAnswer,
{
    fn into_answer(self) -> Result<T::Answer, AsyncError> {
        Ok(T::Answer::bare())
    }
}

impl IntoAnswer<JobStateRun> for Result<(), PrologFailed> {
    fn into_answer(self) -> Result<(), AsyncError> {
        self.map_err(|error| AsyncError::Returned(error.text().to_owned()))
    }
}

impl IntoAnswer<JobStateCleanup> for Result<(), EpilogFailed> {
    fn into_answer(self) -> Result<(), AsyncError> {
        self.map_err(|error| AsyncError::Returned(error.text().to_owned()))
    }
}

macro_rules! rejections {
    ($($topic:ident)*) => { $(
        impl IntoAnswer<$topic> for Result<(), Reject> {
            fn into_answer(self) -> Result<(), AsyncError> {
                self.map_err(|error| AsyncError::Returned(error.text().to_owned()))
            }
        }
    )* };
}
rejections!(JobValidate JobDependency JobStateDepend);

impl IntoAnswer<JobStatePriority> for Priority {
    fn into_answer(self) -> Result<Priority, AsyncError> {
        Ok(self)
    }
}

impl IntoAnswer<JobStatePriority> for Result<Priority, HandlerError> {
    fn into_answer(self) -> Result<Priority, AsyncError> {
        self.map_err(|error| AsyncError::Returned(error.text().to_owned()))
    }
}

/// Makes topics asynchronous: each with its answer, and with the function that starts the work of a handler, to which
/// further arguments may be given.
macro_rules! async_topics {
    ($($topic:ident: $answer:ty, $start:ident($($more:expr)?);)*) => { $(
        impl AsyncTopic for $topic {
            type Answer = $answer;

            fn start<R, F>(
                call: &Call<'_, Self>,
                handler: &str,
                policy: AsyncPolicy,
                future: F,
            ) -> Result<Outcome, Failure>
            where
                R: IntoAnswer<Self>,
                F: Future<Output = R> + Send + 'static,
            {
                $start(call, handler, policy, future $(, $more)?)
            }
        }
    )* };
}
pub(super) use async_topics;

async_topics! {
    JobValidate: (), start_for_job();
    JobDependency: (), start_for_job();
    JobStateDepend: (), start_for_job();
    JobStatePriority: Priority, start_for_job();
    JobStateRun: (), start_for_job();
    JobStateCleanup: (), start_for_job();
}

/// The outcome of a handler for which the host makes the job wait.
fn waits(result: Result<(), CallError>) -> Result<Outcome, Failure> {
    result.map_err(|error| Failure::Error(error.to_string()))?;
    Ok(Outcome::default())
}

impl JobWaits for JobValidate {
    const KIND: WorkKind = WorkKind::Verdict;

    fn begin(_: &dyn Host, _: JobId, _: &str) -> Result<Outcome, Failure> {
        Ok(Outcome::deferred())
    }

    fn end(job: JobId, _: &str, answer: Result<(), AsyncError>) -> Vec<Command> {
        vec![Command::Verdict { job, verdict: answer }]
    }
}

macro_rules! dependency_topics {
    ($($topic:ident)*) => { $(
        impl JobWaits for $topic {
            const KIND: WorkKind = WorkKind::Dependency;

            fn begin(host: &dyn Host, job: JobId, what: &str) -> Result<Outcome, Failure> {
                waits(host.call(Command::AddDependency { job, description: what.to_owned() }))
            }

            fn end(job: JobId, what: &str, answer: Result<(), AsyncError>) -> Vec<Command> {
                vec![match answer {
                    Ok(()) => Command::RemoveDependency { job, description: what.to_owned() },
                    Err(error) => {
                        let exception = Exception::fatal("dependency", error.to_string());
                        Command::Raise { job, exception }
                    }
                }]
            }
        }
    )* };
}
dependency_topics!(JobDependency JobStateDepend);

impl JobWaits for JobStatePriority {
    const KIND: WorkKind = WorkKind::Priority;

    fn begin(_: &dyn Host, _: JobId, _: &str) -> Result<Outcome, Failure> {
        Ok(Outcome::priority(Priority::Unavailable))
    }

    fn end(job: JobId, what: &str, answer: Result<Priority, AsyncError>) -> Vec<Command> {
        vec![match answer {
            Ok(priority) => Command::Reprioritize { job, priority },
            Err(error) => Command::Log {
                level: Level::Error,
                text: format!("{what}: job {job} stays without a priority: {error}"),
            },
        }]
    }
}

impl JobWaits for JobStateRun {
    const KIND: WorkKind = WorkKind::Prolog;

    fn begin(host: &dyn Host, job: JobId, what: &str) -> Result<Outcome, Failure> {
        waits(host.call(Command::StartProlog { job, description: what.to_owned() }))
    }

    fn end(job: JobId, what: &str, answer: Result<(), AsyncError>) -> Vec<Command> {
        let failure = answer.err().map(|error| error.to_string());
        let status = i32::from(failure.is_some());
        vec![Command::FinishProlog { job, description: what.to_owned(), status, failure }]
    }
}

impl JobWaits for JobStateCleanup {
    const KIND: WorkKind = WorkKind::Epilog;

    fn begin(host: &dyn Host, job: JobId, what: &str) -> Result<Outcome, Failure> {
        waits(host.call(Command::StartEpilog { job, description: what.to_owned() }))
    }

    fn end(job: JobId, what: &str, answer: Result<(), AsyncError>) -> Vec<Command> {
        let failure = answer.err().map(|error| error.to_string());
        let status = i32::from(failure.is_some());
        vec![Command::FinishEpilog { job, description: what.to_owned(), status, failure }]
    }
}

/// Whether a job concerns an asynchronous handler, by the handler's `when`; called by the code that `#[jobtap_plugin]`
/// generates.
#[doc(hidden)]
pub fn is_concerned<P: 'static, T: HasJob>(
    call: &Call<'_, T>,
    plugin: &mut dyn Any,
    when: impl FnOnce(&P, &Job) -> bool,
) -> Result<bool, Failure> {
    let job = call.args.job.ok_or(NO_JOB)?;
    let plugin = plugin.downcast_ref().ok_or(NOT_THIS_PLUGIN)?;
    Ok(when(plugin, job))
}

/// Leaves a job alone; called by the code that `#[jobtap_plugin]` generates.
#[doc(hidden)]
pub fn decline<T: AsyncTopic + HasJob>(
    call: &Call<'_, T>,
    handler: &str,
) -> Result<Outcome, Failure> {
    let (host, job) = (call.args.host, call.args.job.ok_or(NO_JOB)?);
    let description = described(call, handler);
    if job.dependencies().any(|open| open == description) {
        // The job concerned the handler before a restart or a reload, and nothing else would remove this dependency.
        host.push(Command::RemoveDependency { job: job.id(), description });
    }
    Ok(Outcome::default())
}

const NO_JOB: Failure = Failure::Input("the host gave no job");
const NOT_THIS_PLUGIN: Failure = Failure::Input("the host gave another plugin's instance");

/// The description of a handler's work in events.
fn described<T: TopicSet>(call: &Call<'_, T>, handler: &str) -> String {
    let dependency = match call.args.detail {
        Detail::Dependency(dependency) => Some(dependency),
        _ => None,
    };
    work_description(call.args.host.remote().name(), handler, dependency)
}

/// Starts an asynchronous handler; called by the code that `#[jobtap_plugin]` generates.
#[doc(hidden)]
pub fn spawn<T, R, F>(
    call: &Call<'_, T>,
    handler: &str,
    policy: AsyncPolicy,
    future: F,
) -> Result<Outcome, Failure>
where
    T: AsyncTopic,
    R: IntoAnswer<T>,
    // The compiler shows this line to authors.
    F: Future<Output = R> + Send + 'static, // end a lock's guard or an `Rc` before the `.await`, as in `{ .. }`
{
    T::start(call, handler, policy, future)
}

/// Starts a handler for which the job waits.
fn start_for_job<T, R, F>(
    call: &Call<'_, T>,
    handler: &str,
    policy: AsyncPolicy,
    future: F,
) -> Result<Outcome, Failure>
where
    T: JobWaits,
    R: IntoAnswer<T>,
    F: Future<Output = R> + Send + 'static,
{
    let host = call.args.host;
    let job = call.args.job.ok_or(NO_JOB)?;
    let remote = host.remote();
    let what = described(call, handler);
    let mut dependencies = job.kept().dependencies.iter();
    if dependencies.any(|known| *known.description == *what && !known.open) {
        // The handler is called again after a restart or a reload, but this dependency was satisfied
        // before.
        return Ok(Outcome::default());
    }
    let job = job.id();
    // Before the future is queued: when the host refuses, for example a prolog of a job that was started
    // already, nothing must run.
    let outcome = T::begin(host, job, &what)?;
    let (name, answering) = (what.clone(), remote.clone());
    let topic = call.args.topic;
    let work =
        in_background(remote, topic, Some(job), what.clone(), policy, future, move |answer| {
            // One batch, so that the job can't move on before the host knows that the work has finished.
            let mut commands = T::end(job, &name, answer);
            commands.push(Command::WorkEnded { job, what: name });
            answering.commands(commands);
        });
    let AbortableFuture { abort, future } = work;
    let (kind, run_on) = (T::KIND, policy.run_on);
    host.push(Command::BeginWork(JobWork { job, what, kind, run_on, abort, future }));
    Ok(outcome)
}

/// Work that a host runs, and how it is aborted.
pub(super) struct AbortableFuture {
    pub(super) abort: AbortHandle,
    pub(super) future: PluginFuture,
}

/// Makes the work of a handler: its future with its time limit, and then `end` with its answer, or with
/// its error, its panic or its timeout. `end` is not called for work that was aborted.
pub(super) fn in_background<T, R, F>(
    remote: RemoteHandle,
    topic: TopicId,
    job: Option<JobId>,
    name: String,
    policy: AsyncPolicy,
    future: F,
    end: impl FnOnce(Result<T::Answer, AsyncError>) + Send + 'static,
) -> AbortableFuture
where
    T: AsyncTopic,
    R: IntoAnswer<T>,
    F: Future<Output = R> + Send + 'static,
{
    let (abort, aborted) = AbortHandle::new_pair();
    let answering = AssertUnwindSafe(async move { future.await.into_answer() }).catch_unwind();
    let work = Abortable::new(answering, aborted);
    let handle = remote.clone();
    let future = PluginFuture::new(&handle, topic.name(), job, async move {
        let finished = match policy.timeout {
            None => work.await,
            Some(seconds) => match select(pin!(work), pin!(elapsed(&remote, seconds))).await {
                Either::Left((finished, _)) => finished,
                Either::Right(((), _)) => {
                    Ok(Ok(Err(AsyncError::TimedOut { work: name.clone(), seconds })))
                }
            },
        };
        // Aborted: nothing waits for an answer any more.
        let Ok(finished) = finished else { return };
        end(match finished {
            Ok(answer) => answer,
            Err(panic) => {
                Err(AsyncError::Panicked { work: name, panicked: Panicked::from_panic(&*panic) })
            }
        });
    });
    AbortableFuture { abort, future }
}

/// Waits in the host's time. Once the plugin is removed, it waits forever: the work is aborted then, which must not be
/// reported as a timeout.
async fn elapsed(remote: &RemoteHandle, seconds: f64) {
    let (sender, receiver) = oneshot::channel();
    remote.after(
        seconds,
        |_| {},
        move || {
            let _ = sender.send(());
        },
    );
    if remote.wait(receiver).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Starts an asynchronous service; called by the code that `#[jobtap_plugin]` generates.
#[doc(hidden)]
pub fn spawn_service<T, R, K, F>(call: &Call<'_, T>, future: F) -> Result<Outcome, Failure>
where
    T: HasRequest,
    R: IntoReply<K>,
    // The compiler shows this line to authors.
    F: Future<Output = R> + Send + 'static, // end a lock's guard or an `Rc` before the `.await`, as in `{ .. }`
{
    let Detail::Request(request) = call.args.detail else {
        return Err(Failure::Input("the host gave no request"));
    };
    // From here on the outcome of the callback is not the response, whether or not the service took a `Responder`.
    let has_responder = request.taken.replace(true);
    let (to, remote) = (request.to, call.args.host.remote());
    let answering = AssertUnwindSafe(future).catch_unwind();
    let handle = remote.clone();
    let job = call.args.job.map(Job::id);
    call.args.host.push(Command::Spawn(PluginFuture::new(&handle, "service", job, async move {
        let result = match answering.await {
            Ok(reply) => reply.into_reply().map(or_empty),
            Err(panic) => {
                let text = format!("the plugin panicked: {}", panic_text(&*panic));
                Err(ServiceError::new(EIO, text))
            }
        };
        // A responder sends the response itself, unless the service fails.
        if !has_responder || result.is_err() {
            remote.commands(vec![Command::Answer { to, result }]);
        }
    })));
    Ok(Outcome::default())
}

const EIO: i32 = 5;
