//! `#[init]` returns the plugin.
use jobtap_core::prelude::*;

struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[init]
    fn new() -> Option<Self> {
        Some(Site)
    }

    #[on("job.new")]
    fn new_job(&self, _job: &Job) {}
}

fn main() {}
