//! Asynchronous handlers: an `async fn` mapped onto the protocol that its topic has for waiting.
//!
//! | topic | while it runs | when it ends |
//! |---|---|---|
//! | `job.validate` | the submitter waits for the answer | the job is accepted or rejected |
//! | `job.dependency.*`, `job.state.depend` | a dependency holds the job | it is removed |
//! | `job.state.priority` | the priority is unavailable | the priority is set |
//! | `job.state.run` | a prolog holds the start | it is finished |
//! | `job.state.cleanup` | an epilog holds the resources | it is finished |
//!
//! The future starts after the callback's events are durable, runs off the manager's thread, and
//! waits through [`Remote`](super::Remote) only, so that virtual time works. One that fails or
//! panics ends its prolog, epilog or dependency with a fatal exception. One whose job no longer waits
//! for it, because the job was cancelled say, is dropped at its next `await`; a prolog's goes on with
//! `on_cancel = "run-on"`. When the manager is started again, work for a dependency or a priority
//! begins again; a prolog or epilog has failed, unless its handler says `on_restart = "rerun"`.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::call::Call;
use super::failure::{EpilogFailed, HandlerError, PrologFailed, Reject};
use super::remote::Remote;
use super::service::IntoReply;
use crate::host::abort::{AbortHandle, Abortable};
use crate::host::waiting::{Either, oneshot, race};
use crate::host::{
    AsyncPolicy, CallError, Command, Detail, Exception, Failure, Hold, Host, JobWork, Level,
    Outcome, Priority, RemoteHandle, ServiceError, Task, panic_text,
};
use crate::job::JobId;
use crate::jobspec::Dependency;
use crate::topic::{
    HasJob, HasRequest, JobDependency, JobStateCleanup, JobStateDepend, JobStatePriority,
    JobStateRun, JobValidate, TopicSet,
};

/// A topic at which a handler may be an `async fn`.
#[diagnostic::on_unimplemented(
    message = "a handler of `{Self}` can't be `async`",
    label = "nothing waits for a handler of this topic",
    note = "`async` works on `job.validate`, `job.dependency.SCHEME`, `job.state.depend`, `.priority`, `.run` and `.cleanup`; elsewhere start the work through `Remote<Self>`"
)]
pub trait AsyncTopic: TopicSet {
    /// What the future is waited for.
    type Answer: Send + 'static;

    /// What holds the job meanwhile.
    #[doc(hidden)]
    const HOLD: Hold;

    /// Puts the hold on the job.
    #[doc(hidden)]
    fn begin(host: &dyn Host, job: JobId, what: &str) -> Result<Outcome, Failure>;

    /// What lets it go.
    #[doc(hidden)]
    fn end(job: JobId, what: &str, answer: Result<Self::Answer, String>) -> Vec<Command>;
}

/// Types that an `async` handler of topic `T` may return.
#[diagnostic::on_unimplemented(
    message = "an `async` handler of `{T}` can't return `{Self}`",
    label = "not an answer of this topic",
    note = "return `Result<(), Reject>` from `job.validate`, `job.dependency.SCHEME` and `job.state.depend`, `Priority` from `job.state.priority`, `Result<(), PrologFailed>` from `job.state.run`, `Result<(), EpilogFailed>` from `job.state.cleanup`"
)]
pub trait IntoAnswer<T: AsyncTopic> {
    /// Makes the answer.
    ///
    /// # Errors
    /// Those of the handler, as the text that its user reads.
    fn into_answer(self) -> Result<T::Answer, String>;
}

/// An answer that is given by returning: of topics that only wait for the end of the work.
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
    fn into_answer(self) -> Result<T::Answer, String> {
        Ok(T::Answer::bare())
    }
}

impl IntoAnswer<JobStateRun> for Result<(), PrologFailed> {
    fn into_answer(self) -> Result<(), String> {
        self.map_err(|error| error.text().to_owned())
    }
}

impl IntoAnswer<JobStateCleanup> for Result<(), EpilogFailed> {
    fn into_answer(self) -> Result<(), String> {
        self.map_err(|error| error.text().to_owned())
    }
}

macro_rules! rejections {
    ($($topic:ident)*) => { $(
        impl IntoAnswer<$topic> for Result<(), Reject> {
            fn into_answer(self) -> Result<(), String> {
                self.map_err(|error| error.text().to_owned())
            }
        }
    )* };
}
rejections!(JobValidate JobDependency JobStateDepend);

