//! A handler on two topics may only make calls that both allow.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.run", "job.state.cleanup")]
    fn both(&self, cx: Cx<'_, (JobStateRun, JobStateCleanup)>) {
        let _ = cx.prolog_start("scratch");
    }
}

fn main() {}
