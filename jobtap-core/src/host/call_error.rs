//! Why a call of a handler can't have an effect: what the types could not rule out.

use crate::job::{JobId, State};

/// Why a call can't have an effect.
///
/// ```
/// # use jobtap_core::prelude::*;
/// fn find(id: JobId, cx: &Cx<'_, Service>) -> Result<String, ServiceError> {
///     match cx.live(id) {
///         Ok(job) => Ok(job.state().to_string()),
///         Err(CallError::Over(_)) => Ok("over".to_owned()),
///         Err(other) => Err(other.into()), // "there is no job ƒ3"
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No such job, or it was purged.
    #[error("there is no job {0}")]
    UnknownJob(JobId),
    /// The job is over, or not accepted yet.
    #[error("job {0} is over, or not accepted yet")]
    Over(JobId),
    /// The host gave no current job where the topic promises one.
    #[error("there is no current job")]
    NoCurrentJob,
    /// The call needs a state that the job is not in.
    #[error("{call} of job {job} in state {state}: {rule}")]
    WrongState {
        /// The job.
        job: JobId,
        /// The state that it is in.
        state: State,
        /// The call.
        call: &'static str,
        /// When the call is possible.
        rule: &'static str,
    },
    /// The dependency to remove doesn't hold the job.
    #[error("job {job} isn't held by dependency {description:?}")]
    NotHeld {
        /// The job.
        job: JobId,
        /// The description.
        description: String,
    },
    /// The job's start was requested, so that a prolog comes too late.
    #[error("job {0} was started already: a prolog can't hold it any more")]
    Started(JobId),
    /// The prolog or epilog to take over isn't open, or a plugin has it.
    #[error("job {job} has no open {description:?} that could be taken over")]
    NotOpen {
        /// The job.
        job: JobId,
        /// The description.
        description: String,
    },
    /// An own topic was called while the plugin that handles it is being called.
    #[error("topic {topic} is called in a circle: plugin {plugin} is at work already")]
    Reentrant {
        /// The topic.
        topic: &'static str,
        /// The plugin.
        plugin: String,
    },
    /// A handler of an own topic failed.
    #[error("topic {topic}: plugin {plugin}: {text}")]
    Topic {
        /// The topic.
        topic: &'static str,
        /// The plugin.
        plugin: String,
        /// What it said.
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
    /// The job has no resources of the scheduler that could be kept.
    #[error("job {0} holds nothing that the scheduler gives out")]
    NothingHeld(JobId),
    /// The jobspec can't be changed at this path.
    #[error("jobspec update of job {job}: {reason}")]
    Jobspec {
        /// The job.
        job: JobId,
        /// What is wrong with path or value.
        reason: String,
    },
}
