//! What a shadow sees of the engine: what a live plugin would see, but its own data and dependencies in place of those
//! of the live plugin of its name.

use std::any::Any;

use serde_json::Value;

use crate::array::Progress;
use crate::dispatch::checks::{check, check_can_remove_dependency};
use crate::dispatch::host::CallbackHost;
use crate::dispatch::overlay;
use crate::host::{Command, Host, RemoteHandle};
use crate::job::{Job, JobId, Timestamp, Uid};
use crate::kept::Change;
use crate::plugin::CallError;
use crate::queue::Queues;
use crate::resource::ResourceSet;
use crate::shadows::Shadow;

/// What one callback of a shadow sees.
pub(super) struct ShadowHost<'e> {
    pub(super) live: CallbackHost<'e>,
    pub(super) shadow: &'e Shadow,
}

impl ShadowHost<'_> {
    /// Makes a job show the shadow what it has changed in earlier calls, as if that had been carried out.
    pub(super) fn show_own(&self, job: &Job) {
        let Some(own) = self.shadow.jobs.get(&job.id()) else { return };
        // If the job shows changes already, these are among them.
        if own.dependencies.is_empty() && own.updates.is_empty() || !job.overlay().is_empty() {
            return;
        }
        for (description, open) in &own.dependencies {
            let description = description.to_string();
            job.overlay().note(0, Change::Dependency { description, open: *open });
        }
        let mut jobspec = job.jobspec().clone();
        if !own.updates.is_empty() && jobspec.update_all(&own.updates).is_ok() {
            job.overlay().note(0, Change::Jobspec(Box::new(jobspec)));
        }
        self.live.buffer.add_noted(job.id());
    }

    /// Whether the shadow has last added or removed the dependency of this description; `None` if it has done neither.
    fn own_dependency(&self, id: JobId, wanted: &str) -> Option<bool> {
        let now = self.live.buffer.find_last(self.shadow.key(), |command| match command {
            Command::AddDependency { job, description } if *job == id && description == wanted => {
                Some(true)
            }
            Command::RemoveDependency { job, description }
                if *job == id && description == wanted =>
            {
                Some(false)
            }
            _ => None,
        });
        now.or_else(|| {
            let own = self.shadow.jobs.get(&id)?;
            let known = own.dependencies.iter().find(|(known, _)| **known == *wanted);
            known.map(|(_, open)| *open)
        })
    }
}

impl Host for ShadowHost<'_> {
    fn now(&self) -> Timestamp {
        self.live.now()
    }

    fn owner(&self) -> Uid {
        self.live.owner()
    }

    fn instance_resources(&self) -> &ResourceSet {
        self.live.instance_resources()
    }

    fn current(&self) -> Option<JobId> {
        self.live.current()
    }

    fn job(&self, id: JobId) -> Option<&Job> {
        match self.shadow.has_refused(id) {
            // Handlers such as `job.destroy` get the current job without this lookup.
            true => None,
            false => self.live.job(id).inspect(|job| self.show_own(job)),
        }
    }

    fn array(&self, id: JobId) -> Option<Progress> {
        self.live.array(id)
    }

    fn active_jobs(&self) -> Vec<JobId> {
        let mut jobs = self.live.active_jobs();
        jobs.retain(|id| !self.shadow.has_refused(*id));
        jobs
    }

    fn ended_jobs(&self, since: Timestamp) -> Vec<JobId> {
        let mut jobs = self.live.ended_jobs(since);
        jobs.retain(|id| !self.shadow.has_refused(*id));
        jobs
    }

    fn retainable(&self, id: JobId) -> Option<ResourceSet> {
        self.live.retainable(id)
    }

    fn data(&self, id: JobId) -> Option<Value> {
        let shadow = self.shadow;
        let written = self.live.buffer.find_last(shadow.key(), |command| match command {
            Command::SetData { job, value, .. } if *job == id => Some(value.clone()),
            _ => None,
        });
        written.or_else(|| match shadow.jobs.get(&id) {
            Some(own) => own.data.clone(),
            // The job was inactive when the shadow was loaded, so the data is as it was then.
            None if shadow.newest_at_load.is_some_and(|newest| id <= newest) => self.live.data(id),
            None => None,
        })
    }

    fn instance_data(&self) -> Option<Value> {
        let written = self.live.buffer.find_last(self.shadow.key(), |command| match command {
            Command::SetInstanceData { value, .. } => Some(value.clone()),
            _ => None,
        });
        written.or_else(|| self.shadow.instance_data.clone())
    }

    fn queues(&self) -> &Queues {
        self.live.queues()
    }

    /// A call could change the live plugins, so this behaves as if no plugin handled the topic.
    fn call_own_topic(
        &self,
        _: &'static str,
        job: Option<JobId>,
        _: &dyn Any,
    ) -> Result<Vec<Box<dyn Any>>, CallError> {
        match job.filter(|id| self.job(*id).is_none()) {
            Some(id) => Err(CallError::UnknownJob(id)),
            None => Ok(Vec::new()),
        }
    }

    fn call(&self, command: Command) -> Result<(), CallError> {
        let jobs = &self.live.core.jobs;
        match &command {
            Command::RemoveDependency { job, description }
                if self.own_dependency(*job, description) == Some(true) =>
            {
                check_can_remove_dependency(jobs, *job)?;
            }
            Command::AddDependency { job, description }
                if self.own_dependency(*job, description) == Some(false) =>
            {
                let description = description.clone();
                return Err(CallError::UsedDependency { job: *job, description });
            }
            command => check(jobs, command)?,
        }
        self.push(command);
        Ok(())
    }

    fn push(&self, command: Command) {
        let mark = self.live.buffer.mark();
        if let Some(id) = overlay::note(&self.live.core.jobs, mark, &command) {
            self.live.buffer.add_noted(id);
        }
        self.live.buffer.push(self.shadow.key(), command);
    }

    fn remote(&self) -> RemoteHandle {
        self.shadow.plugin.remote().clone()
    }
}
