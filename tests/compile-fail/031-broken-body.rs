//! An error in a handler's body is the only one that is reported.
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
}

fn main() {}
