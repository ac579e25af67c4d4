//! `Updates` exist only after the change, in `job.update`.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.validate")]
    fn validate(&self, updates: Updates<'_>) -> Result<(), Reject> {
        let _ = updates.get("attributes.system.duration");
        Ok(())
    }
}

fn main() {}
