//! What handlers of Slurm's topics take, return and call.

use std::cell::RefMut;
use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};

use super::asyncs::{
    AbortableFuture, AsyncTopic, BareAnswer, IntoAnswer, async_topics, in_background,
};
use super::outcome::IntoFailure;
use super::params::FromTopic;
use crate::host::values::slurm::{RequestAnswer, RequestKey, RequestWork, SlurmRequest};
use crate::host::{
    AsyncError, AsyncPolicy, Command, Detail, Failure, Outcome, RemoteHandle, work_description,
};
use crate::job::Uid;
use crate::plugin::cx::call::Call;
use crate::plugin::cx::context::Cx;
use crate::slurm::{JobDescriptor, JobRecord, Partition, SlurmError};
use crate::topic::{
    AllowsUserMessage, HasDescriptor, HasJobRecord, HasPartitions, HasSubmitUid, ReturnsSlurmError,
    SlurmJobModify, SlurmJobSubmit, TopicSet,
};

fn request<'a, T: TopicSet>(call: &Call<'a, T>) -> Result<&'a SlurmRequest, Failure> {
    match call.args.detail {
        Detail::Slurm(request) => Ok(request),
        _ => Err(Failure::Input("the host gave no request of Slurm's")),
    }
}

/// The description of a request in Slurm's terms, which a handler reads and changes in place: a
/// [`JobDescriptor`].
///
/// The next plugin sees the changes. At `slurm.job_modify` only what the user wants to change is set.
/// An `async` handler takes a [`JobDescriptor`] and returns the changed one.
///
/// ```
/// use jobtap_core::prelude::*;
/// use jobtap_core::slurm::{SlurmError, errno};
///
/// #[derive(Default)]
/// struct Limit;
///
/// #[jobtap_plugin(name = "limit")]
/// impl Limit {
///     #[on("slurm.job_submit")]
///     fn submit(
///         &self,
///         mut desc: Descriptor<'_>,
///         cx: Cx<'_, SlurmJobSubmit>,
///     ) -> Result<(), SlurmError> {
///         match desc.time_limit {
///             None => {
///                 desc.time_limit = Some(60);
///                 cx.user_message("no time limit given, it is one hour");
///                 Ok(())
///             }
///             Some(minutes) if minutes > 1440 => Err(errno::ESLURM_INVALID_TIME_LIMIT),
///             Some(_) => Ok(()),
///         }
///     }
/// }
/// ```
pub struct Descriptor<'a>(RefMut<'a, JobDescriptor>);

impl Deref for Descriptor<'_> {
    type Target = JobDescriptor;

    fn deref(&self) -> &JobDescriptor {
        &self.0
    }
}

impl DerefMut for Descriptor<'_> {
    fn deref_mut(&mut self) -> &mut JobDescriptor {
        &mut self.0
    }
}

impl fmt::Debug for Descriptor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

const TWICE: Failure = Failure::Input("a handler takes the description once");

impl<'a, P, T: HasDescriptor> FromTopic<'a, P, T> for Descriptor<'a> {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        request(call)?.descriptor.try_borrow_mut().map(Self).map_err(|_| TWICE)
    }
}

/// A copy, for asynchronous handlers.
impl<'a, P, T: HasDescriptor> FromTopic<'a, P, T> for JobDescriptor {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        Ok(request(call)?.descriptor.try_borrow().map_err(|_| TWICE)?.clone())
    }
}

/// The user who submits a job or requests a change, at Slurm's topics: Slurm's `submit_uid` and
/// `modify_uid`.
///
/// ```
/// # use jobtap_core::prelude::*;
/// # use jobtap_core::slurm::{SlurmError, errno};
/// fn submit(desc: Descriptor<'_>, user: SubmitUid) -> Result<(), SlurmError> {
///     match user.0.as_u32() {
///         0..1000 if desc.qos.is_none() => Err(errno::ESLURM_INVALID_QOS),
///         _ => Ok(()),
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubmitUid(pub Uid);

impl<'a, P, T: HasSubmitUid> FromTopic<'a, P, T> for SubmitUid {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        Ok(SubmitUid(request(call)?.user))
    }
}