impl IntoAnswer<JobStatePriority> for Priority {
    fn into_answer(self) -> Result<Priority, String> {
        Ok(self)
    }
}

impl IntoAnswer<JobStatePriority> for Result<Priority, HandlerError> {
    fn into_answer(self) -> Result<Priority, String> {
        self.map_err(|error| error.text().to_owned())
    }
}

/// Fails the call at once: a check of the host in front of [`AsyncTopic::begin`].
fn held(result: Result<(), CallError>) -> Result<Outcome, Failure> {
    result.map_err(|error| Failure::Error(error.to_string()))?;
    Ok(Outcome::default())
}

impl AsyncTopic for JobValidate {
    type Answer = ();
    const HOLD: Hold = Hold::Verdict;

    fn begin(_: &dyn Host, _: JobId, _: &str) -> Result<Outcome, Failure> {
        Ok(Outcome::deferred())
    }

    fn end(job: JobId, _: &str, answer: Result<(), String>) -> Vec<Command> {
        vec![Command::Verdict { job, verdict: answer }]
    }
}

macro_rules! dependency_topics {
    ($($topic:ident)*) => { $(
        impl AsyncTopic for $topic {
            type Answer = ();
            const HOLD: Hold = Hold::Dependency;

            fn begin(host: &dyn Host, job: JobId, what: &str) -> Result<Outcome, Failure> {
                held(host.call(Command::AddDependency { job, description: what.to_owned() }))
            }

            fn end(job: JobId, what: &str, answer: Result<(), String>) -> Vec<Command> {
                vec![match answer {
                    Ok(()) => Command::RemoveDependency { job, description: what.to_owned() },
                    Err(note) => {
                        Command::Raise { job, exception: Exception::fatal("dependency", note) }
                    }
                }]
            }
        }
    )* };
}
dependency_topics!(JobDependency JobStateDepend);

impl AsyncTopic for JobStatePriority {
    type Answer = Priority;
    const HOLD: Hold = Hold::Priority;

    fn begin(_: &dyn Host, _: JobId, _: &str) -> Result<Outcome, Failure> {
        Ok(Outcome::priority(Priority::Unavailable))
    }

    fn end(job: JobId, what: &str, answer: Result<Priority, String>) -> Vec<Command> {
        vec![match answer {
            Ok(priority) => Command::Reprioritize { job, priority },
            Err(text) => Command::Log {
                level: Level::Error,
                text: format!("{what}: job {job} stays without a priority: {text}"),
            },
        }]
    }
}

impl AsyncTopic for JobStateRun {
    type Answer = ();
    const HOLD: Hold = Hold::Prolog;

    fn begin(host: &dyn Host, job: JobId, what: &str) -> Result<Outcome, Failure> {
        held(host.call(Command::StartProlog { job, description: what.to_owned() }))
    }

    fn end(job: JobId, what: &str, answer: Result<(), String>) -> Vec<Command> {
        let failure = answer.err();
        let status = i32::from(failure.is_some());
        vec![Command::FinishProlog { job, description: what.to_owned(), status, failure }]
    }
}

impl AsyncTopic for JobStateCleanup {
    type Answer = ();
    const HOLD: Hold = Hold::Epilog;

    fn begin(host: &dyn Host, job: JobId, what: &str) -> Result<Outcome, Failure> {
        held(host.call(Command::StartEpilog { job, description: what.to_owned() }))
    }

    fn end(job: JobId, what: &str, answer: Result<(), String>) -> Vec<Command> {
        let failure = answer.err();
        let status = i32::from(failure.is_some());
        vec![Command::FinishEpilog { job, description: what.to_owned(), status, failure }]
    }
}

