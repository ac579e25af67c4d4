//! This topic doesn't have this parameter.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.validate")]
    fn validate(&self, job: &Job, entry: &EventEntry) -> Result<(), Reject> {
        let _ = (job, entry);
        Ok(())
    }
}

fn main() {}
