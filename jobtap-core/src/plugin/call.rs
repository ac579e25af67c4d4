//! One call of a handler: what the host hands in, untyped and typed.

use std::any::Any;
use std::marker::PhantomData;

use serde_json::{Map, Value};

use super::host::Host;
use super::service::ServiceRequest;
use super::update::UpdateRequest;
use crate::eventlog::EventEntry;
use crate::job::{Job, State};
use crate::jobspec::Dependency;
use crate::topic::{TopicId, TopicSet};

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

/// [`Args`] of a call at topic `T`, from which parameters are taken.
pub struct Call<'a, T: TopicSet> {
    pub(crate) args: &'a Args<'a>,
    topic: PhantomData<T>,
}

impl<'a, T: TopicSet> Call<'a, T> {
    /// Reads `args` as a call at topic `T`.
    pub fn new(args: &'a Args<'a>) -> Self {
        Self { args, topic: PhantomData }
    }

    /// The payload of an own topic; for the code that `#[topic]` makes.
    #[doc(hidden)]
    pub fn payload<O: 'static>(&self) -> Result<&'a O, super::Failure> {
        let payload = match self.args.detail {
            Detail::Own(payload) => payload.downcast_ref(),
            _ => None,
        };
        payload.ok_or(super::Failure::Input("two topics of one name have different payloads"))
    }
}

impl<T: TopicSet> Clone for Call<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: TopicSet> Copy for Call<'_, T> {}