/// Starts an asynchronous handler; called by the code that `#[jobtap_plugin]` makes.
#[doc(hidden)]
pub fn spawn<T, R, F>(
    call: &Call<'_, T>,
    handler: &str,
    policy: AsyncPolicy,
    future: F,
) -> Result<Outcome, Failure>
where
    T: AsyncTopic + HasJob,
    R: IntoAnswer<T>,
    F: Future<Output = R> + Send + 'static,
{
    let host = call.args.host;
    let job = call.args.job.ok_or(Failure::Input("the host gave no job"))?;
    let remote = host.remote();
    let mut what = format!("{}.{handler}", remote.name());
    if let Detail::Dependency(Dependency { scheme, value, .. }) = call.args.detail {
        // One handler may be at work on several dependencies of a job.
        what = format!("{what}={scheme}:{value}");
    }
    let mut held = job.dependencies.iter();
    if held.any(|held| *held.description == *what && !held.open) {
        // Called again, after a restart or a reload, for what ended well before.
        return Ok(Outcome::default());
    }
    let job = job.id();
    let outcome = T::begin(host, job, &what)?;
    let abort = AbortHandle::default();
    let (name, seconds) = (what.clone(), policy.timeout);
    let answering = async move { future.await.into_answer() };
    let work = Abortable::new(Guarded(Box::pin(answering)), abort.clone());
    let task = Task(Box::pin(async move {
        let ended = match seconds {
            None => work.await,
            Some(seconds) => match race(work, elapsed(&remote, seconds)).await {
                Either::First(ended) => ended,
                Either::Second(()) => Some(Ok(Err(format!("{name}: no end after {seconds} s")))),
            },
        };
        // Ended from outside: nothing waits for an answer any more.
        let Some(ended) = ended else { return };
        let answer = match ended {
            Ok(answer) => answer,
            Err(panic) => Err(format!("{name} panicked: {panic}")),
        };
        let mut commands = T::end(job, &name, answer);
        commands.push(Command::End { job, what: name });
        remote.commands(commands);
    }));
    let (hold, run_on) = (T::HOLD, policy.run_on);
    host.push(Command::Begin(JobWork { job, what, hold, run_on, abort, task }));
    Ok(outcome)
}

/// Waits in the host's time; for ever when the plugin is gone, since its work ends then anyway.
async fn elapsed(remote: &RemoteHandle, seconds: f64) {
    let (answer, waiting) = oneshot();
    remote.after(seconds, |_| {}, move || answer.send(()));
    if waiting.await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Starts an asynchronous service; called by the code that `#[jobtap_plugin]` makes.
#[doc(hidden)]
pub fn spawn_service<T, R, K, F>(call: &Call<'_, T>, future: F) -> Result<Outcome, Failure>
where
    T: HasRequest,
    R: IntoReply<K>,
    F: Future<Output = R> + Send + 'static,
{
    let Detail::Request(request) = call.args.detail else {
        return Err(Failure::Input("the host gave no request"));
    };
    let answers_itself = request.taken.replace(true);
    let (to, remote) = (request.to, call.args.host.remote());
    let guarded = Guarded(Box::pin(future));
    call.args.host.push(Command::Spawn(Task(Box::pin(async move {
        let result = match guarded.await {
            Ok(reply) => reply.into_reply(),
            Err(panic) => Err(ServiceError::new(EIO, format!("the plugin panicked: {panic}"))),
        };
        // With a responder in its hands the work has answered itself, or will.
        if !answers_itself || result.is_err() {
            remote.commands(vec![Command::Answer { to, result }]);
        }
    }))));
    Ok(Outcome::default())
}

impl<P: 'static> Remote<P> {
    /// Runs a future of the plugin's own off the manager's thread, from when what is on its way there
    /// is durable. It brings back what it finds with [`run`](Remote::run). Nothing waits for it: what
    /// holds a job is an asynchronous handler, or has a [`Token`](super::Token).
    ///
    /// When the plugin is unloaded, whatever the future waits for through the SDK ends with
    /// [`Gone`](super::Gone). A panic in it is logged.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// struct Weather { wind: Option<String> }
    ///
    /// fn look(remote: Remote<Weather>) {
    ///     remote.clone().spawn(async move {
    ///         if let Ok(end) = remote.run_process(Process::new("wind-speed")).await {
    ///             let wind = String::from_utf8_lossy(&end.stdout).into_owned();
    ///             remote.run(move |weather, _| weather.wind = Some(wind));
    ///         }
    ///     });
    /// }
    /// ```
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let guarded = Guarded(Box::pin(work));
        let remote = self.handle().clone();
        self.handle().commands(vec![Command::Spawn(Task(Box::pin(async move {
            if let Err(panic) = guarded.await {
                let (level, text) = (Level::Error, format!("a future panicked: {panic}"));
                remote.commands(vec![Command::Log { level, text }]);
            }
        })))]);
    }
}

const EIO: i32 = 5;

/// A future whose panic becomes a value.
struct Guarded<F>(Pin<Box<F>>);

impl<F: Future> Future for Guarded<F> {
    /// What it gave, or what its panic said.
    type Output = Result<F::Output, String>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(cx))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic_text(&*panic))),
        }
    }
}
