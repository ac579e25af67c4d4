//! The jobspec of a job with resources stays.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
        let other = cx.active_job(JobId::new(job.id().as_u64() - 1))?;
        Ok(cx.jobspec_update_of(other, path!("attributes.system.queue"), "batch")?)
    }
}

fn main() {}
