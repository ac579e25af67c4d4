//! The type of a context names its topic.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, cx: Cx<'_>) {
        let _ = cx.now();
    }
}

fn main() {}
