//! No order satisfies both.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site", before = ["limits"], after = ["limits"])]
impl Site {
    #[on("job.new")]
    fn new_job(&self, _job: &Job) {}
}

fn main() {}
