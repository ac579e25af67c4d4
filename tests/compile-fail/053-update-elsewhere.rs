//! A change is decided where it is asked for.
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
