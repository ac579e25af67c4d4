//! A request in Slurm's terms is refused with one of Slurm's errors.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("slurm.job_submit")]
    fn submit(&self) -> Result<(), Reject> {
        Ok(())
    }
}

fn main() {}
