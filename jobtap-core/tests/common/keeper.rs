//! A plugin that retains what jobs free. `attributes.system.h.free` of the job says for how long.

use std::cell::RefCell;

use jobtap_core::prelude::*;
use serde_json::Value;

thread_local! {
    /// What the plugin of this thread's manager retains. Tests read it here, since a query would be one more step at
    /// which the manager may crash.
    static RETAINED: RefCell<Vec<ResourceSet>> = const { RefCell::new(Vec::new()) };
}

/// Returns what is retained now.
pub(crate) fn retained() -> Vec<ResourceSet> {
    RETAINED.with_borrow(Clone::clone)
}

/// Retains what jobs free, until a time, a request or its own end.
#[derive(Default)]
pub(crate) struct Keeper {
    retained: Vec<Retained>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        RETAINED.with_borrow_mut(Vec::clear);
    }
}

impl Keeper {
    /// Frees these ranks of what was retained from one job, or from all jobs.
    fn free(&mut self, job: Option<JobId>, ranks: &Idset) {
        for retained in &mut self.retained {
            if job.is_none_or(|job| retained.job() == job) {
                retained.free(ranks);
            }
        }
        self.retained.retain(|retained| retained.resources().nnodes() > 0);
        self.publish();
    }

    fn publish(&self) {
        let sets = self.retained.iter().map(|retained| retained.resources().clone()).collect();
        RETAINED.with_borrow_mut(|retained| *retained = sets);
    }
}

#[jobtap_plugin(name = "keeper")]
impl Keeper {
    #[on("job.new")]
    fn watch(&self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
        Ok(cx.subscribe(job)?)
    }

    #[on("job.event.free")]
    fn freed(
        &mut self,
        job: &Job,
        cx: Cx<'_, JobEventFree>,
        remote: Remote<Self>,
    ) -> Result<(), HandlerError> {
        let how = job.jobspec().attribute("h.free").and_then(Value::as_u64).unwrap_or(0);
        if how == 0 {
            return Ok(());
        }
        let (id, retained) = (job.id(), cx.retain_resources()?);
        match how {
            1 => drop(retained),
            2 => return Err(HandlerError::new("on purpose")),
            // Retained until a request, the end of the manager, or the removal of the plugin.
            3 => self.retained.push(retained),
            how => {
                for (index, rank) in retained.resources().ranks().iter().enumerate() {
                    let when = cx.now() + (index as u64 + how) as f64;
                    remote.at(when, move |keeper, _| keeper.free(Some(id), &Idset::from(rank)));
                }
                self.retained.push(retained);
            }
        }
        self.publish();
        Ok(())
    }

    #[service("free")]
    fn free_ranks(&mut self, ranks: Request<Idset>) {
        self.free(None, &ranks);
    }

    #[service("panic")]
    fn panics(&self) {
        panic!("as asked");
    }
}
