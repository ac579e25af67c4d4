//! A handler of `job.*` observes and decides nothing.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.*")]
    fn watch(&self, _job: &Job) -> Result<(), Reject> {
        Ok(())
    }
}

fn main() {}
