//! `alloc-bypass`: lets the instance's owner set the R of a job with `--setattr=^alloc-bypass.R=FILE`,
//! without the scheduler.
//!
//! The pool doesn't count these resources as allocated, so the job may share them with others.

use jobtap_core::json_type;
use jobtap_core::prelude::*;

/// The plugin `alloc-bypass`.
#[derive(Debug, Default)]
pub struct AllocBypass;

#[jobtap_plugin(name = "alloc-bypass", load = "by-name")]
impl AllocBypass {
    #[on("job.validate")]
    fn validate(&self, job: &Job, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
        if given(job, &cx)?.is_some() && job.state() == State::New {
            cx.set_flag(job, JobFlag::AllocBypass)?;
        }
        Ok(())
    }

    #[on("job.state.sched")]
    fn give(&self, job: &Job, cx: Cx<'_, JobStateSched>) -> Option<ResourceSet> {
        // A job that was submitted before this plugin was loaded has not been validated by it, so an
        // invalid R is possible here. Such a job is left to the scheduler.
        given(job, &cx).ok().flatten()
    }
}

/// The R that a job sets, if any.
fn given<T: TopicSet>(job: &Job, cx: &Cx<'_, T>) -> Result<Option<ResourceSet>, Reject> {
    if let Some(table) = job.jobspec().attribute("alloc-bypass")
        && !table.is_object()
    {
        let text = "invalid system.alloc-bypass.R: Expected object, got ";
        return Err(Reject::new(format!("{text}{}", json_type(table))));
    }
    let Some(resources) = job.jobspec().attribute("alloc-bypass.R") else {
        return Ok(None);
    };
    if job.userid() != cx.owner() {
        return Err(Reject::new("Guest user cannot use alloc bypass"));
    }
    let resources = ResourceSet::from_value(resources);
    resources.map(Some).map_err(|error| Reject::new(format!("alloc-bypass: invalid R: {error}")))
}
