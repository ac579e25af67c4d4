//! The errors of all handlers are reported at once, beside those that the macro finds.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.newt")]
    fn new_job(&self, _job: &Job) {}

    #[on("job.validate")]
    fn validate(&self, _job: &Job) -> Priority {
        Priority::UNCHANGED
    }

    #[on("job.state.sched")]
    fn sched(&self, resources: &ResourceSet) {
        let _ = resources;
    }

    #[on("job.state.cleanup")]
    fn cleanup(&self, cx: Cx<'_, JobStateCleanup>) {
        let _token = cx.prolog_start("scrub");
    }
}

fn main() {}
