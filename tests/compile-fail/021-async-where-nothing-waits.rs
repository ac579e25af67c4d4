//! `job.new` waits for nobody.
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
