//! `alloc-check`: raises a fatal exception on a job that is allocated resources of another job.
//!
//! It is for tests of schedulers, and of `alloc-bypass`, which makes this possible.

use std::collections::BTreeSet;

use jobtap_core::eventlog::Name;
use jobtap_core::prelude::*;

/// The plugin `alloc-check`.
#[derive(Debug, Default)]
pub struct AllocCheck {
    allocated: ResourceSet,
    /// The jobs that have these resources.
    holders: BTreeSet<JobId>,
}

const EXCEPTION: &str = "alloc-check";
const RESTARTED: &str = "scheduler-restart";

#[jobtap_plugin(name = "alloc-check", load = "by-name")]
impl AllocCheck {
    #[on("job.new")]
    fn arrived(&mut self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
        // An existing job has its resources, unless it ended with one of this plugin's exceptions or with a
        // restart of the scheduler.
        let holds = job.event_posted(Name::Alloc) && !job.event_posted(Name::Free);
        let ended = job.end_event().and_then(EventEntry::fatal_exception);
        if holds && !ended.is_some_and(|raised| [EXCEPTION, RESTARTED].contains(&raised.kind)) {
            self.take(job);
        }
        Ok(cx.subscribe(job)?)
    }

    #[on("job.event.alloc")]
    fn alloc(&mut self, job: &Job, cx: Cx<'_, JobEventAlloc>) -> Result<(), HandlerError> {
        if job.resources().is_some_and(|resources| self.allocated.intersects(resources)) {
            return Ok(cx.fail(EXCEPTION, "resources already allocated")?);
        }
        self.take(job);
        Ok(())
    }

    #[on("job.event.free")]
    fn free(&mut self, job: &Job) {
        if let Some(resources) = job.resources().filter(|_| self.holders.remove(&job.id())) {
            self.allocated.subtract(resources);
        }
    }

    /// A restart of the scheduler may have taken the resources from the job.
    #[on("job.event.exception")]
    fn exception(&mut self, job: &Job, entry: &EventEntry) {
        if entry.fatal_exception().is_some_and(|raised| raised.kind == RESTARTED) {
            self.free(job);
        }
    }

    fn take(&mut self, job: &Job) {
        if let Some(resources) = job.resources() {
            self.holders.insert(job.id());
            self.allocated.union_with(resources);
        }
    }
}
