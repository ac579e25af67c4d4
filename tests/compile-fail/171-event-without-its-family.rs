//! An event is a member of `job.event.*`.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.exception")]
    fn exception(&self, _job: &Job) {}
}

fn main() {}
