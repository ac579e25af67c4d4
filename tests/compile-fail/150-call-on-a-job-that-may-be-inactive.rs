//! A job that was looked up by `cx.job` may be inactive.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
        let other = cx.job(JobId::new(job.id().as_u64() - 1))?;
        Ok(cx.reprioritize(other, Priority::HELD)?)
    }
}

fn main() {}
