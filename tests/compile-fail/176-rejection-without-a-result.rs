//! A handler that always returns `Reject` would refuse every job.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.validate")]
    fn validate(&self, _job: &Job) -> Reject {
        Reject::new("no more than 4 tasks here")
    }
}

fn main() {}
