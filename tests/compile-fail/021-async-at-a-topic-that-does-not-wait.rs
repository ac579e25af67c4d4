//! `job.new` doesn't wait for a handler.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    async fn new_job(job: JobInfo) {
        let _ = job.id;
    }
}

fn main() {}
