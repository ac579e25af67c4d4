//! An unknown type is reported once, wherever a signature names it.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.validate")]
    fn validate(&self, _job: &Job) -> Result<(), Rejection> {
        Ok(())
    }
}

fn main() {}
