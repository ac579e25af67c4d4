//! A plugin has one handler for a topic.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn count(&self, _job: &Job) {}

    #[on("job.validate", "job.new")]
    fn watch(&self, _job: &Job) {}
}

fn main() {}
