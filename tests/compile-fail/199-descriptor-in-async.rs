//! What is changed in place ends with the callback.
use jobtap_core::prelude::*;
use jobtap_core::slurm::SlurmError;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("slurm.job_submit")]
    async fn submit(desc: Descriptor<'_>) -> Result<(), SlurmError> {
        let _ = desc;
        Ok(())
    }
}

fn main() {}