/// The partitions at Slurm's topics: the instance's queues in Slurm's terms, in the order of their names.
///
/// An instance without named queues has one partition without a name. An `async` handler takes a
/// `Vec<Partition>`.
///
/// ```
/// # use jobtap_core::prelude::*;
/// # use jobtap_core::slurm::SlurmError;
/// fn submit(mut desc: Descriptor<'_>, partitions: Partitions<'_>) -> Result<(), SlurmError> {
///     let large = partitions.iter().max_by_key(|partition| partition.total_nodes);
///     if desc.min_nodes.is_some_and(|nodes| nodes > 100) {
///         desc.partition = large.and_then(|partition| partition.name.clone());
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Partitions<'a>(&'a [Partition]);

impl<'a> Partitions<'a> {
    /// The partition of this name.
    pub fn get(&self, name: &str) -> Option<&'a Partition> {
        self.0.iter().find(|partition| partition.name.as_deref() == Some(name))
    }

    /// The partition of jobs that name none.
    pub fn default_partition(&self) -> Option<&'a Partition> {
        self.0.iter().find(|partition| partition.is_default())
    }
}

impl Deref for Partitions<'_> {
    type Target = [Partition];

    fn deref(&self) -> &[Partition] {
        self.0
    }
}

fn partitions<'a, T: TopicSet>(call: &Call<'a, T>) -> Result<&'a [Partition], Failure> {
    let (host, request) = (call.args.host, request(call)?);
    let made = || {
        let mut all = Partition::of_queues(host.queues(), host.instance_resources());
        all.retain(|partition| match &partition.name {
            Some(name) => !request.hidden_queues.contains(name),
            None => true,
        });
        all
    };
    Ok(request.partitions.get_or_init(made))
}

impl<'a, P, T: HasPartitions> FromTopic<'a, P, T> for Partitions<'a> {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        partitions(call).map(Partitions)
    }
}

/// A copy, for asynchronous handlers.
impl<'a, P, T: HasPartitions> FromTopic<'a, P, T> for Vec<Partition> {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        partitions(call).map(<[Partition]>::to_vec)
    }
}

impl<'a, P, T: HasJobRecord> FromTopic<'a, P, T> for &'a JobRecord {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        let job = call.args.job.ok_or(Failure::Input("the host gave no job"))?;
        Ok(request(call)?.record.get_or_init(|| JobRecord::from_job(job)))
    }
}

/// A copy, for asynchronous handlers.
impl<'a, P, T: HasJobRecord> FromTopic<'a, P, T> for JobRecord {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        <&JobRecord as FromTopic<'a, P, T>>::from_topic(call).cloned()
    }
}

/// Sends messages from an asynchronous handler to the user whose request it decides on. Other handlers call
/// [`Cx::user_message`].
///
/// ```
/// use jobtap_core::prelude::*;
/// use jobtap_core::slurm::{JobDescriptor, SlurmError, errno};
///
/// #[derive(Default)]
/// struct Accounts;
///
/// #[jobtap_plugin(name = "accounts")]
/// impl Accounts {
///     #[on("slurm.job_submit", timeout = "10s")]
///     async fn submit(
///         mut desc: JobDescriptor,
///         user: SubmitUid,
///         messages: UserMessages,
///         remote: Remote<Self>,
///     ) -> Result<JobDescriptor, SlurmError> {
///         let asked = Process::new("default-account").arg(user.0.to_string());
///         match remote.run_process(asked).await {
///             Ok(end) if end.success().is_ok() => {
///                 let account = String::from_utf8_lossy(&end.stdout).trim().to_owned();
///                 messages.send(format!("charged to {account}"));
///                 desc.account = Some(account);
///                 Ok(desc)
///             }
///             _ => Err(errno::ESLURM_INVALID_ACCOUNT.with("the accounts can't be read now")),
///         }
///     }
/// }
/// # use jobtap_core::testing::{TestJob, TestManager};
/// # let mut m = TestManager::new().plugin::<Accounts>().start();
/// # m.submit(TestJob::new()).unwrap();
/// # assert_eq!(m.messages(), ["charged to "]);
/// ```
#[derive(Debug, Clone)]
pub struct UserMessages {
    request: RequestKey,
    remote: RemoteHandle,
}

