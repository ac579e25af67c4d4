//! The engine as the [`Host`] of one callback.
//!
//! Reads show what the same callback has asked for before: `overlay` makes the jobs show it, and data is looked up in
//! the buffer. Checks of calls are in `checks`.

use std::any::Any;
use std::cell::Cell;

use serde_json::Value;

use super::buffer::CommandBuffer;
use super::call::call_nested;
use super::checks::{check, check_first_use};
use super::overlay;
use crate::alloc::retained;
use crate::array::Progress;
use crate::arrays::Array;
use crate::core::Core;
use crate::host::{Command, Fault, Host, LoadedPlugin, RemoteHandle, call_own_handlers};
use crate::job::{Job, JobId, Timestamp, Uid};
use crate::plugin::CallError;
use crate::queue::Queues;
use crate::resource::ResourceSet;

/// What one callback sees of the engine.
pub(crate) struct CallbackHost<'e> {
    pub(crate) core: &'e Core,
    /// The plugin that is being called. One host serves all handlers of a list.
    pub(crate) plugin: Cell<&'e LoadedPlugin>,
    pub(crate) current: Option<JobId>,
    pub(crate) buffer: &'e CommandBuffer,
}

impl Host for CallbackHost<'_> {
    fn now(&self) -> Timestamp {
        self.core.turn.clock.now
    }

    fn owner(&self) -> Uid {
        self.core.turn.owner
    }

    fn instance_resources(&self) -> &ResourceSet {
        &self.core.alloc.nodes.inventory
    }

    fn current(&self) -> Option<JobId> {
        self.current
    }

    fn job(&self, id: JobId) -> Option<&Job> {
        self.core.jobs.job(id)
    }

    fn array(&self, id: JobId) -> Option<Progress> {
        self.core.arrays.get(id).map(Array::progress)
    }

    fn active_jobs(&self) -> Vec<JobId> {
        self.core.jobs.active_where(|record| record.is_accepted())
    }

    fn ended_jobs(&self, since: Timestamp) -> Vec<JobId> {
        self.core.jobs.inactive.since(since).collect()
    }

    fn retainable(&self, id: JobId) -> Option<ResourceSet> {
        retained::retainable(&self.core.jobs, &self.core.alloc, self.plugin.get().key(), id)
    }

    fn data(&self, id: JobId) -> Option<Value> {
        let plugin = self.plugin.get();
        let written = self.buffer.find_last(plugin.key(), |command| match command {
            Command::SetData { job, value, .. } if *job == id => Some(value.clone()),
            _ => None,
        });
        written.or_else(|| {
            let record = self.core.jobs.get(id)?;
            let volatile =
                record.volatile_data.as_ref().and_then(|data| data.get(&**plugin.name()));
            volatile.or_else(|| record.data.get(&**plugin.name())).cloned()
        })
    }

    fn instance_data(&self) -> Option<Value> {
        let plugin = self.plugin.get();
        let written = self.buffer.find_last(plugin.key(), |command| match command {
            Command::SetInstanceData { value, .. } => Some(value.clone()),
            _ => None,
        });
        written.or_else(|| self.core.plugins.instance_data.get(&**plugin.name()).cloned())
    }

    fn queues(&self) -> &Queues {
        &self.core.alloc.queues
    }

    fn call_own_topic(
        &self,
        topic: &'static str,
        job: Option<JobId>,
        payload: &dyn Any,
    ) -> Result<Vec<Box<dyn Any>>, CallError> {
        let handlers = self.core.plugins.stack.own(topic);
        call_own_handlers(self, topic, &handlers, job, |bound, job| {
            // The buffer has the commands of the caller and of all handlers that it calls. The mark tells those
            // of this handler apart, if it fails.
            let mark = self.buffer.mark();
            let result = call_nested(self, bound, job, payload);
            match &result {
                // A busy plugin is already being called further up in this chain of calls.
                Ok(_) | Err(Fault::Busy) => {}
                Err(Fault::Failure(_)) => {
                    self.buffer.drop_updates(mark);
                    overlay::undo(&self.core.jobs, &self.buffer.noted(), mark, true);
                }
                Err(Fault::Panic(text)) => {
                    // Counted and logged after the callback, when the engine can be changed.
                    self.buffer.truncate(mark);
                    overlay::undo(&self.core.jobs, &self.buffer.noted(), mark, false);
                    self.buffer.push_panic(bound.plugin(), text.clone());
                }
            }
            result.map_err(Box::new)
        })
    }

    fn call(&self, command: Command) -> Result<(), CallError> {
        check(&self.core.jobs, &command)?;
        if let Command::AddDependency { job, description } = &command {
            let plugin = self.plugin.get().key();
            check_first_use(&self.core.jobs, plugin, *job, description)?;
        }
        self.push(command);
        Ok(())
    }

    fn push(&self, command: Command) {
        if let Some(id) = overlay::note(&self.core.jobs, self.buffer.mark(), &command) {
            self.buffer.add_noted(id);
        }
        self.buffer.push(self.plugin.get().key(), command);
    }

    fn remote(&self) -> RemoteHandle {
        self.plugin.get().remote().clone()
    }
}
