//! The seam between plugins and their host: the arguments of one callback, and the host as the callback
//! sees it.
//!
//! A handler sees a job, the topic's own arguments and a [`Cx`](crate::plugin::Cx); all else goes
//! through [`Host`]. The job manager's engine is one host, the test kit uses the same engine, and
//! others can follow. The rules for a host:
//!
//! 1. The calls that a handler makes are queued as [`Command`]s and carried out after that plugin's callback,
//!    before the next plugin is called and before the job's own action. When the handler returned an error,
//!    its jobspec updates are dropped and the other commands are carried out; when it panicked, all are
//!    dropped. Only [`call_own_topic`](Host::call_own_topic) runs other handlers within the callback.
//! 2. Reads and checks return at once and run no callback. Jobs and data show what the callback itself
//!    has asked for: events, urgency, flags, memos, dependencies and jobspec updates. A job's state and
//!    priority stay as they are.
//! 3. A command that can no longer have an effect when its turn comes is dropped and logged with plugin and
//!    topic.

use std::any::Any;

use serde_json::Value;

use super::command::Command;
use super::errors::call_error::CallError;
use super::off_thread::remote::RemoteHandle;
use super::values::allocation::Demand;
use super::values::prep::Node;
use super::values::service::ServiceRequest;
use super::values::slurm::SlurmRequest;
use super::values::update::UpdateRequest;
use crate::array::Progress;
use crate::eventlog::{Context, EventEntry};
use crate::job::{Job, JobId, State, Timestamp, Uid};
use crate::jobspec::Dependency;
use crate::queue::Queues;
use crate::resource::ResourceSet;
use crate::topic::TopicId;

/// What a host passes for one callback: borrowed views.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    /// The seam to the host.
    pub host: &'a dyn Host,
    /// The topic that is called; for a handler of a wildcard, the topic itself and not the wildcard.
    pub topic: TopicId,
    /// The current job.
    pub job: Option<&'a Job>,
    /// What the topic passes in addition to the job.
    pub detail: Detail<'a>,
}

/// What a topic passes in addition to its job.
#[derive(Clone, Copy, Default)]
pub enum Detail<'a> {
    /// Nothing.
    #[default]
    None,
    /// `conf.update`: the configuration.
    Conf {
        /// The instance's configuration.
        instance: &'a Value,
        /// The plugin's own table, merged with the configuration that was given when the plugin was loaded.
        own: &'a Value,
        /// The plugin's name, for messages.
        name: &'a str,
    },
    /// `job.dependency.SCHEME`: the dependency that the user requested.
    Dependency(&'a Dependency),
    /// `job.state.*`: the previous state, and the event that changed it. Both are `None` when a plugin that
    /// is loaded into a running manager is called for the jobs that exist.
    State {
        /// The previous state.
        prev: Option<State>,
        /// The event.
        entry: Option<&'a EventEntry>,
    },
    /// `job.event.NAME`: the event.
    Event(&'a EventEntry),
    /// `job.update`: the new values by path.
    Updates(&'a Context),
    /// `job.update.KEY`: the user's request.
    UpdateRequest(&'a UpdateRequest),
    /// `slurm.prolog` and `slurm.epilog`: the node.
    Node(&'a Node),
    /// `slurm.job_submit` and `slurm.job_modify`: the request in Slurm's terms.
    Slurm(&'a SlurmRequest),
    /// `allocation.plan`: what is needed, and what is there.
    Demand(&'a Demand),
    /// A plugin service: the request.
    Request(&'a ServiceRequest),
    /// An author's own topic: its payload.
    Own(&'a dyn Any),
}

impl<'a> Args<'a> {
    /// Arguments with a host and a topic only.
    pub fn new(host: &'a dyn Host, topic: TopicId) -> Self {
        Self { host, topic, job: None, detail: Detail::None }
    }
}

/// What runs plugins, as a callback sees it.
pub trait Host {
    /// The time of this callback. All callbacks of one cause have the same time.
    fn now(&self) -> Timestamp;

    /// The user who owns the instance.
    fn owner(&self) -> Uid;

    /// All resources of the instance, as they are now.
    fn instance_resources(&self) -> &ResourceSet;

    /// The job that the callback is about; `None` in timers and other closures of
    /// [`Remote`](crate::plugin::Remote).
    fn current(&self) -> Option<JobId>;

    /// A job by id: active, or inactive and not yet purged.
    fn job(&self, id: JobId) -> Option<&Job>;

    /// How far the elements of a job array have come; `None` for any other id. A host without arrays has none.
    fn array(&self, _id: JobId) -> Option<Progress> {
        None
    }

    /// The active jobs, in the order of their ids.
    fn active_jobs(&self) -> Vec<JobId>;

    /// The jobs that became inactive at this time or later and are not yet purged, the last one first. A host
    /// that doesn't keep such jobs has none to show.
    fn ended_jobs(&self, _since: Timestamp) -> Vec<JobId> {
        Vec::new()
    }

    /// The resources of a job that the plugin can retain after the job has freed them; `None` when they
    /// didn't come from the scheduler, or are lost.
    fn retainable(&self, id: JobId) -> Option<ResourceSet>;

    /// The plugin's data on a job, including changes of this callback.
    fn data(&self, id: JobId) -> Option<Value>;

    /// The plugin's data on the instance, including changes of this callback.
    fn instance_data(&self) -> Option<Value>;

    /// The instance's queues, as they are now.
    fn queues(&self) -> &Queues;

    /// Calls an author's own topic on all plugins that handle it, at once and in stack order. The commands of
    /// their handlers are queued with those of this callback.
    ///
    /// # Errors
    /// When there is no such job, when a plugin that handles the topic is being called already, or when a
    /// handler fails.
    fn call_own_topic(
        &self,
        topic: &'static str,
        job: Option<JobId>,
        payload: &dyn Any,
    ) -> Result<Vec<Box<dyn Any>>, CallError>;

    /// Checks a command against the job, its state and what the callback has asked for on it, and queues it.
    ///
    /// # Errors
    /// When the command can't have an effect. It is not queued then.
    fn call(&self, command: Command) -> Result<(), CallError>;

    /// Queues a command that needs no check.
    fn push(&self, command: Command);

    /// The handle by which work outside the manager's thread reaches the plugin.
    fn remote(&self) -> RemoteHandle;
}