impl UserMessages {
    /// Sends a message. It has no effect once the request is answered.
    pub fn send(&self, text: impl Into<String>) {
        let message = Command::UserMessage { request: self.request, text: text.into() };
        self.remote.commands(vec![message]);
    }
}

impl<'a, P, T: AllowsUserMessage> FromTopic<'a, P, T> for UserMessages {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        let request = request(call)?.key;
        Ok(Self { request, remote: call.args.host.remote() })
    }
}

/// Calls at Slurm's topics.
impl<T: TopicSet> Cx<'_, T> {
    /// Sends a message to the user who made the request, as `slurm.log_user` does in Slurm's scripts. It is
    /// delivered whether the request is accepted or refused, each line on the standard error of the command.
    ///
    /// **Hosts**: jobtap's manager, Slurm's job_submit.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # use jobtap_core::slurm::SlurmError;
    /// fn submit(desc: Descriptor<'_>, cx: Cx<'_, SlurmJobSubmit>) -> Result<(), SlurmError> {
    ///     if desc.account.is_none() {
    ///         cx.user_message("no account given: the job is charged to `guests`");
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn user_message(&self, text: impl Into<String>)
    where
        T: AllowsUserMessage,
    {
        if let Detail::Slurm(request) = self.detail() {
            self.host().push(Command::UserMessage { request: request.key, text: text.into() });
        }
    }
}

impl<T: ReturnsSlurmError> IntoFailure<T> for SlurmError {
    fn into_failure(self) -> Failure {
        Failure::Slurm(self)
    }
}

/// What an asynchronous handler has decided on a request.
#[derive(Debug)]
pub struct RequestVerdict(RequestAnswer);

// Without this attribute, compile errors show this type to authors of `job.state.priority` handlers.
#[diagnostic::do_not_recommend]
impl BareAnswer for RequestVerdict {
    fn bare() -> Self {
        Self(RequestAnswer::Accept(None))
    }
}

async_topics! {
    SlurmJobSubmit: RequestVerdict, start();
    SlurmJobModify: RequestVerdict, start();
}

macro_rules! answers {
    ($($topic:ident)*) => { $(
        impl IntoAnswer<$topic> for Result<JobDescriptor, SlurmError> {
            fn into_answer(self) -> Result<RequestVerdict, AsyncError> {
                Ok(RequestVerdict(match self {
                    Ok(descriptor) => RequestAnswer::Accept(Some(Box::new(descriptor))),
                    Err(error) => RequestAnswer::Refuse(error),
                }))
            }
        }

        impl IntoAnswer<$topic> for Result<(), SlurmError> {
            fn into_answer(self) -> Result<RequestVerdict, AsyncError> {
                Ok(RequestVerdict(match self {
                    Ok(()) => RequestAnswer::Accept(None),
                    Err(error) => RequestAnswer::Refuse(error),
                }))
            }
        }
    )* };
}
answers!(SlurmJobSubmit SlurmJobModify);

/// Starts the work of a handler, which the request waits for.
fn start<T, R, F>(
    call: &Call<'_, T>,
    handler: &str,
    policy: AsyncPolicy,
    future: F,
) -> Result<Outcome, Failure>
where
    T: AsyncTopic<Answer = RequestVerdict>,
    R: IntoAnswer<T>,
    F: Future<Output = R> + Send + 'static,
{
    let request = request(call)?.key;
    let host = call.args.host;
    let remote = host.remote();
    let what = work_description(remote.name(), handler, None);
    let answering = remote.clone();
    let AbortableFuture { abort, future } =
        in_background(remote, call.args.topic, None, what, policy, future, move |answer| {
            let answer = match answer {
                Ok(RequestVerdict(answer)) => answer,
                Err(error) => RequestAnswer::Failed(error.to_string()),
            };
            answering.commands(vec![Command::AnswerRequest { request, answer }]);
        });
    host.push(Command::BeginRequestWork(RequestWork { request, abort, future }));
    Ok(Outcome::deferred())
}
