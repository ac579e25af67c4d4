//! A job that isn't accepted has no annotations.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.validate")]
    fn validate(&self, _job: &Job) -> Annotations {
        Annotations::new().with("site", "seen")
    }
}

fn main() {}
