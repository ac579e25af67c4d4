//! `jobtap plugin remove all` removes every plugin.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "all")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, _job: &Job) {}
}

fn main() {}
