//! The host that a handler sees during a callback.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::time::{SystemTime, UNIX_EPOCH};

use jobtap_core::host::{
    Args, Command, Detail, Fault, Host, HostKind, LoadedPlugin, RemoteHandle, call_own_handlers,
};
use jobtap_core::job::{Job, JobId, Timestamp, Uid};
use jobtap_core::plugin::{CallError, Level};
use jobtap_core::queue::Queues;
use jobtap_core::resource::ResourceSet;
use jobtap_core::topic::TopicId;
use serde_json::Value;

use super::core::{Core, Queued};

/// The host of one callback.
pub(super) struct Callback<'c> {
    pub(super) core: &'c Core,
    /// The plugin that is being called.
    pub(super) instance: Cell<&'c LoadedPlugin>,
    pub(super) job: Option<&'c Job>,
    pub(super) asked: RefCell<Vec<Queued>>,
    /// The jobs in the mirror that already show the commands in `asked`.
    pub(super) noted: RefCell<Vec<JobId>>,
}

impl Callback<'_> {
    /// Returns the commands of the callback, and the jobs that show them. A handler that fails doesn't change the
    /// jobspec. After a panic all commands are dropped, since they may be incomplete.
    pub(super) fn asked(self, fault: Option<&Fault>) -> (Vec<Queued>, Vec<JobId>) {
        let mut asked = self.asked.into_inner();
        match fault {
            None => {}
            Some(Fault::Panic(_)) => asked.clear(),
            Some(_) => {
                asked.retain(|(_, command)| !matches!(command, Command::UpdateJobspec { .. }));
            }
        }
        (asked, self.noted.into_inner())
    }
}

/// Returns the current time.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_secs(since.as_secs_f64())
}

impl Host for Callback<'_> {
    fn now(&self) -> Timestamp {
        now()
    }

    fn owner(&self) -> Uid {
        Uid(rustix::process::geteuid().as_raw())
    }

    fn instance_resources(&self) -> &ResourceSet {
        &self.core.resources
    }

    fn current(&self) -> Option<JobId> {
        self.job.map(Job::id)
    }

    /// Finds only the current job: Slurm's other jobs can't be looked up, since this thread doesn't hold Slurm's locks.
    fn job(&self, id: JobId) -> Option<&Job> {
        self.job.filter(|job| job.id() == id).or_else(|| self.core.mirror.job(id))
    }

    fn active_jobs(&self) -> Vec<JobId> {
        self.current().into_iter().collect()
    }

    fn retainable(&self, _: JobId) -> Option<ResourceSet> {
        None
    }

    fn data(&self, id: JobId) -> Option<Value> {
        let plugin = self.instance.get().key();
        let asked = self.asked.borrow();
        let written = asked.iter().rev().find_map(|(key, command)| match command {
            Command::SetData { job, value, .. } if *key == plugin && *job == id => {
                Some(value.clone())
            }
            _ => None,
        });
        written.or_else(|| self.core.data.get(&(plugin, id)).cloned())
    }

    fn instance_data(&self) -> Option<Value> {
        let plugin = self.instance.get().key();
        let asked = self.asked.borrow();
        let written = asked.iter().rev().find_map(|(key, command)| match command {
            Command::SetInstanceData { value, .. } if *key == plugin => Some(value.clone()),
            _ => None,
        });
        written.or_else(|| self.core.instance_data.get(&plugin).cloned())
    }

    fn queues(&self) -> &Queues {
        &self.core.queues
    }

    fn call_own_topic(
        &self,
        topic: &'static str,
        job: Option<JobId>,
        payload: &dyn Any,
    ) -> Result<Vec<Box<dyn Any>>, CallError> {
        let handlers = self.core.stack.own(topic);
        call_own_handlers(self, topic, &handlers, job, |bound, job| {
            let inner = Callback {
                core: self.core,
                instance: Cell::new(bound.instance()),
                job,
                asked: RefCell::default(),
                noted: RefCell::default(),
            };
            let detail = Detail::Own(payload);
            let args = Args { host: &inner, topic: TopicId::Unlisted, job, detail };
            let (result, _) = bound.call(&args, &self.core.ticks);
            let fault = result.as_ref().err().map(|fault| &**fault);
            let (asked, noted) = inner.asked(fault);
            self.asked.borrow_mut().extend(asked);
            self.noted.borrow_mut().extend(noted);
            if let Some(Fault::Panic(text)) = fault {
                self.core.log(bound.instance(), Level::Error, &format!("panicked: {text}"));
            }
            result
        })
    }

    fn call(&self, command: Command) -> Result<(), CallError> {
        // In a PrEp plugin, an asynchronous handler of a prolog or epilog begins with one of these commands.
        let is_prep = matches!(command, Command::StartProlog { .. } | Command::StartEpilog { .. });
        if !(is_prep && self.core.kind == HostKind::SlurmPrep) {
            let served = self.core.kind.check_call(&command);
            served
                .inspect_err(|error| self.core.log_unsupported_call(self.instance.get(), error))?;
        }
        if let Command::UpdateJobspec { .. } = command {
            self.core.mirror.check(self.instance.get().key(), &command)?;
        }
        self.push(command);
        Ok(())
    }

    fn push(&self, command: Command) {
        let mut asked = self.asked.borrow_mut();
        if let Command::UpdateJobspec { .. } = command {
            self.noted.borrow_mut().extend(self.core.mirror.note(asked.len(), &command));
        }
        asked.push((self.instance.get().key(), command));
    }

    fn remote(&self) -> RemoteHandle {
        self.instance.get().remote().clone()
    }
}
