//! `when` asks about a job, and a request has none yet.
use jobtap_core::prelude::*;
use jobtap_core::slurm::{JobDescriptor, SlurmError};

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("slurm.job_submit", when = |_, job| job.jobspec().attribute("data").is_some())]
    async fn submit(desc: JobDescriptor) -> Result<JobDescriptor, SlurmError> {
        Ok(desc)
    }
}

fn main() {}
