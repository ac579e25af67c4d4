//! A job is refused with a sentence, not with one of Slurm's errors.
use jobtap_core::prelude::*;
use jobtap_core::slurm::SlurmError;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.validate")]
    fn validate(&self) -> Result<(), SlurmError> {
        Ok(())
    }
}

fn main() {}
