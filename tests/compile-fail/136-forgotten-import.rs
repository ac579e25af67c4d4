//! A missing import is reported once.
use jobtap_core::jobtap_plugin;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, job: &Job) {
        let _ = job;
    }
}

fn main() {}
