//! `alloc-bypass`: the instance's owner can give a job its resources past the scheduler, with
//! `--setattr=^alloc-bypass.R=FILE`.
//!
//! The job may share them with others. They are not taken from what the scheduler has, nor given back
//! to it.

use jobtap_core::prelude::*;

/// See the module.
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
        // A job that was submitted before this plugin was loaded may ask for what it can't have.
        given(job, &cx).ok().flatten()
    }
}

/// What a job brings along; none is the rule.
fn given<T: TopicSet>(job: &Job, cx: &Cx<'_, T>) -> Result<Option<ResourceSet>, Reject> {
    let Some(resources) = job.jobspec().attribute("alloc-bypass.R") else {
        return Ok(None);
    };
    if job.userid() != cx.owner() {
        return Err(Reject::new("Guest user cannot use alloc bypass"));
    }
    let resources = ResourceSet::from_value(resources);
    resources.map(Some).map_err(|error| Reject::new(format!("alloc-bypass: invalid R: {error}")))
}
