//! The name of an event is checked at compile time.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
        Ok(cx.post_event(job, "site.seen", serde_json::json!({}))?)
    }
}

fn main() {}
