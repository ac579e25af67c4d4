//! A handler names a topic once.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new", "job.new")]
    fn new_job(&self, _job: &Job) {}
}

fn main() {}
