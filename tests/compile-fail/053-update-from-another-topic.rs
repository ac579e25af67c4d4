//! Only `job.update.KEY` decides about an update.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.update")]
    fn updated(&self, _job: &Job) -> Update {
        Update::allow()
    }
}

fn main() {}
