//! The macro can't know whether `cfg_attr` applies.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[cfg_attr(unix, on("job.new"))]
    fn new_job(&self, _job: &Job) {}
}

fn main() {}
