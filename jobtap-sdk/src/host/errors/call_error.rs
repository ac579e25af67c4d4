//! Why a call that a handler makes can't have an effect, in the cases that types don't rule out.

use crate::host::kind::HostKind;
use crate::job::{JobId, State};
use crate::jobspec::JobspecError;

/// Why the host refused a call that a handler made. Nothing was queued.
///
/// A handler usually returns it with `?`: it converts into every error type that a handler can return.
///
/// ```
/// # use jobtap_core::prelude::*;
/// fn find(id: JobId, cx: &Cx<'_, Service>) -> Result<String, ServiceError> {
///     match cx.active_job(id) {
///         Ok(job) => Ok(job.state().to_string()),
///         Err(CallError::NotActive(_)) => Ok("inactive".to_owned()),
///         Err(other) => Err(other.into()), // "there is no job ƒ3"
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// There is no such job, or it was purged.
    #[error("there is no job {0}")]
    UnknownJob(JobId),
    /// The job is inactive, or not accepted yet.
    #[error("job {0} is inactive or not accepted yet")]
    NotActive(JobId),
    /// The host passed no current job where the topic promises one.
    #[error("there is no current job")]
    NoCurrentJob,
    /// The call needs another state of the job.
    #[error("{call} of job {job} in state {state}: {rule}")]
    WrongState {
        /// The job.
        job: JobId,
        /// Its state.
        state: State,
        /// The call.
        call: &'static str,
        /// When the call is possible.
        rule: &'static str,
    },
    /// The job has no such dependency, or it was removed already.
    #[error("job {job} has no dependency {description:?}")]
    NoDependency {
        /// The job.
        job: JobId,
        /// The description of the dependency.
        description: String,
    },
    /// The plugin has removed this dependency from the job before, and a description works once per job.
    #[error(
        "job {job} has had the dependency {description:?}, which was removed: a description works once per \
         job, so add one of another description"
    )]
    UsedDependency {
        /// The job.
        job: JobId,
        /// The description of the dependency.
        description: String,
    },
    /// Plugins may not write this key below `guest`.
    #[error(
        "guest key {key:?} of job {job}: a plugin writes `application.KEY` or `tools.NAME.KEY`, with names of \
         letters, digits, `-` and `_`, and up to 256 bytes"
    )]
    GuestKey {
        /// The job.
        job: JobId,
        /// The key.
        key: String,
    },
    /// The start of the job's tasks was requested already, so a prolog can't delay it.
    #[error("job {0} was started already: a prolog can't delay it any more")]
    Started(JobId),
    /// This plugin has no open prolog or epilog of this description that could be taken over.
    #[error("job {job} has no open {description:?} that could be taken over")]
    NotOpen {
        /// The job.
        job: JobId,
        /// The description of the prolog or epilog.
        description: String,
    },
    /// A plugin that handles the topic is being called already.
    #[error("topic {topic} is called in a circle: plugin {plugin} is being called already")]
    Reentrant {
        /// The author's own topic.
        topic: &'static str,
        /// The plugin.
        plugin: String,
    },
    /// A handler of an author's own topic failed.
    #[error("topic {topic}: plugin {plugin}: {text}")]
    Topic {
        /// The topic.
        topic: &'static str,
        /// The plugin.
        plugin: String,
        /// The error of its handler.
        text: String,
    },
    /// The context of an event is neither an object nor null.
    #[error("event {name} of job {job}: the context must be an object or null")]
    EventContext {
        /// The job.
        job: JobId,
        /// The event.
        name: String,
    },
    /// The job has no resources that could be retained: see
    /// [`Cx::retain_resources`](crate::plugin::Cx::retain_resources).
    #[error("job {0} has no resources from the scheduler that could be retained")]
    NothingToRetain(JobId),
    /// The jobspec can't be changed at this path, or not to this value.
    #[error("jobspec update of job {job}: {reason}")]
    Jobspec {
        /// The job.
        job: JobId,
        /// What is wrong with the path or the value.
        reason: UpdateFault,
    },
    /// The plugin runs in a host that doesn't have this call. `jobtap build --host` refuses topics that a host
    /// doesn't have; a call is refused when it is made.
    #[error("{host} doesn't serve `{call}`: {reason}")]
    NotServed {
        /// The host.
        host: HostKind,
        /// The call, by the name of its method.
        call: &'static str,
        /// The reason, and what to do.
        reason: &'static str,
    },
}

/// Why a plugin can't make an update of a jobspec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateFault {
    /// Plugins may not change what is at this path.
    #[error("{0:?} doesn't lead into attributes, resources or tasks")]
    Path(String),
    /// With the update, it is no jobspec.
    #[error(transparent)]
    Jobspec(#[from] JobspecError),
}
