//! A misspelt topic is reported with the topic that was probably meant.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.stat.run")]
    fn run(&self, _job: &Job) {}
}

fn main() {}
