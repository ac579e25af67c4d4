//! A topic is no setting with a key.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on(topic = "job.new")]
    fn new_job(&self, _job: &Job) {}
}

fn main() {}
