//! There is no job when a plugin is built.
use jobtap_core::prelude::*;

struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[init]
    fn new(_job: &Job) -> Self {
        Site
    }

    #[on("job.new")]
    fn new_job(&self, _job: &Job) {}
}

fn main() {}
