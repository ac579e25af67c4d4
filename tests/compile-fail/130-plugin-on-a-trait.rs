//! Handlers are the plugin's own methods.
use jobtap_core::prelude::*;

trait Watches {
    fn new_job(&self, job: &Job);
}

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Watches for Site {
    #[on("job.new")]
    fn new_job(&self, _job: &Job) {}
}

fn main() {
    let _ = Site;
}
