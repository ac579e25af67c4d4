//! `job.validate` returns no priority.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.validate")]
    fn validate(&self, _job: &Job) -> Priority {
        Priority::new(1)
    }
}

fn main() {}
