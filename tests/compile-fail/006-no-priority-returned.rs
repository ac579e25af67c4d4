//! `job.priority.get` must return a priority.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.priority.get")]
    fn priority(&self, _job: &Job) {}
}

fn main() {}
