//! What Slurm calls a moment is answered with what serves here.
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
