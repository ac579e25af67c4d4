//! A handler has no const parameters, since the manager can't choose their values.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job<const N: usize>(&self, _job: &Job) {}
}

fn main() {}
