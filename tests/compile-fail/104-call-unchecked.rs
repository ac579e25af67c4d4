//! The result of a call that can fail must be used.
#![deny(unused_must_use)]
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, job: &Job, cx: Cx<'_, JobNew>) {
        cx.subscribe(job);
    }
}

fn main() {}
