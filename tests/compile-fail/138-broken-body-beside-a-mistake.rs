//! An unreadable body hides no other mistake.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.validate")]
    fn validate(&self, job: &Job) -> Result<(), Reject> {
        let ntasks = job.jobspec().counts().ntasks
        if ntasks > 4 {
            return Err(Reject::new("too many tasks"));
        }
        Ok(())
    }

    #[on("job.newt")]
    fn new_job(&self, _job: &Job) {}
}

fn main() {}
