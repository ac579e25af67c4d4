//! A request that isn't answered is gone after a restart.
use jobtap_core::prelude::*;
use jobtap_core::slurm::SlurmError;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("slurm.job_modify", on_restart = "rerun")]
    async fn modify() -> Result<(), SlurmError> {
        Ok(())
    }
}

fn main() {}
