//! A job changes by events, not in place.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, job: &mut Job) {
        let _ = job.id();
    }
}

fn main() {}
