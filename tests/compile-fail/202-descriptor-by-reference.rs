//! The description is lent by a type of its own.
use jobtap_core::prelude::*;
use jobtap_core::slurm::{JobDescriptor, SlurmError};

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("slurm.job_submit")]
    fn submit(&self, desc: &mut JobDescriptor) -> Result<(), SlurmError> {
        desc.time_limit = Some(60);
        Ok(())
    }
}

fn main() {}
