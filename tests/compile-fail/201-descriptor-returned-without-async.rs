//! A handler that isn't `async` changes the description in place.
use jobtap_core::prelude::*;
use jobtap_core::slurm::{JobDescriptor, SlurmError};

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("slurm.job_submit")]
    fn submit(&self, desc: Descriptor<'_>) -> Result<JobDescriptor, SlurmError> {
        Ok(JobDescriptor { time_limit: Some(60), ..desc.clone() })
    }
}

fn main() {}
