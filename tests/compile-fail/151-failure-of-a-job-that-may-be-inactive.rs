//! Only an active job can be failed.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
        let other = cx.job(JobId::new(job.id().as_u64() - 1))?;
        cx.fail_job(other, "site", "no two jobs in a row");
        Ok(())
    }
}

fn main() {}
