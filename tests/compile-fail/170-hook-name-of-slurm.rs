//! The name of a hook of Slurm is reported with the topic that corresponds to it.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job_submit")]
    fn submit(&self, _job: &Job) -> Result<(), Reject> {
        Ok(())
    }
}

fn main() {}
