//! A plugin that keeps what jobs free, as long as they ask for under `attributes.system.h.free`.

use std::cell::RefCell;

use jobtap_core::prelude::*;
use serde_json::Value;

thread_local! {
    /// What the plugin of this thread's manager keeps: to ask the manager would be one more step that it
    /// may crash in.
    static KEPT: RefCell<Vec<ResourceSet>> = const { RefCell::new(Vec::new()) };
}

/// What is kept by now.
pub(crate) fn kept() -> Vec<ResourceSet> {
    KEPT.with_borrow(Clone::clone)
}

#[derive(Default)]
pub(crate) struct Keeper {
    kept: Vec<Retained>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        KEPT.with_borrow_mut(Vec::clear);
    }
}

impl Keeper {
    fn give_back(&mut self, job: JobId, ranks: &Idset) {
        for kept in self.kept.iter_mut().filter(|kept| kept.job() == job) {
            kept.free(ranks);
        }
        self.kept.retain(|kept| kept.resources().nnodes() > 0);
        self.tell();
    }

    fn tell(&self) {
        let sets = self.kept.iter().map(|kept| kept.resources().clone()).collect();
        KEPT.with_borrow_mut(|kept| *kept = sets);
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
        let (id, kept) = (job.id(), cx.retain_resources()?);
        match how {
            1 => drop(kept),
            2 => return Err(HandlerError::new("on purpose")),
            // Until the manager ends, or the plugin is removed.
            3 => self.kept.push(kept),
            how => {
                for (index, rank) in kept.resources().ranks().iter().enumerate() {
                    let when = cx.now() + (index as u64 + how) as f64;
                    remote.at(when, move |keeper, _| keeper.give_back(id, &Idset::from(rank)));
                }
                self.kept.push(kept);
            }
        }
        self.tell();
        Ok(())
    }
}
