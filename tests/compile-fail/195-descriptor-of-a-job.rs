//! Slurm's description belongs to a request, and not to a job.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.validate")]
    fn validate(&self, desc: Descriptor<'_>) -> Result<(), Reject> {
        let _ = desc;
        Ok(())
    }
}

fn main() {}
