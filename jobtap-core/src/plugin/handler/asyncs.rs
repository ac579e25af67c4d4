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
//! waits through [`Remote`](crate::plugin::Remote) only, so that virtual time works. One that fails or
//! panics ends its prolog, epilog or dependency with a fatal exception. One whose job no longer waits
//! for it, because the job was cancelled say, is dropped at its next `await`; a prolog's goes on with
//! `on_cancel = "run-on"`. When the manager is started again, work for a dependency or a priority
//! begins again; a prolog or epilog has failed, unless its handler says `on_restart = "rerun"`.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;

use futures_channel::oneshot;
use futures_util::FutureExt;
use futures_util::future::{AbortHandle, Abortable, Either, select};

use super::failure::{EpilogFailed, HandlerError, PrologFailed, Reject};
use super::service::IntoReply;
use crate::host::{
    AsyncPolicy, CallError, Command, Detail, Exception, Failure, Hold, Host, JobWork, Level,
    Outcome, Priority, RemoteHandle, ServiceError, Task, panic_text,
};
use crate::job::JobId;
use crate::jobspec::Dependency;
use crate::plugin::cx::call::Call;
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
    let (abort, aborted) = AbortHandle::new_pair();
    let (name, seconds) = (what.clone(), policy.timeout);
    let answering = AssertUnwindSafe(async move { future.await.into_answer() }).catch_unwind();
    let work = Abortable::new(answering, aborted);
    let task = Task(Box::pin(async move {
        let finished = match seconds {
            None => work.await,
            Some(seconds) => match select(pin!(work), pin!(elapsed(&remote, seconds))).await {
                Either::Left((finished, _)) => finished,
                Either::Right(((), _)) => Ok(Ok(Err(format!("{name}: no end after {seconds} s")))),
            },
        };
        // Aborted: the job no longer waits for an answer.
        let Ok(finished) = finished else { return };
        let answer = match finished {
            Ok(answer) => answer,
            Err(panic) => Err(format!("{name} panicked: {}", panic_text(&*panic))),
        };
        let mut commands = T::end(job, &name, answer);
        commands.push(Command::End { job, what: name });
        remote.commands(commands);
    }));
    let (hold, run_on) = (T::HOLD, policy.run_on);
    host.push(Command::Begin(JobWork { job, what, hold, run_on, abort, task }));
    Ok(outcome)
}

/// Waits in the host's time. Once the plugin is unloaded it waits for ever: the work is aborted then,
/// which is not to be reported as a timeout.
async fn elapsed(remote: &RemoteHandle, seconds: f64) {
    let (sender, receiver) = oneshot::channel();
    remote.after(
        seconds,
        |_| {},
        move || {
            let _ = sender.send(());
        },
    );
    if receiver.await.is_err() {
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
    let answering = AssertUnwindSafe(future).catch_unwind();
    call.args.host.push(Command::Spawn(Task(Box::pin(async move {
        let result = match answering.await {
            Ok(reply) => reply.into_reply(),
            Err(panic) => {
                let text = format!("the plugin panicked: {}", panic_text(&*panic));
                Err(ServiceError::new(EIO, text))
            }
        };
        // With a responder in its hands the work has answered itself, or will.
        if !answers_itself || result.is_err() {
            remote.commands(vec![Command::Answer { to, result }]);
        }
    }))));
    Ok(Outcome::default())
}

const EIO: i32 = 5;
