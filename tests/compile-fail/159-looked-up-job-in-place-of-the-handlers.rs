//! `&Job` is the job of the topic; a looked-up job has another type.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

fn watch(job: &Job, cx: &Cx<'_, JobNew>) -> Result<(), CallError> {
    cx.subscribe(job)
}

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
        let other = cx.job(JobId::new(job.id().as_u64() - 1))?;
        Ok(watch(&other, &cx)?)
    }
}

fn main() {}
