//! `#[init]` builds the plugin, so it has no `self`.
use jobtap_core::prelude::*;

struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[init]
    fn new(&self) -> Self {
        Site
    }

    #[on("job.new")]
    fn new_job(&self, _job: &Job) {}
}

fn main() {}
