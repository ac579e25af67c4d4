//! A function is `#[init]` or a handler, not both.
use jobtap_core::prelude::*;

struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[init]
    #[on("conf.update")]
    fn new(_conf: Conf<serde_json::Value>) -> Self {
        Site
    }

    #[on("job.new")]
    fn new_job(&self, _job: &Job) {}
}

fn main() {}
