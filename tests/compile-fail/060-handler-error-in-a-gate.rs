//! The error of a gate goes to the user, not to the log.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.validate")]
    fn validate(&self, _job: &Job) -> Result<(), HandlerError> {
        Err(HandlerError::new("no license server"))
    }
}

fn main() {}
