//! Calls don't need a mutable context.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, cx: &mut Cx<'_, JobNew>) {
        cx.reprioritize_all();
    }
}

fn main() {}
