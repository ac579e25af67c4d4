//! No client waits for a response at a topic.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, responder: Responder<u32>) {
        drop(responder);
    }
}

fn main() {}
