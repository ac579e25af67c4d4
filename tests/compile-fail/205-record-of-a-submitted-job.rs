//! Only a job that exists has a record.
use jobtap_core::prelude::*;
use jobtap_core::slurm::{JobRecord, SlurmError};

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("slurm.job_submit")]
    fn submit(&self, job: &JobRecord) -> Result<(), SlurmError> {
        let _ = job;
        Ok(())
    }
}

fn main() {}
