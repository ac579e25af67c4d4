//! A context is taken by value.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, cx: &Cx<'_, JobNew>) {
        let _ = cx.now();
    }
}

fn main() {}
