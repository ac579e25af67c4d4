//! `#[on]` alone does nothing.
use jobtap_core::prelude::*;

struct Site;

impl Site {
    #[on("job.new")]
    fn new_job(&self, _job: &Job) {}
}

fn main() {
    let _ = Site::new_job;
}
