//! A job that is to be submitted doesn't exist yet.
use jobtap_core::prelude::*;
use jobtap_core::slurm::SlurmError;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("slurm.job_submit")]
    fn submit(&self, job: &Job) -> Result<(), SlurmError> {
        let _ = job;
        Ok(())
    }
}

fn main() {}
