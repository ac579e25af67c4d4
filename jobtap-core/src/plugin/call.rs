//! One call of a handler: what the host hands in, untyped and typed.

use std::marker::PhantomData;

use serde_json::Value;

use super::host::Host;
use crate::eventlog::EventEntry;
use crate::job::{Job, State};
use crate::jobspec::Dependency;
use crate::topic::TopicSet;

/// What a host fills in for one callback: borrowed views, each present where the topic offers it.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    /// The seam to the host.
    pub host: &'a dyn Host,
    /// The current job.
    pub job: Option<&'a Job>,
    /// The state it was in before.
    pub prev_state: Option<State>,
    /// The event behind the callback.
    pub entry: Option<&'a EventEntry>,
    /// The dependency that is asked for.
    pub dependency: Option<&'a Dependency>,
    /// The instance's configuration.
    pub conf: Option<&'a Value>,
}

impl<'a> Args<'a> {
    /// A call with nothing but the host.
    pub fn new(host: &'a dyn Host) -> Self {
        Self {
            host,
            job: None,
            prev_state: None,
            entry: None,
            dependency: None,
            conf: None,
        }
    }
}

/// [`Args`] of a call at topic `T`, from which parameters are taken.
pub struct Call<'a, T: TopicSet> {
    pub(crate) args: Args<'a>,
    topic: PhantomData<T>,
}

impl<'a, T: TopicSet> Call<'a, T> {
    /// Reads `args` as a call at topic `T`.
    pub fn new(args: Args<'a>) -> Self {
        Self {
            args,
            topic: PhantomData,
        }
    }
}

impl<T: TopicSet> Clone for Call<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: TopicSet> Copy for Call<'_, T> {}
