//! A plugin can't come before itself.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site", after = ["site"])]
impl Site {
    #[on("job.new")]
    fn new_job(&self, _job: &Job) {}
}

fn main() {}
