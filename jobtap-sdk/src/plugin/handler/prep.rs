//! What handlers of Slurm's prologs and epilogs take, and how the job waits for those that are `async`.

use std::future::Future;

use super::asyncs::{AbortableFuture, AsyncTopic, IntoAnswer, async_topics, in_background};
use super::failure::{EpilogFailed, PrologFailed};
use super::params::FromTopic;
use crate::host::values::prep::{Node, PrepFailure};
use crate::host::{
    AsyncError, AsyncPolicy, Command, Detail, Failure, JobWork, Outcome, WorkKind, work_description,
};
use crate::plugin::cx::call::Call;
use crate::topic::{
    HasJob, HasNode, SlurmEpilog, SlurmEpilogSlurmctld, SlurmProlog, SlurmPrologSlurmctld, Topic,
};

impl<'a, P, T: HasNode> FromTopic<'a, P, T> for Node {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        match call.args.detail {
            Detail::Node(node) => Ok(node.clone()),
            _ => Err(Failure::Input("the host gave no node")),
        }
    }
}

async_topics! {
    SlurmPrologSlurmctld: (), start(WorkKind::Prolog);
    SlurmProlog: (), start(WorkKind::Prolog);
    SlurmEpilog: (), start(WorkKind::Epilog);
    SlurmEpilogSlurmctld: (), start(WorkKind::Epilog);
}

macro_rules! answers {
    ($($topic:ident: $failed:ident;)*) => { $(
        // Without this attribute, compile errors show this to authors of `job.state.run` handlers.
        #[diagnostic::do_not_recommend]
        impl IntoAnswer<$topic> for Result<(), $failed> {
            fn into_answer(self) -> Result<(), AsyncError> {
                self.map_err(|error| AsyncError::Returned(error.text().to_owned()))
            }
        }
    )* };
}
answers! {
    SlurmPrologSlurmctld: PrologFailed;
    SlurmProlog: PrologFailed;
    SlurmEpilog: EpilogFailed;
    SlurmEpilogSlurmctld: EpilogFailed;
}

/// Starts a prolog or epilog, and the work that finishes it.
fn start<T, R, F>(
    call: &Call<'_, T>,
    handler: &str,
    policy: AsyncPolicy,
    future: F,
    kind: WorkKind,
) -> Result<Outcome, Failure>
where
    T: Topic + AsyncTopic<Answer = ()> + HasJob,
    R: IntoAnswer<T>,
    F: Future<Output = R> + Send + 'static,
{
    let host = call.args.host;
    let job = call.args.job.ok_or(Failure::Input("the host gave no job"))?.id();
    let node = match call.args.detail {
        Detail::Node(node) => Some(node.clone()),
        _ => None,
    };
    let remote = host.remote();
    let mut what = work_description(remote.name(), handler, None);
    if let Some(node) = &node {
        // One may be open for each node.
        what = format!("{what}@{}", node.host);
    }
    let description = what.clone();
    host.call(match kind {
        WorkKind::Prolog => Command::StartProlog { job, description },
        _ => Command::StartEpilog { job, description },
    })
    .map_err(|error| Failure::Error(error.to_string()))?;
    let (description, answering) = (what.clone(), remote.clone());
    let work =
        in_background(remote, T::ID, Some(job), what.clone(), policy, future, move |answer| {
            let (status, failure) = (0, None);
            let end = match answer {
                Ok(()) if kind == WorkKind::Prolog => {
                    Command::FinishProlog { job, description: description.clone(), status, failure }
                }
                Ok(()) => {
                    Command::FinishEpilog { job, description: description.clone(), status, failure }
                }
                Err(error) => {
                    let (description, note) = (Some(description.clone()), error.to_string());
                    Command::FailPrep(PrepFailure { topic: T::ID, job, description, node, note })
                }
            };
            answering.commands(vec![end, Command::WorkEnded { job, what: description }]);
        });
    let AbortableFuture { abort, future } = work;
    let run_on = policy.run_on;
    host.push(Command::BeginWork(JobWork { job, what, kind, run_on, abort, future }));
    Ok(Outcome::default())
}
