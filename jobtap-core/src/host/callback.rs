//! The seam between plugins and whatever runs them: what one callback is given, and what it can ask
//! for meanwhile.
//!
//! A handler sees a job, the topic's own arguments and a [`Cx`](crate::plugin::Cx); all else goes
//! through [`Host`]. The job manager's engine is one host, the test kit uses the same engine, and
//! others can follow. The rules that a host keeps:
//!
//! 1. Calls of a handler are queued as [`Command`]s and committed at the end of that plugin's
//!    callback, before the next plugin and before the job's own action. When the handler returned
//!    an error its jobspec updates are dropped and the other commands are carried out; when it
//!    panicked all are dropped.
//! 2. Reads and checks answer at once, never run a callback, and see the callback's own commands.
//! 3. A command that has become void at its turn is dropped and logged with plugin and topic.

use std::any::Any;

use serde_json::{Map, Value};

use super::call_error::CallError;
use super::command::Command;
use super::remote::RemoteHandle;
use super::service::ServiceRequest;
use super::update::UpdateRequest;
use crate::eventlog::EventEntry;
use crate::job::{Job, JobId, State, Timestamp, Uid};
use crate::jobspec::Dependency;
use crate::queue::Queues;
use crate::resource::ResourceSet;
use crate::topic::TopicId;

/// What a host fills in for one callback: borrowed views.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    /// The seam to the host.
    pub host: &'a dyn Host,
    /// The topic that is called, not the wildcard by which a handler may have got it.
    pub topic: TopicId,
    /// The current job.
    pub job: Option<&'a Job>,
    /// What the topic has beside.
    pub detail: Detail<'a>,
}

/// What a topic has beside its job.
#[derive(Clone, Copy, Default)]
pub enum Detail<'a> {
    /// Nothing.
    #[default]
    None,
    /// `conf.update`: the instance's configuration.
    Conf(&'a Value),
    /// `job.dependency.SCHEME`: the dependency that is asked for.
    Dependency(&'a Dependency),
    /// `job.state.*`: where the job comes from, and the event that moved it. Both are missing when
    /// the job is introduced to a plugin.
    State {
        /// The state before.
        prev: Option<State>,
        /// The event.
        entry: Option<&'a EventEntry>,
    },
    /// `job.event.NAME`: the event.
    Event(&'a EventEntry),
    /// `job.update`: the new values by path.
    Updates(&'a Map<String, Value>),
    /// `job.update.KEY`: what is asked for.
    UpdateRequest(&'a UpdateRequest),
    /// A service: what is asked.
    Request(&'a ServiceRequest),
    /// An author's own topic: its payload.
    Own(&'a dyn Any),
}

impl<'a> Args<'a> {
    /// A call with nothing but host and topic.
    pub fn new(host: &'a dyn Host, topic: TopicId) -> Self {
        Self { host, topic, job: None, detail: Detail::None }
    }
}

/// What a callback can ask of its host.
pub trait Host {
    /// The time of this callback; all callbacks of one cause share it.
    fn now(&self) -> Timestamp;

    /// The user who owns the instance.
    fn owner(&self) -> Uid;

    /// All resources of the instance, as they are now.
    fn instance_resources(&self) -> &ResourceSet;

    /// The job that the callback is about; none in timers and completions.
    fn current(&self) -> Option<JobId>;

    /// A job by id: active, or inactive and not yet purged.
    fn job(&self, id: JobId) -> Option<&Job>;

    /// What this plugin can keep of what a job frees: what the scheduler gives out; none when the job has
    /// its resources from a plugin.
    fn freed(&self, id: JobId) -> Option<ResourceSet>;

    /// The plugin's data on a job, own writes of this callback included.
    fn data(&self, id: JobId) -> Option<Value>;

    /// The plugin's data on the instance, own writes of this callback included.
    fn instance_data(&self) -> Option<Value>;

    /// The instance's queues, as they are now.
    fn queues(&self) -> &Queues;

    /// Calls an author's own topic on all plugins that handle it, in load order, now. What their
    /// handlers ask for is queued with what this callback asks for.
    ///
    /// # Errors
    /// When there is no such job, a plugin is being called already, or a handler fails.
    fn call_topic(
        &self,
        topic: &'static str,
        job: Option<JobId>,
        payload: &dyn Any,
    ) -> Result<Vec<Box<dyn Any>>, CallError>;

    /// Checks a command against the job's state and the commands queued so far, and queues it.
    ///
    /// # Errors
    /// When the command can't have an effect; nothing is queued then.
    fn call(&self, command: Command) -> Result<(), CallError>;

    /// Queues a command that needs no check.
    fn push(&self, command: Command);

    /// The way back to the plugin from outside the manager's thread.
    fn remote(&self) -> RemoteHandle;
}
